/**
 * Subagents that an executor of the fleet runs: agents of the Agent Client Protocol, remote agents of A2A, claude, codex and the
 * like. Puts the capability multi_agent and the fleet's executors together, which do not know each other.
 *
 * A subagent is one conversation of the executor, and each of its tasks one turn. Loaded by `builtin-plugins.ts`.
 */
import type { Log } from '../base/log.ts';
import type { SubagentBackend, SubagentTaskContext } from '../capabilities/multi_agent/backend.ts';
import { checkExecutor } from '../config/executor-settings.ts';
import type { ExecutorSettings } from '../config/worker.schema.ts';
import type { Execution, Executor, ExecutorEvents } from '../fleet/executors/executor.ts';
import { makeExecutor } from '../fleet/executors/make.ts';
import { tokensSpent } from '../fleet/executors/usage.ts';
import { spawnLink } from '../transport/subprocess.ts';
import { fail } from '../wire/errors.ts';
import { executorOf } from './fleet/worker-assembly.ts';
import { messageText, promptOf } from './subagent-prompt.ts';

/** Time to say whether it can work, milliseconds. */
const PROBE_MS = 3_000;

/** The backend of an executor. Fails with `config_invalid` for settings that its kind lacks or would ignore. */
export async function executorBackend(settings: ExecutorSettings, log: Log): Promise<SubagentBackend> {
  checkExecutor(settings, 'executor', (at, problem) => {
    throw fail('config_invalid', `the executor of a kind of subagents: ${at}: ${problem}`);
  });
  return backendOf(makeExecutor(await executorOf(settings, process.env), { log, start: spawnLink }));
}

/** A backend whose subagents are conversations of this executor. */
export function backendOf(executor: Executor): SubagentBackend {
  return {
    name: executor.kind,
    async open(subagent, { workspace, signal }) {
      const { present, detail } = await executor.probe(AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]));
      if (!present) throw fail('not_configured', detail);
      let running: Execution | undefined;
      return {
        async run(work, context) {
          running = executor.start(
            {
              taskId: work.task_id,
              contextId: subagent.id,
              prompt: promptOf(subagent, work),
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
            return { result: { summary: text } };
          } finally {
            running = undefined;
          }
        },
        deliver(from, message) {
          if (running?.steer === undefined) return false;
          // Whether it reads it is up to it.
          void running.steer(messageText(from, message)).catch(() => {});
          return true;
        },
        close: async () => {},
      };
    },
    stop: () => executor.stop(),
  };
}

/** What an executor says of a turn, for the agents above. Questions are refused: there is no person to ask. */
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
