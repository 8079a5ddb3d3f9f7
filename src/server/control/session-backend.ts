/**
 * Subagents that are sessions of this server: each of their tasks is a turn of a model, of the rehearsal, or of an agent
 * of the Agent Client Protocol. People see them among their sessions, follow and steer them and answer their approvals; the
 * session has the rights of the subagent.
 *
 * @see docs/multi-agent.md#sessions
 */
import type {
  RunningSubagent,
  SubagentBackend,
  SubagentFacts,
  SubagentTaskContext,
} from '../../capabilities/multi_agent/backend.ts';
import { failure } from '../../capabilities/multi_agent/errors.ts';
import type { SubagentSession, SubagentTurnEnd } from '../../control/sessions/pool/subagent-sessions.ts';
import { asError, type HandfastError } from '../../wire/errors.ts';
import { promptOf } from '../subagent-prompt.ts';
import { UnreadMessages } from '../unread-messages.ts';
import type { SessionKindSettings, SubagentLinks } from './subagent-links.ts';

/** The model of a request that names none. */
const DEFAULT_MODEL = 'default';

/** Makes a backend whose subagents are sessions with these settings. */
export function sessionBackend(kind: SessionKindSettings, links: SubagentLinks): SubagentBackend {
  return {
    name: 'session',
    async open(subagent, { workspace, accept, rights, lost }): Promise<RunningSubagent> {
      const { sessions } = links.control;
      const close = links.open(subagent.id, (link) => accept(link, false));
      let session: SubagentSession;
      try {
        session = await sessions.openSubagent({
          subagent: subagent.id,
          owner: subagent.principal,
          parent: links.sessionOf(subagent.madeIn),
          title: subagent.name,
          cwd: workspace,
          settings: settingsOf(kind, subagent),
          rights,
          closed: () => lost('its session was closed'),
        });
      } catch (thrown) {
        close();
        throw thrown;
      }
      const unread = new UnreadMessages((text) => session.steer(text));
      return {
        controlSession: session.id,
        async run(work, context) {
          const prompt = [...unread.take(), promptOf(subagent, work)].join('\n\n');
          const end = await session
            .run(prompt, { ...eventsOf(context), unused: (text) => unread.back(text) }, context.signal)
            .catch((thrown) => {
              throw stopped(asError(thrown));
            });
          context.signal.throwIfAborted();
          return { result: { summary: textOf(end) } };
        },
        deliver: (from, message) => unread.add(from, message),
        said: (channel, said) => unread.addSaid(channel, said),
        async close() {
          await session.close();
          close();
        },
      };
    },
  };
}

/** Returns the settings of `session.create`. A request may choose another model of the same provider. */
function settingsOf(
  { thinking, maxRounds, ...kind }: SessionKindSettings,
  { model, kind: name }: Pick<SubagentFacts, 'model' | 'kind'>,
) {
  const chosen = model === DEFAULT_MODEL || model === '' || model === name ? kind.model : model;
  return {
    ...kind,
    ...(chosen !== undefined && { model: chosen }),
    thinking_level: thinking,
    max_rounds: maxRounds,
  };
}

function eventsOf({ progress, spent, waiting }: SubagentTaskContext) {
  let steps = 0;
  return {
    usage: ({ total_tokens, input_tokens, output_tokens, cost_usd }: { [Unit in string]: number }) =>
      spent({ tokens: total_tokens || (input_tokens ?? 0) + (output_tokens ?? 0), costUsd: cost_usd }),
    tool(name: string) {
      steps += 1;
      progress({ message: name });
      spent({ steps });
    },
    waiting: (title: string | undefined) => waiting(title),
  };
}

/** Returns the text of a turn that ended well; else the failure of the task. */
function textOf(end: SubagentTurnEnd): string {
  if (end.kind === 'failed') throw failure('failed', end.message, { reason: end.code });
  if (end.kind === 'completed' && end.stopReason === 'end_turn') return end.text;
  throw ended(end.stopReason);
}

/** Returns the failure of a task whose session ended. */
function stopped(error: HandfastError): HandfastError {
  if (error.code === 'interrupted') return failure('interrupted', 'the host stopped');
  return error.code === 'session_closed' ? failure('lost', 'its session was closed') : error;
}

/** Returns the failure of a task whose turn stopped before its end. */
function ended(reason: string): HandfastError {
  if (reason === 'timeout') return failure('timeout', 'its turn took longer than a turn may');
  return failure('failed', `its turn ended: ${reason}`, { reason });
}
