/**
 * The environment of a program that a request starts: a few harmless variables of the host, and those of the request
 * that are harmless, that a rule or a grant names, or that an administrator sets. Pure.
 *
 * The host's own environment may hold tokens and keys, and a variable of a request can make a program run code: nothing
 * is passed on that is not named. Values count too: `PAGER=cat` is harmless, `PAGER=./x` is not.
 */

import { fail, type HandfastError } from '../wire/errors.ts';
import { shown } from './workspace/file-error.ts';

const passedOn = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LANGUAGE', 'TERM', 'TMPDIR', 'TZ'];
const DEFAULT_PATH = '/usr/local/bin:/usr/bin:/bin';

/** The name of a locale or a terminal: no path to a file of messages or of a terminal's description. */
const WORD = /^[\w.@:+-]{0,64}$/;
const NUMBER = /^\d{0,5}$/;
/** A zone of the system's own folder, or one that is spelled out. */
const ZONE = /^(?![/:])(?!.*\.\.)[\w.,:<>/+-]{0,64}$/;
const PROMPT = /^[\w .,:;>#~@+-]{0,64}$/;
/** Nothing, or a program that does nothing. */
const NO_PROGRAM = /^(?:|cat|true|:)$/;

/** Variables that each request may set, by the values that are harmless. `docs/security/rights.md` shows this table. */
export const HARMLESS_VARIABLES: ReadonlyMap<string, RegExp> = new Map([
  ...each('LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_MONETARY LC_NUMERIC LC_TIME', WORD),
  ...each('TERM COLORTERM NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE CI', WORD),
  ...each('COLUMNS LINES', NUMBER),
  ...each('TZ', ZONE),
  ...each('PS1 PS2', PROMPT),
  ...each('PAGER GIT_PAGER MANPAGER EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR BROWSER', NO_PROGRAM),
]);

/**
 * Variables that name a program, code to load, a file to write or the place of a configuration. Only their exact name in a rule or
 * a grant allows them. The list serves administrators and grants with a wildcard; for all others a variable that is not named is refused.
 */
const NAMES_CODE = new Set(
  [
    'PATH HOME SHELL IFS ENV CDPATH PS0 PS3 PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS FPATH ZDOTDIR INPUTRC FCEDIT HISTFILE TMPDIR USER LOGNAME',
    'PAGER MANPAGER EDITOR VISUAL SUDO_EDITOR SUDO_ASKPASS SYSTEMD_EDITOR SYSTEMD_PAGER BROWSER MANOPT MANROFFSEQ MANROFFOPT MANPATH MANSECT GROFF_COMMAND_PREFIX',
    'LOCPATH NLSPATH TERMINFO TERMINFO_DIRS TERMCAP TZDIR GCONV_PATH GLIBC_TUNABLES GETCONF_DIR HOSTALIASES RESOLV_HOST_CONF RES_OPTIONS MALLOC_TRACE',
    'MAKE MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKEFILES MAKEFILE_LIST MAKEOVERRIDES TAR_OPTIONS TAPE GZIP BZIP BZIP2 XZ_OPT XZ_DEFAULTS ZSTD_CLEVEL ZIPOPT UNZIP UNZIPOPT TAR_RSH POSIXLY_CORRECT GREP_OPTIONS',
    'APT_CONFIG GREP CMP DIFF YACC LEX M4 M4PATH RIPGREP_CONFIG_PATH FZF_DEFAULT_OPTS FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS_FILE BAT_PAGER BAT_CONFIG_PATH DELTA_PAGER ACKRC',
    'CC CXX CPP LD AR AS FC CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDLIBS LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH COMPILER_PATH GCC_EXEC_PREFIX CONFIG_SITE CONFIG_SHELL ACLOCAL_PATH PKG_CONFIG PKG_CONFIG_PATH',
    'CLASSPATH JAVA_HOME JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS JAVA_OPTS MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS GRADLE_USER_HOME M2_HOME ANT_OPTS ANT_ARGS SBT_OPTS JVM_OPTS',
    'RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTDOC RUSTFLAGS RUSTDOCFLAGS RUSTUP_HOME RUSTUP_TOOLCHAIN GOFLAGS GOENV GOPATH GOROOT GOTOOLDIR GOTOOLCHAIN CGO_CFLAGS CGO_LDFLAGS',
    'PIP_CONFIG_FILE PIP_INDEX_URL PIP_EXTRA_INDEX_URL VIRTUAL_ENV UV_CONFIG_FILE COMPOSER_HOME BUNDLE_GEMFILE GEM_HOME GEM_PATH RUBYLIB RUBYOPT RUBYSHELL LUA_INIT LUA_PATH LUA_CPATH PHPRC PHP_INI_SCAN_DIR R_PROFILE R_PROFILE_USER R_ENVIRON R_ENVIRON_USER R_LIBS TCLLIBPATH GUILE_LOAD_PATH JULIA_LOAD_PATH',
    'AWKPATH AWKLIBPATH AWK_HASH LESS LESSOPEN LESSCLOSE LESSKEY LESSKEYIN LESSKEY_SYSTEM LESSEDIT LESSHISTFILE MORE VIMINIT EXINIT MYVIMRC GVIMINIT VIM VIMRUNTIME EMACSLOADPATH',
    'SSH_ASKPASS SSH_AUTH_SOCK SSH_SK_PROVIDER RSYNC_RSH RSYNC_CONNECT_PROG RSYNC_PROXY CVS_RSH SVN_SSH HGRCPATH HGEDITOR HGMERGE HG DOCKER_CONFIG DOCKER_HOST KUBECONFIG KUBE_EDITOR AWS_CONFIG_FILE GNUPGHOME PGSERVICEFILE PSQLRC PSQL_EDITOR PSQL_PAGER MYSQL_HOME SQLITE_HISTORY CURL_HOME WGETRC SYSTEM_WGETRC NETRC OPENSSL_CONF OPENSSL_CONF_INCLUDE OPENSSL_ENGINES OPENSSL_MODULES SSLKEYLOGFILE',
    'ANSIBLE_CONFIG TF_CLI_CONFIG_FILE TF_CLI_ARGS TEXMFCNF TEXINPUTS GTK_MODULES QT_PLUGIN_PATH GIO_MODULE_DIR GIO_EXTRA_MODULES',
  ].flatMap((names) => names.split(' ')),
);
const NAMES_CODE_BY_PREFIX =
  'LD_ DYLD_ BASH_ GIT_ PYTHON PERL RUBY_ NODE_ NPM_ YARN_ PNPM_ BUN_ DENO_ CARGO_ HANDFAST_ XDG_ MAKE_ PIP_ UV_ BUNDLE_ ELECTRON_ DOTNET_ CORECLR_ COR_ JULIA_ LUA_ GCC_ CCACHE_ ASAN_ LSAN_ UBSAN_ TSAN_ GUILE_ MOZ_'.split(
    ' ',
  );
/** Members of these families that name no code. */
const NO_CODE = new Set(
  'GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS NODE_ENV NODE_NO_WARNINGS NODE_DISABLE_COLORS PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK CARGO_TERM_COLOR DOTNET_NOLOGO'.split(
    ' ',
  ),
);

function each(names: string, values: RegExp): [string, RegExp][] {
  return names.split(' ').map((name) => [name, values]);
}

/** Returns true for a variable that can make a program run or load code, write a file, or read another configuration. */
export function namesCode(name: string): boolean {
  const upper = name.toUpperCase();
  if (NO_CODE.has(upper)) return false;
  return NAMES_CODE.has(upper) || NAMES_CODE_BY_PREFIX.some((prefix) => upper.startsWith(prefix));
}

/** The variables that a request may set beside the harmless ones. */
export interface VariableRights {
  /** A rule of the program, or a grant, has this very name. */
  named?(name: string, value: string): boolean;
  /** A wildcard of a grant covers the name, or the principal is an administrator. */
  covered?(name: string): boolean;
  /** The setting that would allow it, with its value; for the message. */
  remedy?(name: string): string | undefined;
}

/**
 * Returns the variables for one program. Fails with `tool_denied` (`env_refused`) for a variable that the request may
 * not set, and with `tool_error` (`bad_env`) for a name or value that no environment can hold.
 */
export function childEnvironment(
  added: Readonly<Record<string, string>>,
  host: Readonly<Record<string, string | undefined>>,
  rights: VariableRights = {},
): Record<string, string> {
  const environment = new Map([['PATH', DEFAULT_PATH]]);
  for (const [name, value] of Object.entries(host)) {
    if (value !== undefined && (passedOn.includes(name) || name.startsWith('LC_'))) environment.set(name, value);
  }
  for (const [name, value] of Object.entries(added)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || value.includes('\0')) {
      throw fail('tool_error', `"${shown(name)}" cannot be an environment variable`, {
        reason: 'bad_env',
        name: shown(name),
      });
    }
    if (!maySet(name, value, rights)) throw refusedVariable(name, rights.remedy?.(name));
    environment.set(name, value);
  }
  return Object.fromEntries(environment);
}

