/** A server of sessions in this process, for commands that found none running. */
import { createLog } from '../../base/log.ts';
import { assembleControl } from '../../server/control/control-assembly.ts';
import { openPrivateSocket } from '../../server/control/private-socket.ts';
import type { Link } from '../../transport/link.ts';
import { configOf } from '../config-file.ts';
import type { Terminal } from '../output/terminal.ts';
import { packageVersion } from '../package-info.ts';

export interface EmbeddedServer {
  accept(link: Link): void;
  /** Ends turns in order and closes everything. */
  stop(): Promise<void>;
}

/** Flags of the server. */
export interface EmbeddedServerFlags {
  readonly config?: string;
  readonly backend?: string;
  /** False where no user can answer approvals: a request that would be asked is denied. Default true. */
  readonly attended?: boolean;
  /** Where the user is asked about the files of the current folder. Undefined: nothing is asked. */
  readonly ask?: Terminal;
}

/**
 * Starts it. Fails with `journal_locked` when another process has the data directory, with `config_invalid`, and with
 * `untrusted_folder`.
 */
export async function embeddedServer(flags: EmbeddedServerFlags): Promise<EmbeddedServer> {
  if (flags.ask !== undefined) {
    const { offerTrust } = await import('../trust/trust-question.ts');
    await offerTrust(flags.config === undefined ? ['handfast.yaml', 'skills'] : ['skills'], flags.ask);
  }
  const log = createLog({ level: 'error', format: 'text' });
  const config = await configOf(flags.config);
  const { backend, attended } = flags;
  const { rpc } = await assembleControl(config, {
    log,
    version: packageVersion,
    backend,
    attended,
    cwd: process.cwd(),
  });
  config.trust?.onWithdrawn((error) => {
    log.error(error.message);
    void rpc.stop('shutdown');
  });
  // Approvals can be answered in another terminal too.
  void openPrivateSocket(rpc, { home: config.home, log });
  return { accept: (link) => rpc.accept(link), stop: () => rpc.stop('sigterm') };
}
