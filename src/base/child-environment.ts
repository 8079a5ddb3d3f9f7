/**
 * The environment that a program an agent starts gets: a few harmless variables of the host and what the call adds. Pure.
 * Called by the tool `shell` and the capability `proc`.
 *
 * The host's own environment may hold tokens and keys, so nothing is passed on that is not named here.
 */

import { fail } from '../wire/errors.ts';
import { shown } from './workspace/file-error.ts';

const passedOn = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LANGUAGE', 'TERM', 'TMPDIR', 'TZ'];
const DEFAULT_PATH = '/usr/local/bin:/usr/bin:/bin';

/** Variables that make other programs load code or look for it elsewhere. */
const refused = new Set([
  'PATH',
  'IFS',
  'ENV',
  'BASH_ENV',
  'BASHOPTS',
  'SHELLOPTS',
  'PS4',
  'PROMPT_COMMAND',
  'GCONV_PATH',
  'GLIBC_TUNABLES',
  'NODE_OPTIONS',
  'NODE_PATH',
  'NODE_EXTRA_CA_CERTS',
  'PYTHONHOME',
  'PYTHONPATH',
  'PYTHONSTARTUP',
  'PYTHONINSPECT',
  'PERL5DB',
  'PERL5LIB',
  'PERL5OPT',
  'RUBYLIB',
  'RUBYOPT',
  'JAVA_TOOL_OPTIONS',
  'JDK_JAVA_OPTIONS',
  '_JAVA_OPTIONS',
  'GIT_EXEC_PATH',
  'GIT_SSH',
  'GIT_SSH_COMMAND',
  'GIT_EXTERNAL_DIFF',
  'GIT_PROXY_COMMAND',
  'GIT_TEMPLATE_DIR',
  'GIT_ASKPASS',
  'SSH_ASKPASS',
  'LESSOPEN',
  'LESSCLOSE',
]);
/** The loaders of Linux and macOS, and the settings of git, which name programs. */
const refusedPrefixes = ['LD_', 'DYLD_', 'GIT_CONFIG'];
/** Variables that name a program for a shell to run. */
const naming = new Set([
  'PAGER',
  'GIT_PAGER',
  'MANPAGER',
  'EDITOR',
  'VISUAL',
  'GIT_EDITOR',
  'GIT_SEQUENCE_EDITOR',
  'BROWSER',
]);
/** What such a variable may be: nothing, or a program that does nothing. */
const harmless = new Set(['', 'cat', 'true', ':']);

/**
 * The variables for one program. Fails with `tool_denied` (`env_refused`) for a variable that changes what programs
 * load, and with `tool_error` (`bad_env`) for a name or value no environment can hold.
 */
export function childEnvironment(
  added: Readonly<Record<string, string>>,
  host: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const environment: Record<string, string> = { PATH: DEFAULT_PATH };
  for (const [name, value] of Object.entries(host)) {
    if (value !== undefined && (passedOn.includes(name) || name.startsWith('LC_'))) environment[name] = value;
  }
  for (const [name, value] of Object.entries(added)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || value.includes('\0')) {
      throw fail('tool_error', `"${shown(name)}" cannot be an environment variable`, {
        reason: 'bad_env',
        name: shown(name),
      });
    }
    const upper = name.toUpperCase();
    const isRefused = refused.has(upper) || refusedPrefixes.some((prefix) => upper.startsWith(prefix));
    if (isRefused || (naming.has(upper) && !harmless.has(value))) {
      throw fail('tool_denied', `the environment variable ${shown(name)} may not be set`, {
        reason: 'env_refused',
        name: shown(name),
      });
    }
    environment[name] = value;
  }
  return environment;
}
