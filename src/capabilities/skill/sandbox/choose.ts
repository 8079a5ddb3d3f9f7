/** Makes the sandbox that the options require. */
import { fail } from '../../../wire/errors.ts';
import { ProcessSandbox } from './process.ts';
import { QuickJs } from './quickjs.ts';
import type { Sandbox, Tier } from './sandbox.ts';

export interface SandboxChoice {
  readonly tier?: Tier | undefined;
  readonly view?: 'none' | 'workspace' | undefined;
  readonly memoryBytes?: number | undefined;
  readonly maxSeconds?: number | undefined;
  readonly maxResultChars?: number | undefined;
  readonly warm?: number | undefined;
}

const DEFAULT_PATH = '/usr/local/bin:/usr/bin:/bin';
const MIB = 1024 * 1024;

/** Returns a sandbox, not started yet. Throws `config_invalid` for options that do not fit together. */
export function sandboxOf(options: SandboxChoice, env: Readonly<Record<string, string | undefined>>): Sandbox {
  const { tier = 'quickjs', view = 'none', memoryBytes = 64 * MIB, maxSeconds = 300, maxResultChars = MIB } = options;
  if (view !== 'none' && tier !== 'bubblewrap') {
    throw fail('config_invalid', 'the option view of the skill plugin needs tier: bubblewrap');
  }
  // A sandbox with a view is made for one run.
  const warm = view === 'none' ? (options.warm ?? 1) : 0;
  const place = { memoryBytes, warm, maxMessageChars: maxResultChars };
  if (tier === 'quickjs') return new QuickJs(place);
  return new ProcessSandbox({ ...place, tier, maxSeconds, path: env.PATH ?? DEFAULT_PATH });
}
