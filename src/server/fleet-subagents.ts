/**
 * Subagents whose tasks are tasks of the fleet that this process runs: routed to a worker by their requirements, tried again
 * and verified as the fleet does it. Puts the capability multi_agent and the fleet together, which do not know each other.
 *
 * A task of a subagent may name the task of the fleet that it is, so that a later call with that name finds it; see
 * `src/capabilities/chains/subagent-calls.ts`.
 * @see docs/multi-agent.md#tasks-of-a-fleet
 */
import type {
  SubagentBackend,
  SubagentFacts,
  SubagentResult,
  SubagentTaskContext,
  SubagentWork,
} from '../capabilities/multi_agent/backend.ts';
import type { FleetKindSettings } from '../config/fleet-kind.schema.ts';
import { endOfProse } from '../fleet/messages/encode.ts';
import type { TaskRecord, TaskSpec } from '../fleet/orchestrator/task.ts';
import { asError, fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import type { FleetTasks, TaskNews } from './fleet/fleet-tasks.ts';
import { messageText, promptOf } from './subagent-prompt.ts';
import { UnreadMessages } from './unread-messages.ts';

/** Makes the backend of a kind of subagents, in the fleet of this process. */
export function fleetBackend(fleet: FleetTasks, settings: FleetKindSettings): SubagentBackend {
  return {
    name: 'fleet',
    open(subagent) {
      let running: string | undefined;
      const unread = new UnreadMessages();
      return {
        async run(work, context) {
          const asked = specOf(subagent, work, settings);
          // A task that has a name is found again by the brief that it had.
          const before = asked.task_id === undefined ? unread.take() : [];
          const wanted = { ...asked, brief: [...before, asked.brief].join('\n\n') };
          const { principal } = subagent;
          const known = wanted.task_id === undefined ? undefined : await fleet.find(wanted.task_id, principal);
          if (known !== undefined && known.spec.brief !== wanted.brief) {
            throw fail('duplicate_conflict', `the task ${known.task_id} exists with another brief`);
          }
          context.signal.throwIfAborted();
          const record = known ?? (await fleet.submit(wanted, principal));
          running = record.task_id;
          try {
            const ended = await fleet.follow(record, context.signal, (one) => report(one, context));
            context.spent({ tokens: ended.tokens_spent ?? undefined });
            // An operator who tried it again would work for no caller.
            if (ended.parked) await fleet.cancel(ended.task_id, 'who handed it in has given it up');
            const outcome = outcomeOf(ended);
            // The fleet has had it checked; its answer has the required shape.
            return work.result_schema === undefined ? outcome : { ...outcome, result: ended.result?.answer };
          } catch (thrown) {
            const { signal } = context;
            if (signal.aborted && !(wanted.task_id !== undefined && isLeft(signal.reason))) {
              await fleet.cancel(record.task_id, asError(signal.reason).message).catch(() => {});
            }
            throw thrown;
          } finally {
            running = undefined;
          }
        },
        deliver(from, message) {
          if (running === undefined) return unread.add(from, message);
          // The executor decides whether it reads it; a worker without input is known.
          void fleet.steer(running, messageText(from, message)).catch(() => unread.add(from, message));
          return true;
        },
        // With the next task: the executor decides whether a turn reads input, and in which order.
        said: (channel, said) => unread.addSaid(channel, said),
        close: async () => {},
      };
    },
  };
}

/**
 * True when the caller that named the task may come back for it: its session or its host has ended, and it was not cancelled.
 */
function isLeft(reason: unknown): boolean {
  const { code, detail } = asError(reason);
  return code === 'multi_agent.interrupted' || (code === 'multi_agent.terminated' && detail.session_ended === true);
}

/** Members of a request for a task that a subagent's task may set; others follow from the subagent. */
const ASKED = [
  ...['task_id', 'priority', 'reply_schema', 'answer_schema', 'required_mcp', 'required_capabilities', 'min_tier'],
  ...['min_context_window', 'access', 'worktree', 'context_id', 'retry_safe', 'pool', 'worker', 'batch'],
];

/**
 * Returns the request: the settings of the task, within those of its kind; its budget and its time are those of the subagent.
 */
function specOf(subagent: SubagentFacts, work: SubagentWork, settings: FleetKindSettings): TaskSpec {
  const { fleet = {} } = work.metadata;
  if (!isObject(fleet)) throw fail('schema_violation', 'metadata.fleet is no object', { path: '/metadata/fleet' });
  const unknown = Object.keys(fleet).find((name) => !ASKED.includes(name));
  if (unknown !== undefined) {
    throw fail('schema_violation', `metadata.fleet has no member ${JSON.stringify(unknown.slice(0, 64))}`, {
      path: `/metadata/fleet/${unknown.slice(0, 64)}`,
    });
  }
  const { seconds_left: seconds, tokens_left: tokens } = work;
  const { requiredMcp, requiredCapabilities, minTier, pool, access, priority } = settings;
  const both = (name: string, more: readonly string[]): string[] => {
    const own = fleet[name];
    return [...new Set([...(Array.isArray(own) ? own.map(String) : []), ...more])];
  };
  return {
    ...fleet,
    brief: promptOf(subagent, { ...work, result_schema: undefined }),
    ...(work.result_schema !== undefined && { answer_schema: work.result_schema }),
    required_mcp: both('required_mcp', requiredMcp),
    required_capabilities: both('required_capabilities', requiredCapabilities),
    ...(minTier !== undefined && { min_tier: minTier }),
    ...(pool !== undefined && { pool }),
    ...(access !== undefined && { access }),
    ...(priority !== undefined && { priority }),
    ...(subagent.toolScope !== 'shared' && { access: 'read' as const }),
    ...(tokens !== null && { token_budget: Math.floor(tokens) }),
    ...(seconds !== null && { deadline: new Date(Date.now() + seconds * 1000).toISOString() }),
  };
}

function report({ kind, body }: TaskNews, { progress, spent }: SubagentTaskContext): void {
  const { worker, note, phase, percent, reason, title, tokens_so_far: tokens } = body as Record<string, never>;
  if (typeof tokens === 'number') spent({ tokens });
  if (kind === 'progress') progress({ message: note ?? phase, percent });
  if (kind === 'accepted') progress({ message: `accepted by ${worker}` });
  if (kind === 'blocked' || kind === 'lost') progress({ message: `${kind} at ${worker}: ${reason}` });
  if (kind === 'question') progress({ message: `waits for an answer: ${title}` });
}

/** Bytes of the text beside a result: of a longer one the end, where it reports. */
const MAX_TEXT = 64 * 1024;

/** Returns the result of a task that is done. Any other end is a failure, with the code of the fleet in its detail. */
function outcomeOf({ task_id, state, parked, worker, result, verified, ...record }: TaskRecord): SubagentResult {
  const { tokens_spent, dead_letter, attempts } = record;
  const { status, summary, artifacts, answer, prose, blocked_reason, error_summary, next_steps } = result ?? {};
  if (state === 'done') {
    return {
      result: {
        status,
        summary: summary ?? '',
        ...(answer !== undefined && { answer }),
        ...(artifacts != null && { artifacts }),
        ...(prose != null && { text: endOfProse(prose, MAX_TEXT) }),
        task_id,
        worker,
        verified,
        tokens_spent,
      },
      ...(verified != null && { verified }),
    };
  }
  const last = attempts.at(-1)?.reason;
  const reason = dead_letter ?? blocked_reason ?? error_summary ?? last ?? 'the fleet gave no reason';
  // Reasons of the fleet are `code: detail`.
  const [code] = /^[a-z][a-z0-9_]*(?=:|$)/.exec(reason) ?? [state];
  const fleet = { code, state, parked, reason, worker, ...(next_steps?.length && { next_steps }), summary };
  const row = state === 'canceled' ? 'cancelled' : (ROWS[code] ?? 'tool_error');
  throw fail(row, `the fleet did not do it (${state}): ${reason}`, { fleet: { task_id, ...fleet } });
}

/** Reasons that the error table has, too. */
const ROWS: Readonly<Record<string, 'timeout' | 'budget_spent'>> = Object.assign(Object.create(null), {
  deadline_passed: 'timeout',
  budget_spent: 'budget_spent',
});
