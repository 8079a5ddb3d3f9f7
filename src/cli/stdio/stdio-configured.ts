/** `handfast stdio` with a configuration file. Called by `stdio.ts`, which loads it only when there is one. */
import { loadConfig } from '../../config/config.ts';
import { serveStdio } from './serve-stdio.ts';

/** Serves as the file configures; resolves with the exit code. Fails with `config_invalid`. */
export async function serveConfigured(file: string, verbose: boolean): Promise<number> {
  return serveStdio(await loadConfig(file), { verbose });
}
