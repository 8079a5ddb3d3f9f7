/**
 * Tasks, workers and their events, as people read them.
 */
import type { TaskEvent } from '../../bridge/fleet-client.ts';
import type { BusOutage } from '../../fleet/bus/peer.ts';
import type { WorkerView } from '../../fleet/orchestrator/orchestrator-options.ts';
import type { TaskRecord } from '../../fleet/orchestrator/task.ts';
import type { TaskQuestion } from '../../protocol/fleet.ts';
import { shownIds } from '../short-id.ts';
import { questionLine } from './question-text.ts';
import type { Terminal } from './terminal.ts';
import { amount, oneLine } from './tool-summary.ts';

const SECOND_MS = 1000;

/** `3 s`, `4 min`, `2 h`, `5 d`. */
export function spanOf(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / SECOND_MS));
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 6_000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** Tokens; `claimed` marks a figure that was only reported by a worker or a model, and not measured. */
export const tokensOf = (tokens: number | null | undefined, claimed = false): string =>
  tokens === null || tokens === undefined ? '?' : `${tokens}${claimed && tokens > 0 ? ' claimed' : ''}`;

/** Returns the tokens that a task has spent, with their mark. */
const spentOf = ({ tokens_spent, attempts }: TaskRecord): string =>
  tokensOf(
    tokens_spent,
    attempts.some(({ tokens_claimed }) => tokens_claimed === true),
  );

export const stateOf = ({ state, parked, questions, not_before }: TaskRecord, now = Date.now()): string => {
  if (questions.length > 0) return `${state}, asks`;
  if (parked) return `${state}, parked`;
  return state === 'queued' && not_before !== null && not_before > now ? 'queued, waits' : state;
};

/** Returns the time of day: `06:41:18Z`. */
const clock = (ms: number): string => `${new Date(ms).toISOString().slice(11, 19)}Z`;

/** Returns the sentence of a decision without the task id, where the output shows the id already. */
const about = (taskId: string, text: string): string =>
  text.replaceAll(`${taskId} not routed: `, '').replaceAll(`${taskId} → `, '→ ');

/** Arguments of `columns` and `table` of a terminal. */
type Table = readonly [
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  dispensable: readonly string[],
];

/** Returns tasks as the lines of a table, for views that are drawn again. */
export const taskLines = (tasks: readonly TaskRecord[], terminal: Terminal, now: number): string[] =>
  terminal.columns(...tableOfTasks(tasks, terminal, now));

export const printTasks = (tasks: readonly TaskRecord[], terminal: Terminal, now: number): void =>
  terminal.table(...tableOfTasks(tasks, terminal, now));

function tableOfTasks(tasks: readonly TaskRecord[], terminal: Terminal, now: number): Table {
  const headings = ['TASK', 'STATE', 'PRIORITY', 'WORKER', 'TRY', 'TOKENS', 'AGE', 'BRIEF'];
  const shown = shownIds(
    tasks.map(({ task_id }) => task_id),
    terminal,
  );
  const rows = tasks.map((task, at) => taskRow(task, shown[at] as string, now));
  return [headings, rows, ['PRIORITY', 'TRY', 'TOKENS', 'AGE', 'WORKER']];
}

function taskRow(task: TaskRecord, id: string, now: number): string[] {
  return [
    id,
    stateOf(task, now),
    task.spec.priority,
    task.worker ?? '–',
    String(task.attempt),
    spentOf(task),
    spanOf(now - task.created_at),
    oneLine(task.spec.brief),
  ];
}

/** Describes a bus that carries nothing, and the effect on the workers on it. */
export const outageLine = ({ reason, since }: BusOutage, now: number): string =>
  `${reason} (since ${clock(since)}, ${spanOf(now - since)}): the status of workers on it is unknown, and they get no tasks`;

/** Returns workers as the lines of a table, for views that are drawn again. */
export const workerLines = (workers: readonly WorkerView[], terminal: Terminal, now: number): string[] =>
  terminal.columns(...tableOfWorkers(workers, now));

export const printWorkers = (workers: readonly WorkerView[], terminal: Terminal, now: number): void =>
  terminal.table(...tableOfWorkers(workers, now));

function tableOfWorkers(workers: readonly WorkerView[], now: number): Table {
  const headings = ['WORKER', 'STATUS', 'TASKS', 'TIER', 'VIA', 'SEEN', 'MCP', 'REPO', 'ADDRESS'];
  const rows = workers.map((worker) => workerRow(worker, now));
  return [headings, rows, ['ADDRESS', 'SEEN', 'VIA', 'REPO', 'TIER']];
}

