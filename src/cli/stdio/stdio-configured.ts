/**
 * `handfast stdio` with a configuration file. It is loaded only for such a file.
 */
import { configOf } from '../config-file.ts';
import { serveStdio } from './serve-stdio.ts';

/**
 * Serves as the file configures; resolves with the exit code. Fails with `config_invalid` and `untrusted_folder`.
 * @param file undefined: the one of the current folder
 */
export async function serveConfigured(file: string | undefined, verbose: boolean): Promise<number> {
  return serveStdio(await configOf(file), { verbose });
}
