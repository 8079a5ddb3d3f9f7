/** Which configuration a command means: the file it names, else `handfast.yaml` in the current folder, else the defaults. */
import { existsSync } from 'node:fs';
import { type ConfigDeps, type HostConfig, loadConfig } from '../config/config.ts';

/** Read when no file is named. */
export const CONFIG_FILE = 'handfast.yaml';

/** The file to read; undefined = there is none, the defaults hold. */
export function configFile(named: string | undefined): string | undefined {
  return named ?? (existsSync(CONFIG_FILE) ? CONFIG_FILE : undefined);
}

/** Read by the commands of a fleet when no file is named. */
const FLEET_FILE = 'fleet.yaml';

/** The file of a fleet; undefined = there is none: an orchestrator without workers of its own. */
export function fleetFile(named: string | undefined): string | undefined {
  return named ?? (existsSync(FLEET_FILE) ? FLEET_FILE : undefined);
}

/**
 * Loads the configuration. Fails with `config_invalid`, which names every problem by file, line and column.
 * @param options `insecureBind`: addresses that other machines can reach are allowed, even if the file forbids it
 */
export function configOf(
  named: string | undefined,
  options: Pick<ConfigDeps, 'insecureBind'> = {},
): Promise<HostConfig> {
  return loadConfig(configFile(named), options);
}
