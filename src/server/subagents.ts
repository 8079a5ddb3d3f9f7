/**
 * Subagents that an executor of the fleet runs: agents of the Agent Client Protocol, remote agents of A2A, claude, codex and
 * the like. Puts the capability multi_agent and the fleet's executors together, which do not know each other.
 *
 * A subagent is one conversation of the executor, and each of its tasks one turn.
 */
import type { Log } from '../base/log.ts';
import type {
  SubagentBackend,
  SubagentResult,
  SubagentTaskContext,
  SubagentWork,
} from '../capabilities/multi_agent/backend.ts';
import { checkExecutor } from '../config/executor-settings.ts';
import type { ExecutorSettings } from '../config/worker.schema.ts';
import type { Execution, Executor, ExecutorEvents } from '../fleet/executors/executor.ts';
import { makeExecutor } from '../fleet/executors/make.ts';
import { tokensSpent } from '../fleet/executors/usage.ts';
import { headOf, verify, whyNotChecked } from '../fleet/orchestrator/verify.ts';
import { extractReply } from '../fleet/phases/reply.ts';
import { spawnLink } from '../transport/subprocess.ts';
import { fail } from '../wire/errors.ts';
import { executorOf } from './fleet/executor-config.ts';
import { messageText, promptOf } from './subagent-prompt.ts';
import { UnreadMessages } from './unread-messages.ts';

/** Time to say whether it can work, milliseconds. */
const PROBE_MS = 3_000;

/** Makes the backend of an executor. Fails with `config_invalid` for settings that its kind lacks or would ignore. */
export async function executorBackend(settings: ExecutorSettings, log: Log): Promise<SubagentBackend> {
  checkExecutor(settings, 'executor', (at, problem) => {
    throw fail('config_invalid', `the executor of a kind of subagents: ${at}: ${problem}`);
  });
  return backendOf(makeExecutor(await executorOf(settings, process.env), { log, start: spawnLink }));
}

/** Makes a backend whose subagents are conversations of this executor. */
export function backendOf(executor: Executor): SubagentBackend {
  return {
    name: executor.kind,
    async open(subagent, { workspace, signal }) {
      const { present, detail } = await executor.probe(AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]));
      if (!present) throw fail('not_configured', detail);
      let running: Execution | undefined;
      const unread = new UnreadMessages();
      return {
        async run(work, context) {
          const base = await headOf(workspace);
          running = executor.start(
            {
              taskId: work.task_id,
              contextId: subagent.id,
              prompt: [...unread.take(), promptOf(subagent, work)].join('\n\n'),
              tokenBudget: work.tokens_left,
              access: subagent.toolScope === 'shared' ? 'write' : 'read',
            },
            { cwd: workspace, signal: context.signal, events: eventsOf(context) },
          );
          try {
            const { text, ending, failure, usage } = await running.outcome;
            report(context, usage);
            context.signal.throwIfAborted();
            if (failure !== undefined) throw fail('tool_error', failure);
            if (ending !== 'completed') throw fail('tool_error', `the turn ended: ${ending}`);
            return await resultOf(text, work, workspace, base);
          } finally {
            running = undefined;
          }
        },
        deliver(from, message) {
          if (running?.steer === undefined) return unread.add(from, message);
          const wait = (): void => void unread.add(from, message);
          void running.steer(messageText(from, message)).then((became) => became === 'rejected' && wait(), wait);
          return true;
        },
        // With the next task: the executor decides whether a turn reads input, and in which order.
        said: (channel, said) => unread.addSaid(channel, said),
        close: async () => {},
      };
    },
    stop: () => executor.stop(),
  };
}

/**
 * Reads the result of a reply. A reply with a result of the fleet's protocol fails the task where that result does, and the
 * changes it claims are verified as the fleet does it.
 */
async function resultOf(
  text: string,
  { task_id }: SubagentWork,
  workspace: string,
  base: string | null,
): Promise<SubagentResult> {
  const { source, result } = extractReply({ text, taskId: task_id, replySchema: 'prose', exitCode: 0 });
  const hasBlock = source !== 'fallback' && source !== 'sentinel' && result !== null;
  if (!hasBlock) return { result: { summary: text } };
  const { status, summary, answer, blocked_reason, error_summary, next_steps } = result;
  const artifacts = { ...Object.fromEntries(result.more_artifacts), ...result.artifacts };
  if (status !== 'done') {
    const reason = blocked_reason ?? error_summary ?? next_steps[0] ?? status;
    throw fail('tool_error', `the turn ended as ${status}: ${reason}`, { status, reason });
  }
  const unseen = whyNotChecked({ artifacts }, workspace);
  const { verified, reasons } = unseen === undefined ? await verify({ artifacts }, workspace, base) : NOT_CHECKED;
  return {
    result: {
      summary: summary ?? text,
      ...(answer !== undefined && { answer }),
      ...(unseen === undefined && { artifacts, verification: reasons }),
    },
    verified,
  };
}

const NOT_CHECKED = { verified: 'not_checked', reasons: [] } as const;

/** Reports events of an executor's turn to the agents above. Questions are refused: no person can be asked. */
const eventsOf = (context: SubagentTaskContext): ExecutorEvents => ({
  progress: (phase, note, percent) => context.progress({ message: note ?? phase, percent }),
  usage: (total) => report(context, total),
  started() {},
  mcpHealth() {},
  ask: async () => ({ allowed: false, reason: 'no person can be asked' }),
});

function report({ spent }: SubagentTaskContext, usage: Parameters<ExecutorEvents['usage']>[0]): void {
  spent({ tokens: tokensSpent(usage) ?? undefined, costUsd: usage.cost_usd });
}
