/**
 * Variables in a command line: those that name a program, and those that make one load code, use another configuration or find
 * other programs. They stand in assignments before a command, in exported ones and behind `env`. Pure.
 */
import { HARMLESS_VARIABLES, namesCode } from '../../../base/child-environment.ts';

/** An assignment may start a command line in its value, one that is perhaps in it, or anything. */
export type Assigned = 'script' | 'perhaps' | 'anything';

/** The value is a command line. */
const COMMANDS =
  /^(?:(?:[A-Z\d]+_)*(?:PAGER|EDITOR|VISUAL|BROWSER|ASKPASS|RSH|SSH|SSH_COMMAND|PROXY_COMMAND|EXTERNAL_DIFF|COMMAND|WRAPPER|SHELL|MERGE|LAUNCHER)|PS[0-4]|LESSOPEN|LESSCLOSE|LESSEDIT|FCEDIT|MAKE|CC|CXX|CPP|LD|AS|FC|RUSTC|RUSTDOC|CONFIG_SHELL|PKG_CONFIG|MAN_?POSIXLY|GIT_SEQUENCE_EDITOR|HG|RSYNC_CONNECT_PROG)$/;
/** Flags and folders of build tools, which name files of the folder at most. */
const BUILD =
  /^(?:\w*FLAGS|LDLIBS|PYTHONPATH|JAVA_HOME|GOPATH|GOBIN|GOROOT|CGO_ENABLED|VIRTUAL_ENV|TMPDIR|USER|LOGNAME|POSIXLY_CORRECT|GEM_HOME|CARGO_(?:HOME|TARGET_DIR|INCREMENTAL|BUILD_JOBS|NET_\w+)|RUSTUP_TOOLCHAIN|DOTNET_\w+|NPM_TOKEN|npm_config_(?:loglevel|cache|registry|yes|audit|fund|progress)|PKG_CONFIG_PATH|LC_\w+|GZIP|XZ_OPT|AR|CPATH|LIBRARY_PATH|DOCKER_HOST|DOCKER_BUILDKIT|KUBECONFIG|AWS_\w+|MOZ_HEADLESS)$/;
const MAKE_FLAGS = /^(?:MAKEFLAGS|MFLAGS|GNUMAKEFLAGS)$/;
const NODE_OPTIONS =
  /^(?:(?:--(?:max-old-space-size=\d+|no-warnings|no-deprecation|enable-source-maps|trace-\w+|experimental-(?:vm-modules|strip-types)|unhandled-rejections=\w+|openssl-legacy-provider|throw-deprecation|test)) ?)*$/;
/** Folders of the system and of the user, and those in which package managers put programs. */
const PATHS =
  /^(?:(?:\$PATH|\$\{PATH\}|(?:\$HOME|\$\{HOME\}|~)\/[\w./-]*bin|\/(?:usr\/|usr\/local\/|opt\/[\w./-]+\/|home\/\w+\/[\w./-]*|root\/[\w./-]*)?s?bin|(?:\.\/|\$PWD\/|\$\(pwd\)\/)?(?:node_modules\/\.bin|\.?venv\/bin|vendor\/bin))(?::|$))+$/;

/** Reads an assignment. `value` is undefined where it is known only when the line runs; `text` is as it is written. */
export function assignedTo(name: string, value: string | undefined, text: string): Assigned {
  if (value !== undefined && HARMLESS_VARIABLES.get(name)?.test(value) === true) return 'perhaps';
  if (name === 'PATH') return PATHS.test(text.replaceAll(/["']/g, '')) ? 'perhaps' : 'anything';
  if (name === 'NODE_OPTIONS' && value !== undefined && NODE_OPTIONS.test(value)) return 'perhaps';
  if (MAKE_FLAGS.test(name) && value !== undefined && /^[-bijkls\d ]*$/.test(value)) return 'perhaps';
  if (COMMANDS.test(name)) return value === undefined ? 'anything' : 'script';
  if (BUILD.test(name) && !MAKE_FLAGS.test(name)) return 'perhaps';
  return namesCode(name) ? 'anything' : 'perhaps';
}