/** Variables as a client gives them: an object, or the pairs of an editor. Nothing in them is checked. */
export function givenVariables(env: unknown): readonly (readonly unknown[])[] {
  if (typeof env !== 'object' || env === null) return [];
  return Array.isArray(env)
    ? env.map((pair: { name?: unknown; value?: unknown } | null) => [pair?.name, pair?.value])
    : Object.entries(env);
}

/** Returns true if a request with these rights may set the variable. */
export function maySet(name: string, value: string, { named, covered }: VariableRights): boolean {
  if (HARMLESS_VARIABLES.get(name)?.test(value) === true) return true;
  if (isReserved(name)) return false;
  return named?.(name, value) === true || (covered?.(name) === true && !namesCode(name));
}

/**
 * Returns true for variables by which the processes of a host are found, its programs configured, and the programs of
 * rules looked up.
 */
const isReserved = (name: string): boolean => /^(?:PATH$|HANDFAST_)/i.test(name);

/** Returns the error for a variable that a request may not set. */
export function refusedVariable(name: string, remedy: string | undefined): HandfastError {
  const advice = remedy === undefined || isReserved(name) ? '' : `; ${remedy}`;
  return fail('tool_denied', `a request may not set the environment variable ${shown(name)}${advice}`, {
    reason: 'env_refused',
    name: shown(name),
  });
}
