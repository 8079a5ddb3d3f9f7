/**
 * Tasks, workers and what happens to them, as people read it. Pure but for the terminal it writes to.
 *
 * Used by `commands/task.ts` and `commands/fleet.ts`.
 */
import type { TaskEvent } from '../bridge/fleet-client.ts';
import type { WorkerView } from '../fleet/orchestrator/orchestrator-options.ts';
import type { TaskRecord } from '../fleet/orchestrator/task.ts';
import type { Terminal } from './terminal.ts';
import { oneLine } from './tool-summary.ts';

const SECOND_MS = 1000;

/** `3 s`, `4 min`, `2 h`, `5 d`. */
export function spanOf(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / SECOND_MS));
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 6_000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export const tokensOf = (tokens: number | null | undefined): string =>
  tokens === null || tokens === undefined ? '?' : String(tokens);

export const stateOf = ({ state, parked, questions }: TaskRecord): string =>
  questions.length > 0 ? `${state}, asks` : parked ? `${state}, parked` : state;

export const TASK_HEADINGS = ['TASK', 'STATE', 'PRIORITY', 'WORKER', 'TRY', 'TOKENS', 'AGE', 'BRIEF'];

export function taskRow(task: TaskRecord, now: number): string[] {
  return [
    task.task_id,
    stateOf(task),
    task.spec.priority,
    task.worker ?? '–',
    String(task.attempt),
    tokensOf(task.tokens_spent),
    spanOf(now - task.created_at),
    oneLine(task.spec.brief),
  ];
}

export const WORKER_HEADINGS = ['WORKER', 'STATUS', 'VIA', 'TIER', 'TASKS', 'MCP', 'REPO', 'SEEN', 'ADDRESS'];

export function workerRow(worker: WorkerView, now: number): string[] {
  const { profile, announced } = worker;
  const health = announced === null ? {} : (announced.mcp_health as unknown as Readonly<Record<string, string>>);
  const bad = Object.entries(health).filter(([, state]) => state !== 'ok');
  const servers = Object.keys(health).length;
  const repo = announced?.repo_state;
  return [
    worker.peer_id,
    worker.status,
    worker.mode === 'structured' ? worker.binding : `${worker.binding}, ${worker.mode}`,
    profile?.model_tier ?? '?',
    `${worker.tasks.length}/${profile?.max_concurrent ?? '?'}`,
    bad.length === 0
      ? servers === 0
        ? '–'
        : `${servers} ok`
      : bad.map(([name, state]) => `${name}=${state}`).join(' '),
    repo === null || repo === undefined ? '–' : `${repo.branch ?? '(detached)'}${repo.clean ? '' : ', dirty'}`,
    spanOf(now - worker.last_seen_at),
    worker.address,
  ];
}

/** A task, whole. */
export function showTask(task: TaskRecord, terminal: Terminal): void {
  const { spec, result } = task;
  const facts: [string, string | null | undefined][] = [
    ['task', task.task_id],
    ['state', stateOf(task)],
    ['priority', spec.priority],
    ['worker', task.worker],
    ['attempt', `${task.attempt} (${task.reroutes} reroutes, ${task.retries} retries)`],
    ['tokens', `${tokensOf(task.tokens_spent)}${spec.token_budget === null ? '' : ` of ${spec.token_budget}`}`],
    ['deadline', spec.deadline],
    ['requires', [...spec.required_mcp.map((name) => `mcp:${name}`), ...spec.required_capabilities].join(', ')],
    ['after', spec.after.join(', ')],
    ['why', task.explanation?.sentence],
    ['given up', task.dead_letter],
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
  for (const { attempt, worker, outcome, reason, tokens_spent } of task.attempts) {
    const why = reason === undefined ? '' : `: ${oneLine(reason, 200)}`;
    terminal.line(`try ${attempt}     ${worker} ${outcome ?? 'under way'}${why} (${tokensOf(tokens_spent)} tokens)`);
  }
  for (const late of task.late_results) {
    terminal.line(`late      ${late.worker} said ${late.result.status} (${late.why}), kept and not applied`);
  }
  for (const { question_id, title } of task.questions) {
    terminal.line(`asks      ${title}; answer: handfast task answer ${task.task_id} ${question_id} yes|no`);
  }
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

/** One event of a task in one line; undefined for what passes by itself. */
export function eventLine({ ts, kind, body }: TaskEvent): string {
  const time = new Date(ts).toISOString().slice(11, 19);
  const text = (key: string): string => (typeof body[key] === 'string' ? oneLine(body[key], 300) : '');
  const reason = text('reason') && `: ${text('reason')}`;
  const told: Readonly<Record<string, () => string>> = {
    submitted: () => text('priority') || 'normal',
    decided: () => text('sentence'),
    sent: () => `to ${text('worker')}`,
    claimed: () => `by ${text('worker')}`,
    accepted: () => `by ${text('worker')}`,
    running: () => `at ${text('worker')}`,
    progress: () => {
      const percent = typeof body.percent === 'number' ? ` ${body.percent} %` : '';
      const tokens = typeof body.tokens_so_far === 'number' ? ` (${body.tokens_so_far} tokens)` : '';
      return `${text('phase')}${percent} ${text('note')}${tokens}`.trim();
    },
    question: () => `${text('title')}; answer: handfast task answer ${text('task_id')} ${text('question_id')} yes|no`,
    answer: () => 'answered',
    result: () => `${text('status')}${reason}`,
    late_result: () => `${text('status')} by ${text('worker')}, kept and not applied (${text('why')})`,
    blocked: () => `by ${text('worker')}${reason}`,
    released: () => `${text('worker')} ${text('outcome')}${reason}`,
    requeued: () => `again (${text('cause')})`,
    parked: () => `waits for somebody${reason}`,
    lost: () => `${text('worker')}${reason}`,
    failed: () => text('reason'),
    cancel_requested: () => 'being stopped',
    canceled: () => text('reason'),
    verified: () => `${text('verified')}: ${Array.isArray(body.reasons) ? oneLine(body.reasons.join('; '), 300) : ''}`,
    ended: () => `${text('state')}${typeof body.tokens_spent === 'number' ? `, ${body.tokens_spent} tokens` : ''}`,
  };
  const said = told[kind]?.() ?? oneLine(JSON.stringify(body), 300);
  return `${time}  ${kind.padEnd(10)} ${said}`;
}
