/**
 * `handfast stdio` without a configuration file. Everything this file reaches is loaded before the first handshake is
 * answered, so it reaches little; `scripts/build.ts` may make one file of it, because it loads no code of the user.
 */
import { defaultConfig } from '../../server/default-config.ts';
import { serveStdio } from './serve-stdio.ts';

/** Serves with the defaults; resolves with the exit code. */
export function serveDefaults(verbose: boolean): Promise<number> {
  return serveStdio(defaultConfig(), { verbose, newId: randomId });
}

/** Returns 128 random bits straight from the system where it has a file of them: loading the crypto module is slower. */
function randomId(): string {
  // Not imported, as in `stdio.ts`.
  const { closeSync, openSync, readSync } = process.getBuiltinModule('node:fs');
  try {
    const source = openSync('/dev/urandom', 'r');
    try {
      const bytes = Buffer.alloc(16);
      if (readSync(source, bytes) === bytes.length) return bytes.toString('hex');
    } finally {
      closeSync(source);
    }
  } catch {
    // No such file here.
  }
  return crypto.randomUUID().replaceAll('-', '');
}
