/** `handfast rpc`: session RPC for the program that started this one, on its pipes. */

import type { Log } from '../../base/log.ts';
import { createLog } from '../../base/log.ts';
import type { HostConfig } from '../../config/config.ts';
import type { RpcServer } from '../../control/rpc/rpc-server.ts';
import { MESSAGE_BYTES_CEILING } from '../../transport/link.ts';
import { configOf } from '../config-file.ts';
import { packageVersion } from '../package-info.ts';
import { openRpcPipes, serveRpc } from '../stdio/serve-rpc.ts';
import { logUnhandledRejections } from '../unhandled-rejections.ts';

export interface RpcFlags {
  readonly config?: string;
  /** Backend of new sessions, by its name in the configuration. */
  readonly backend?: string;
  /** Working directory of new sessions that name none. Default: where the command was called. */
  readonly cwd?: string;
  /** What the handshake calls this server. */
  readonly serverName?: string;
  readonly verbose?: boolean;
}

/** What a server of sessions is made from. */
export interface RpcComposition {
  readonly config: HostConfig;
  readonly log: Log;
  readonly backend: string;
  readonly cwd?: string;
  readonly serverName?: string;
}

/** Makes the server; what it stands on is ended with it. */
export type ComposeRpc = (composition: RpcComposition) => Promise<RpcServer>;

const assembled: ComposeRpc = async ({ config, ...options }) => {
  const { assembleControl } = await import('../../server/control/control-assembly.ts');
  return (await assembleControl(config, { ...options, version: packageVersion() })).rpc;
};

/**
 * Serves until the input ends, a signal, or `system.shutdown`. Nothing but the protocol goes to stdout; by default only
 * what goes wrong is written to stderr. Without --backend turns go to the configured model: where there is none, each ends in the error that says so.
 * Fails with `config_invalid`, and with `journal_locked` when another process has the data directory.
 */
export async function rpc(flags: RpcFlags, compose: ComposeRpc = assembled): Promise<void> {
  const { cwd, serverName, verbose } = flags;
  // Before anything of the configuration is loaded: from here on what it prints goes to stderr.
  const link = openRpcPipes(MESSAGE_BYTES_CEILING);
  const log = createLog({ level: verbose ? 'info' : 'error', format: 'text' });
  logUnhandledRejections(log);
  try {
    const config = await configOf(flags.config);
    const backend = flags.backend ?? config.control.backend ?? 'model';
    const server = await compose({ config, log, backend, cwd, serverName });
    await serveRpc(link, server);
  } catch (error) {
    link.destroy();
    throw error;
  }
}
