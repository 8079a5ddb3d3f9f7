/**
 * `serve`: everything that `handfast up` does, for a program: the host of a configuration with its journal, audit and
 * plugins, the server of sessions, and every address it listens on. Modules of unconfigured parts are not loaded.
 */
import type { HostConfig } from './config/config.ts';
import type { FleetConfig } from './config/fleet-config.ts';
import type { Server, ServerOptions } from './server/serve.ts';
import { fail } from './wire/errors.ts';

export interface ServeOptions extends Omit<ServerOptions, 'fleet'> {
  /** Runs an orchestrator and its workers too, as `handfast fleet up` does: the path of a `fleet.yaml`, or one that was loaded. */
  readonly fleet?: string | FleetConfig;
}

/**
 * Serves a configuration until it is closed.
 *
 * @param config the path of a `handfast.yaml`, a configuration that `loadConfig` gave, or undefined for the defaults in the
 * current folder
 * @throws config_invalid with every problem by file, line and column; for an address that may not or cannot be listened on
 * (`detail.reason`), a plugin that cannot be loaded, or a token file that others can read · journal_locked · the codes of
 * `sqliteJournal` for a journal on disk · cancelled by `signal`. Then nothing is left running.
 *
 * @example
 * await using server = await serve('handfast.yaml');
 * console.log(server.url, server.listeners);
 * await server.closed;
 */
export async function serve(config?: string | HostConfig, options: ServeOptions = {}): Promise<Server> {
  const { fleet, ...rest } = options;
  const [{ loadConfig }, server] = await Promise.all([import('./config/config.ts'), import('./server/serve.ts')]);
  const settings = typeof config === 'object' ? config : await loadConfig(config);
  if (settings.auth?.required === undefined) {
    throw fail('usage', 'expected serve(path of a handfast.yaml), or a configuration that loadConfig gave');
  }
  const fleetConfig =
    typeof fleet === 'string' ? await (await import('./config/fleet-config.ts')).loadFleetConfig(fleet) : fleet;
  return server.serve(settings, { ...rest, ...(fleetConfig && { fleet: fleetConfig }) });
}
