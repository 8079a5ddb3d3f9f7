/**
 * The configuration of a host that has no file, written out: what `loadConfig(undefined)` of `config/config.ts` gives,
 * without loading the language the file is described in.
 *
 * Used by `handfast stdio`, whose parent waits for its handshake. A test holds the two together.
 */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import type { HostConfig } from '../config/config.ts';
import { defaultHostLimits } from '../host/host-limits.ts';
import { DEFAULT_RETENTION } from '../journal/journal.ts';

/** What the defaults depend on. */
export interface ProcessContext {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

/** The defaults. Equal to `loadConfig(undefined, surroundings)`. */
export function defaultConfig({ env = process.env, cwd = process.cwd() }: ProcessContext = {}): HostConfig {
  const home = env.HANDFAST_HOME ? resolve(env.HANDFAST_HOME) : join(homedir(), '.handfast');
  const own = join(home, 'hosts', 'handfast');
  return {
    hostId: 'handfast',
    listen: ['http://127.0.0.1:4700'],
    insecureBind: false,
    http: { allowedHosts: [], allowedOrigins: [] },
    auth: { required: true, grants: [] },
    limits: defaultHostLimits,
    journal: {
      kind: 'memory',
      ...DEFAULT_RETENTION,
      retainDays: 30,
      maxSessions: 100_000,
      file: join(own, 'journal.db'),
    },
    audit: {
      enabled: true,
      maxBytes: 16 * 1024 * 1024,
      maxFiles: 8,
      fsync: false,
      file: join(own, 'audit.jsonl'),
    },
    plugins: [{ use: 'tools', builtin: true, priority: 0, exclusive: false, options: {} }],
    control: {
      enabled: true,
      serverName: 'handfast',
      requireHandshake: false,
      maxMessageBytes: 32 * 1024 * 1024,
      agents: [],
      imageRoots: [],
      approvals: { rules: [], timeoutMs: 600_000 },
      maxSessions: 10_000,
      maxTurns: 8,
      maxQueue: 64,
      maxRounds: 50,
      turnTimeoutMs: 1_800_000,
      interruptGraceMs: 5_000,
    },
    providers: {
      openai: {},
      openrouter: {},
      anthropic: {},
      google: {},
      compatible: { models: [] },
      antigravity: {},
      keyring: true,
    },
    file: undefined,
    home,
    // Not imported: that would load the promises of the file system too, and all that they need.
    workspace: process.getBuiltinModule('node:fs').realpathSync(cwd),
    warnings: [],
  };
}
