/**
 * A server of sessions in this process, for commands that found none running.
 *
 * Used by `reach-server.ts`.
 */
import { createLog } from '../../base/log.ts';
import { assembleControl } from '../../server/control/control-assembly.ts';
import type { Link } from '../../transport/link.ts';
import { configOf } from '../config-file.ts';
import { packageVersion } from '../package-info.ts';

export interface EmbeddedServer {
  accept(link: Link): void;
  /** Ends turns in good order and closes everything. */
  stop(): Promise<void>;
}

/** Starts it. Fails with `journal_locked` when another process has the data directory, and with `config_invalid`. */
export async function embeddedServer(flags: { config?: string; backend?: string }): Promise<EmbeddedServer> {
  const log = createLog({ level: 'error', format: 'text' });
  const { rpc } = await assembleControl(await configOf(flags.config), {
    log,
    version: packageVersion,
    backend: flags.backend,
    cwd: process.cwd(),
  });
  return { accept: (link) => rpc.accept(link), stop: () => rpc.stop('sigterm') };
}
