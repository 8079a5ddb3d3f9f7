/**
 * The configuration of a host that has no file: equal to the result of `loadConfig(undefined)` of `config/config.ts`, without
 * loading the schema and its reader. The settings are generated; a test compares the two.
 *
 * For `handfast stdio`, whose parent waits for its handshake.
 */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import type { HostConfig } from '../config/config.ts';
import { handfastDefaults } from '../config/defaults.generated.ts';

/** The part of the process that the defaults depend on. */
export interface ProcessContext {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

/** Returns the defaults. Equal to `loadConfig(undefined, context)`. */
export function defaultConfig({ env = process.env, cwd = process.cwd() }: ProcessContext = {}): HostConfig {
  const { hostId, auth, journal, audit, plugins, ...settings } = handfastDefaults;
  // Not imported: `local-token.ts` would load the promises of the file system, and all that they need.
  const home = env.HANDFAST_HOME ? resolve(env.HANDFAST_HOME) : join(homedir(), '.handfast');
  const own = join(home, 'hosts', hostId);
  return {
    ...settings,
    hostId,
    auth: { required: auth.required, grants: [], capabilityGrants: [], tokenFiles: [] },
    journal: { ...journal, file: join(own, 'journal.db') },
    audit: { ...audit, file: join(own, 'audit.jsonl') },
    plugins: plugins.map((plugin) => ({ ...plugin, builtin: true })),
    sections: {},
    file: undefined,
    home,
    workspace: process.getBuiltinModule('node:fs').realpathSync(cwd),
    warnings: [],
  };
}
