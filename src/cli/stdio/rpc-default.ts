/**
 * `handfast rpc` without a configuration file. Everything this file imports is loaded before the handshake is answered;
 * `scripts/build.ts` makes one file of it, because no code of the user is loaded in this mode.
 */
import { assembleControl } from '../../server/control/control-assembly.ts';
import { defaultConfig } from '../../server/default-config.ts';
import { packageVersion } from '../package-info.ts';
import { type RpcFlags, serveRpc } from './serve-rpc.ts';

/** Serves with the defaults until the end. Fails with `journal_locked` when another process has the data directory. */
export function serveDefaults(flags: RpcFlags): Promise<void> {
  return serveRpc(
    flags,
    async () => defaultConfig(),
    async ({ config, ...options }) => (await assembleControl(config, { ...options, version: packageVersion })).rpc,
  );
}
