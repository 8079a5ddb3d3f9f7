/** `handfast rpc` with a configuration file: session RPC for the program that started this one, on its pipes. */
import { configOf } from '../config-file.ts';
import { packageVersion } from '../package-info.ts';
import { type ComposeRpc, type RpcFlags, serveRpc } from '../stdio/serve-rpc.ts';

const assembled: ComposeRpc = async ({ config, ...options }) => {
  const { assembleControl } = await import('../../server/control/control-assembly.ts');
  return (await assembleControl(config, { ...options, version: packageVersion })).rpc;
};

/**
 * Serves until the input ends, a signal, or `system.shutdown`.
 * Fails with `config_invalid`, and with `journal_locked` when another process has the data directory.
 */
export function rpc(flags: RpcFlags, compose: ComposeRpc = assembled): Promise<void> {
  return serveRpc(flags, () => configOf(flags.config), compose);
}