function workerRow(worker: WorkerView, now: number): string[] {
  const { profile, announced } = worker;
  const health = announced === null ? {} : (announced.mcp_health as unknown as Readonly<Record<string, string>>);
  const bad = Object.entries(health).filter(([, state]) => state !== 'ok');
  const servers = Object.keys(health).length;
  const repo = announced?.repo_state;
  return [
    worker.peer_id,
    worker.status,
    `${worker.tasks.length}/${profile?.max_concurrent ?? '?'}`,
    profile?.model_tier ?? '?',
    worker.mode === 'structured' ? worker.binding : `${worker.binding}, ${worker.mode}`,
    spanOf(now - worker.last_seen_at),
    bad.length === 0
      ? servers === 0
        ? '–'
        : `${servers} ok`
      : bad.map(([name, state]) => `${name}=${state}`).join(' '),
    repo === null || repo === undefined ? '–' : `${repo.branch ?? '(detached)'}${repo.clean ? '' : ', dirty'}`,
    worker.address,
  ];
}

/** Returns the cause of a queued task's wait; undefined where it does not wait, or was not routed yet. */
function waitOf({ task_id, state, explanation, not_before, spec }: TaskRecord, now: number): string | undefined {
  if (state !== 'queued') return undefined;
  if (not_before !== null && not_before > now) return `until ${clock(not_before)}, then the next attempt starts`;
  if (explanation !== null) {
    if (explanation.chosen !== null) return undefined;
    const whom =
      explanation.waits_for === undefined ? 'an eligible worker' : `${explanation.waits_for}, which is not connected`;
    return `for ${whom}: handfast route explain ${task_id}`;
  }
  return spec.after.length === 0 ? undefined : `for ${spec.after.join(', ')}`;
}

const COMMIT =
  'commit what was changed there, or use --worktree, --access read, or the --context of those changes at the worker that made them';

/** Returns advice where a decision or a refusal was for uncommitted changes; undefined for any other. */
const adviceOn = (why: unknown): string | undefined =>
  typeof why === 'string' && /its working tree has changes|^dirty_repo\b/.test(why) ? COMMIT : undefined;

/** Returns advice after an event; undefined where no action helps. */
export function adviceAfter({ kind, body }: TaskEvent): string | undefined {
  if (kind === 'decided') return body.chosen === null ? adviceOn(body.sentence) : undefined;
  return kind === 'blocked' ? adviceOn(body.reason) : undefined;
}

/** Prints a whole task. */
export function showTask(task: TaskRecord, terminal: Terminal, now: number): void {
  const { spec, result, state } = task;
  const facts: [string, string | null | undefined][] = [
    ['task', task.task_id],
    ['state', stateOf(task, now)],
    ['priority', spec.priority],
    ['worker', task.worker],
    ['attempt', `${task.attempt} (${amount(task.reroutes, 'reroute')}, ${amount(task.retries, 'retry')})`],
    ['waits', waitOf(task, now)],
    ['advice', state === 'queued' ? adviceOn(task.explanation?.sentence) : undefined],
    ['tokens', `${spentOf(task)}${spec.token_budget === null ? '' : ` of ${spec.token_budget}`}`],
    ['deadline', spec.deadline],
    ['requires', [...spec.required_mcp.map((name) => `mcp:${name}`), ...spec.required_capabilities].join(', ')],
    ['after', spec.after.join(', ')],
    ['why', task.explanation && about(task.task_id, task.explanation.sentence)],
    ['dead', task.dead_letter && about(task.task_id, task.dead_letter)],
    ['result', result === null ? null : result.status],
    ['reason', result?.blocked_reason ?? result?.error_summary],
    ['summary', result?.summary],
    ['verified', task.verified === null ? null : [task.verified, ...task.verification].join('; ')],
  ];
  for (const [name, value] of facts) {
    if (value !== null && value !== undefined && value !== '')
      terminal.line(`${name.padEnd(10)}${oneLine(value, 400)}`);
  }
  for (const step of result?.next_steps ?? []) terminal.line(`next      ${oneLine(step, 400)}`);
  for (const [name, value] of Object.entries(result?.artifacts ?? {})) {
    const shown = Array.isArray(value) ? value.join(', ') : typeof value === 'string' ? value : JSON.stringify(value);
    if (value !== null && shown !== '') terminal.line(`${`· ${name}`.padEnd(10)} ${oneLine(shown, 400)}`);
  }
  for (const { attempt, worker, outcome, reason, tokens_spent, tokens_claimed } of task.attempts) {
    const why = reason === undefined ? '' : `: ${oneLine(reason, 200)}`;
    terminal.line(
      `try ${attempt}     ${worker} ${outcome ?? 'under way'}${why} (${tokensOf(tokens_spent, tokens_claimed)} tokens)`,
    );
  }
  for (const late of task.late_results) {
    terminal.line(`late      ${late.worker} reported ${late.result.status} (${late.why}), stored and not applied`);
  }
  for (const question of task.questions) terminal.line(`asks      ${questionLine(task.task_id, question)}`);
  terminal.line();
  terminal.line(spec.brief);
  if (result?.answer !== undefined && result.answer !== null) {
    terminal.line();
    terminal.line(`answer: ${JSON.stringify(result.answer, null, 2)}`);
  }
  if (result?.prose) {
    terminal.line();
    terminal.line(result.prose);
  }
}

