/**
 * The kinds of executors and which settings each understands. A setting that the kind would ignore is a problem, so
 * that no user relies on one without effect.
 * @see docs/fleet-executors.md
 */
import type { OpenedConfig } from './open-config.ts';

export const CODEX_SANDBOXES = ['read-only', 'workspace-write', 'danger-full-access'] as const;

const PROGRAM = ['command', 'args', 'env', 'timeout_s'] as const;

/** The settings of each kind beside `kind`. The first is required where `requiresFirst` names the kind. */
const SETTINGS = {
  claude: [...PROGRAM, 'model', 'role', 'mcp_config'],
  codex: [...PROGRAM, 'model', 'sandbox'],
  opencode: [...PROGRAM, 'model', 'agent'],
  agy: [...PROGRAM, 'sandbox', 'conversations_file'],
  command: [...PROGRAM, 'output'],
  acp: ['command', 'args', 'env', 'model', 'mode', 'permissions', 'mcp_servers', 'start_timeout_s'],
  a2a: ['url', 'token_env', 'token_file'],
  function: ['module'],
  rehearsal: [],
} as const satisfies Readonly<Record<string, readonly string[]>>;

type ExecutorKind = keyof typeof SETTINGS;

export const EXECUTOR_KINDS = Object.keys(SETTINGS) as readonly ExecutorKind[];

const requiresFirst: ReadonlySet<ExecutorKind> = new Set(['command', 'acp', 'a2a', 'function']);

/** Agents whose usage is known, so that the cost of an empty turn is measured unless the file says otherwise. */
const MEASURED: ReadonlySet<ExecutorKind> = new Set(['claude', 'codex', 'opencode', 'rehearsal']);
/** Kinds that are measured where the file asks for it: other programs of the user, which may report their usage. */
const MEASURABLE: ReadonlySet<ExecutorKind> = new Set([...MEASURED, 'command', 'acp']);

/** Kinds that connect to the environment of a worker: agents that take MCP servers, and programs and functions that are given one. */
const CONNECTING: ReadonlySet<ExecutorKind> = new Set(['claude', 'codex', 'opencode', 'command', 'acp', 'function']);

/** Reports an environment for a kind that would not use it. */
export function checkEnvironment(kind: ExecutorKind, at: string, problem: OpenedConfig<unknown>['problem']): void {
  if (CONNECTING.has(kind)) return;
  problem(at, `expected an executor of kind ${[...CONNECTING].join(', ')} for an environment, got ${kind}`);
}

/** Returns true if the start of a worker runs an empty turn to measure its cost. */
export function measuresOverhead(kind: ExecutorKind, overhead: 'measure' | 'never' | undefined): boolean {
  return overhead === 'measure' || (overhead === undefined && MEASURED.has(kind));
}

/** Reports `overhead: measure` for a kind whose usage is never known. */
export function checkOverhead(
  kind: ExecutorKind,
  overhead: string | undefined,
  at: string,
  problem: OpenedConfig<unknown>['problem'],
): void {
  if (overhead !== 'measure' || MEASURABLE.has(kind)) return;
  problem(at, `expected an executor of kind ${[...MEASURABLE].join(', ')} for measure, got ${kind}`);
}

/** Returns true for a kind that does nothing without a program, a module or an address. */
export const needsSettings = (kind: string): boolean => requiresFirst.has(kind as ExecutorKind);

/** Reports missing settings of an executor's kind, and settings that it would ignore. */
export function checkExecutor(
  settings: { readonly kind: ExecutorKind; readonly sandbox?: string | boolean },
  at: string,
  problem: OpenedConfig<unknown>['problem'],
): void {
  const { kind, ...others } = settings;
  const known: readonly string[] = SETTINGS[kind];
  const given = Object.entries(others).flatMap(([key, value]) => (isGiven(value) ? [snake(key)] : []));
  if (requiresFirst.has(kind) && !given.includes(known[0] as string)) {
    problem(at, `expected ${known[0]} for an executor of kind ${kind}, got nothing`);
  }
  for (const key of given.filter((each) => !known.includes(each))) {
    const expected = known.length === 0 ? 'no other setting' : known.join(', ');
    problem(`${at}.${key}`, `expected ${expected} for an executor of kind ${kind}, got ${key}`);
  }
  const { sandbox } = settings;
  const sandboxType = kind === 'codex' ? 'string' : 'boolean';
  if (sandbox !== undefined && known.includes('sandbox') && typeof sandbox !== sandboxType) {
    const expected = kind === 'codex' ? CODEX_SANDBOXES.join(', ') : 'true or false';
    problem(`${at}.sandbox`, `expected ${expected} for an executor of kind ${kind}, got ${sandbox}`);
  }
}

/** Returns true for a given value. Empty lists and maps are defaults. */
function isGiven(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return value instanceof Map ? value.size > 0 : value !== undefined;
}

const snake = (key: string): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
