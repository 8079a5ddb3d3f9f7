/**
 * `handfast rpc`, the fast path: reads its few options itself and loads neither the command line library nor, without a
 * configuration file, the code that reads one. The program that started this process waits for its handshake.
 *
 * Words that it does not know go to `program.ts`, which has the help and the errors for them.
 */
import type { RpcFlags } from './serve-rpc.ts';

/** The file that is read when none is named. */
const DEFAULT_FILE = 'handfast.yaml';

/** The options that have a value, and their member of the flags. */
const VALUES: Readonly<Record<string, keyof RpcFlags>> = {
  '--config': 'config',
  '--backend': 'backend',
  '--cwd': 'cwd',
  '--server-name': 'serverName',
};

/** Serves until the input ends, a signal, or `system.shutdown`; resolves with the exit code. */
export async function run(words: readonly string[]): Promise<number> {
  const flags = readFlags(words);
  if (flags === undefined) return (await import('../program.ts')).run(['rpc', ...words]);
  try {
    // Not imported: that would load the promises of the file system too, and all that they need.
    const { existsSync } = process.getBuiltinModule('node:fs');
    if (flags.config === undefined && !existsSync(DEFAULT_FILE)) {
      await (await import('./rpc-default.ts')).serveDefaults(flags);
    } else await (await import('../commands/rpc.ts')).rpc(flags);
    return 0;
  } catch (error) {
    return (await import('../failure.ts')).reportFailure(error, false);
  }
}

/** Returns the flags; undefined for anything that is not an option of this command with its value. */
function readFlags(words: readonly string[]): RpcFlags | undefined {
  const flags: Partial<Record<keyof RpcFlags, string | boolean>> = {};
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string;
    if (word === '--verbose') {
      flags.verbose = true;
      continue;
    }
    const equals = word.indexOf('=');
    const name = VALUES[equals === -1 ? word : word.slice(0, equals)];
    const value = equals === -1 ? words[++at] : word.slice(equals + 1);
    if (name === undefined || value === undefined || value === '' || value.startsWith('-')) return undefined;
    flags[name] = value;
  }
  return flags as RpcFlags;
}
