/**
 * The configuration that a command means: the file it names, else `handfast.yaml` in the current folder, else the defaults.
 *
 * A file that was named is used as it is: naming it is the user's own act. One that was found in the folder is used only
 * when this user trusts it as it is now; see `docs/security/trust.md`.
 */
import { existsSync } from 'node:fs';
import { type ConfigDeps, type ConfigTrust, type HostConfig, loadConfig } from '../config/config.ts';
import type { FleetConfig } from '../config/fleet-config.ts';

/** The file that is read when none is named. */
export const CONFIG_FILE = 'handfast.yaml';

/** The file that the commands of a fleet read when none is named. */
const FLEET_FILE = 'fleet.yaml';

/** The content of a file that was found. */
export interface TrustedSource {
  readonly source: Uint8Array;
  /** Undefined for the user's own folder of settings, and for commands that only report the content of a file. */
  readonly trust?: ConfigTrust;
  /** Fails with `untrusted_folder` for a module that was not covered when the file was trusted. */
  readonly checkModules?: (modules: readonly string[]) => void;
}

/** Returns the file to read; undefined = without a file, the defaults hold. */
export function configFile(named: string | undefined): string | undefined {
  return named ?? (existsSync(CONFIG_FILE) ? CONFIG_FILE : undefined);
}

/** Returns the file of a fleet; undefined = none: an orchestrator without workers in its process. */
export function fleetFile(named: string | undefined): string | undefined {
  return named ?? (existsSync(FLEET_FILE) ? FLEET_FILE : undefined);
}

/** For commands that only report the content of a file: it is read although it is not trusted. */
interface Reporting {
  readonly unchecked?: boolean;
}

/**
 * Loads the configuration. Fails with `config_invalid`, which names every problem by file, line and column, and with
 * `untrusted_folder`.
 * @param options `insecureBind`: addresses that other machines can reach are allowed, even if the file forbids it
 */
export async function configOf(
  named: string | undefined,
  { unchecked, ...options }: Pick<ConfigDeps, 'insecureBind'> & Reporting = {},
): Promise<HostConfig> {
  const file = configFile(named);
  const found = file === undefined || named !== undefined ? undefined : await sourceOf(CONFIG_FILE, unchecked);
  const config = await loadConfig(file, { ...options, ...found });
  found?.checkModules?.(config.plugins.filter(({ builtin }) => !builtin).map(({ use }) => use));
  return config;
}

/** Returns the configuration of a fleet, found as that of a host. */
export async function fleetConfigOf(named: string | undefined, { unchecked }: Reporting = {}): Promise<FleetConfig> {
  const { loadFleetConfig } = await import('../config/fleet-config.ts');
  const file = fleetFile(named);
  const found = file === undefined || named !== undefined ? undefined : await sourceOf(FLEET_FILE, unchecked);
  const config = await loadFleetConfig(file, found);
  found?.checkModules?.(config.workers.flatMap(({ executor }) => executor?.module ?? []));
  return config;
}

/** Returns the source of a file. The code that decides about trust is loaded only for a file. */
async function sourceOf(name: 'handfast.yaml' | 'fleet.yaml', unchecked = false): Promise<TrustedSource> {
  const { trustedSource, uncheckedSource } = await import('./trust/trusted-source.ts');
  return unchecked ? uncheckedSource(name) : trustedSource(name);
}