/**
 * Prints the end of a task, or the reason why it waits for an operator: its result where it has one. `named`: one of several.
 */
export function showOutcome(task: TaskRecord, terminal: Terminal, named = false): void {
  const { task_id, result } = task;
  const why = result?.blocked_reason ?? result?.error_summary ?? result?.summary ?? task.dead_letter;
  const reason = why ? `: ${oneLine(about(task_id, why), 400)}` : '';
  terminal.line(`${named ? `${task_id}: ` : ''}${stateOf(task)}, ${spentOf(task)} tokens${reason}`);
  for (const step of result?.next_steps ?? []) terminal.line(`next: ${step}`);
  const files = result?.artifacts?.files_changed;
  if (Array.isArray(files) && files.length > 0) terminal.line(`files: ${files.join(', ')}`);
  if (task.verified !== null) terminal.line(`verified: ${[task.verified, ...task.verification].join('; ')}`);
  if (result?.answer !== undefined && result.answer !== null) {
    terminal.line(JSON.stringify(result.answer, null, 2));
  } else if (result?.prose) terminal.line(result.prose);
  if (!task.parked) return;
  terminal.note(`the task waits for your decision; see: handfast route explain ${task_id}`);
  terminal.note(`then: handfast task retry ${task_id} [--worker WORKER], or: handfast task drop ${task_id}`);
}

/** Kinds of events by a shorter name. */
const NAMES: Readonly<Record<string, string>> = {
  cancel_requested: 'cancel',
  late_result: 'late',
  stale_result: 'stale',
};

/** Returns one event of a task in one line. */
export function eventLine(taskId: string, { ts, kind, body }: TaskEvent): string {
  const text = (key: string): string =>
    typeof body[key] === 'string' ? oneLine(about(taskId, body[key] as string), 300) : '';
  const reason = text('reason') && `: ${text('reason')}`;
  const lines: Readonly<Record<string, () => string>> = {
    submitted: () => text('priority') || 'normal',
    decided: () => {
      const next = typeof body.next_attempt_at === 'string' ? Date.parse(body.next_attempt_at) : Number.NaN;
      const noWorker = body.chosen === null ? 'no worker now: ' : '';
      return `${noWorker}${text('sentence')}${Number.isNaN(next) ? '' : `; next attempt at ${clock(next)}`}`;
    },
    sent: () => `to ${text('worker')}`,
    claimed: () => `by ${text('worker')}`,
    accepted: () => `by ${text('worker')}`,
    running: () => `at ${text('worker')}`,
    session: () => `${text('session_id')}; watch it with: handfast session tail ${text('session_id')}`,
    progress: () => {
      const percent = typeof body.percent === 'number' ? ` ${body.percent} %` : '';
      const tokens = typeof body.tokens_so_far === 'number' ? ` (${body.tokens_so_far} tokens)` : '';
      return `${text('phase')}${percent} ${text('note')}${tokens}`.trim();
    },
    question: () => questionLine(taskId, body as unknown as TaskQuestion),
    answer: () => 'answered',
    steer: () => text('text'),
    result: () => `${text('status')}${reason}`,
    late_result: () => `${text('status')} by ${text('worker')}, stored and not applied (${text('why')})`,
    stale_result: () => `${text('status')} by ${text('worker')}, stored and not applied (${text('why')})`,
    blocked: () => `by ${text('worker')}${reason}`,
    released: () => `${text('worker')} ${text('outcome')}${reason}`,
    requeued: () => {
      const at = typeof body.not_before === 'number' ? ` at ${clock(body.not_before)}` : '';
      return `again${at} (${text('cause')})`;
    },
    // For a task that was parked for want of a worker, the decision before it gives the reason.
    parked: () => `waiting for an operator${reason.split(': no eligible worker', 1)[0]}`,
    lost: () => `${text('worker')}${reason}`,
    failed: () => text('reason'),
    cancel_requested: () => 'being stopped',
    canceled: () => text('reason'),
    verified: () => `${text('verified')}: ${Array.isArray(body.reasons) ? oneLine(body.reasons.join('; '), 300) : ''}`,
    ended: () => {
      const { tokens_spent: tokens, tokens_claimed } = body;
      return `${text('state')}${typeof tokens === 'number' ? `, ${tokensOf(tokens, tokens_claimed === true)} tokens` : ''}`;
    },
  };
  const line = lines[kind]?.() ?? oneLine(JSON.stringify(body), 300);
  return `${clock(ts)}  ${(NAMES[kind] ?? kind).padEnd(10)} ${line}`;
}
