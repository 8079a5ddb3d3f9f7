/**
 * The two tables between the ends of a fleet task and the states of an A2A task. Pure functions.
 *
 * `settled` writes a worker's result as an A2A task; `resultOfTask` and `resultOfMessage` read the task or message of any
 * agent as a result, with or without the fleet protocol.
 * @see docs/a2a.md#states
 */
import { FLEET_EXTENSION, type ReplySchema, type TaskResult } from '../../../protocol/fleet.ts';
import { decodeValue } from '../../messages/decode.ts';
import type { Announced, Reported } from '../../messages/decoded.ts';
import { extractReply } from '../../phases/reply.ts';
import { ownResult, type ResultMembers } from '../plain/own-result.ts';
import { type ReplyForm, replyText } from '../plain/reply-text.ts';
import {
  artifactsText,
  dataOf,
  dataPart,
  fleetDataOf,
  isSettled,
  RESULT_ARTIFACT,
  ROLE,
  STATE,
  textOf,
  textPart,
} from './messages.ts';
import type { PartialState } from './partial-state.ts';
import type { Artifact, Message, Part, Task, TaskState } from './sdk.ts';

const PARTIAL: Readonly<Record<PartialState, TaskState>> = {
  failed: STATE.failed,
  completed: STATE.completed,
  input_required: STATE.inputRequired,
};

/** Options of a written result. */
export interface SettleOptions {
  /** The client has named the fleet extension. */
  readonly fleet: boolean;
  /** The form of text for a client that has not. */
  readonly form: ReplyForm;
  /** A client cancelled the task. */
  readonly canceled: boolean;
  readonly partialState: PartialState;
}

/** A result as the end of an A2A task. */
export interface Settled {
  readonly state: TaskState;
  readonly artifact: Artifact;
  /** Text of the status message; empty: the artifact says all of it. */
  readonly text: string;
  /** Metadata of the task, under the address of the fleet extension. */
  readonly metadata: Readonly<Record<string, object>> | undefined;
}

export function settled(result: TaskResult, { fleet, form, canceled, partialState }: SettleOptions): Settled {
  const { task_id, status, conformance, prose, ...rest } = result;
  const members = { ...rest, task_id, status, ...(conformance !== undefined && { conformance }) };
  const text = (prose ?? '').trim();
  const parts: Part[] = fleet
    ? [dataPart(members), ...(text === '' ? [] : [textPart(text)])]
    : [textPart(replyText(result, form))];
  return {
    state: stateOf(result, canceled, partialState),
    artifact: {
      artifactId: RESULT_ARTIFACT,
      name: RESULT_ARTIFACT,
      description: '',
      parts,
      metadata: undefined,
      extensions: fleet ? [FLEET_EXTENSION] : [],
    },
    text: statusText(result),
    metadata: fleet ? { [FLEET_EXTENSION]: { task_id, status, conformance: conformance ?? null } } : undefined,
  };
}

function stateOf({ status }: TaskResult, canceled: boolean, partialState: PartialState): TaskState {
  if (status === 'done') return STATE.completed;
  if (status === 'blocked') return STATE.rejected;
  // The client that cancelled sees that the task was cancelled, and the work done by then.
  if (canceled) return STATE.canceled;
  return status === 'error' ? STATE.failed : PARTIAL[partialState];
}

function statusText({ status, blocked_reason, error_summary, next_steps, summary }: TaskResult): string {
  switch (status) {
    case 'blocked':
      return blocked_reason ?? 'refused';
    case 'error':
      return error_summary ?? 'failed';
    case 'partial':
      return ['Not finished. Remaining steps:', ...(next_steps ?? []).map((step) => `- ${step}`)].join('\n');
    default:
      return summary ?? '';
  }
}

/** The task a reply is read for. */
export interface Expected {
  readonly taskId: string;
  readonly attempt: number;
  readonly replySchema: ReplySchema;
}

/** A reply as a result. */
export interface ReadReply {
  readonly result: Reported;
  /** An announce in the text of the reply. */
  readonly announce: Announced | null;
}

/** Returns the result of a task; undefined while it runs. */
export function resultOfTask(task: Task, expected: Expected): ReadReply | undefined {
  const state = task.status?.state;
  if (!isSettled(state)) return undefined;
  const reported = structuredResult(task.artifacts, expected);
  if (reported !== undefined) return { result: reported, announce: null };
  const reason = textOf(task.status?.message?.parts);
  const text = textOfTask(task);
  const prose = text === '' ? {} : { prose: text };
  switch (state) {
    case STATE.completed:
      // The agent itself says that it is done, so a reply without a block counts as prose.
      return textAsResult(text, expected, 'prose');
    case STATE.rejected:
      return plain(expected, blocked('unknown', reason || 'refused without a reason', prose));
    case STATE.inputRequired:
      return plain(expected, blocked('input_required', reason || 'the agent asks for more', prose));
    case STATE.authRequired:
      return plain(expected, blocked('auth_required', reason || 'the agent asks for a sign-in', prose));
    case STATE.canceled:
      return plain(expected, { status: 'error', error_summary: 'canceled', ...prose });
    default:
      return plain(expected, { status: 'error', error_summary: reason || 'failed without a reason', ...prose });
  }
}

/** Returns the result of a message without a task. */
export function resultOfMessage(message: Message, expected: Expected): ReadReply {
  const reported = structuredIn(message.parts, '', expected);
  if (reported !== undefined) return { result: reported, announce: null };
  return textAsResult(withData(textOf(message.parts), message.parts), expected, expected.replySchema);
}

function textAsResult(text: string, { taskId, attempt }: Expected, replySchema: ReplySchema): ReadReply {
  const { result, announce, conformance, prose } = extractReply({ text, taskId, replySchema, exitCode: null });
  const expected = { taskId, attempt, replySchema };
  if (result === null) {
    if (conformance === 'busy') return { ...plain(expected, blocked('busy', prose, {}, true)), announce };
    const next_steps = ['The agent put the task off and ended it; find out whether it was done.'];
    return { ...plain(expected, { status: 'partial', next_steps, prose }), announce };
  }
  // The figures of a foreign agent are its claim, not measured.
  const usage = result.tokens_spent === null ? result.usage : { source: 'claimed' as const };
  const envelope = { ...result.envelope, attempt };
  return { result: { ...result, usage, envelope, prose: prose === '' ? null : prose, conformance }, announce };
}

/** Returns the text of the artifacts, or else of the agent's last message. */
export function textOfTask({ artifacts, status, history }: Task): string {
  const made = withData(
    artifactsText(artifacts),
    artifacts.flatMap(({ parts }) => parts),
  );
  if (made !== '') return made;
  const last = textOf(status?.message?.parts);
  if (last !== '') return last;
  const said = history.findLast(({ role, parts }) => role === ROLE.agent && textOf(parts) !== '');
  return textOf(said?.parts);
}

/** Adds data to the text, as blocks: an answer in JSON may be nothing else. */
function withData(text: string, parts: readonly Part[]): string {
  const blocks = dataOf(parts).map((data) => `\`\`\`json\n${JSON.stringify(data)}\n\`\`\``);
  return [text, ...blocks].filter(Boolean).join('\n\n');
}

function structuredResult(artifacts: readonly Artifact[], expected: Expected): Reported | undefined {
  for (const { parts } of artifacts.toReversed()) {
    const found = structuredIn(parts, textOf(parts), expected);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns a valid TASK_RESULT of this task in a data part, with the text beside it as its prose. */
function structuredIn(parts: readonly Part[], prose: string, { taskId, attempt }: Expected): Reported | undefined {
  for (const data of fleetDataOf(parts)) {
    const decoded = decodeValue(data);
    if (!decoded.valid || decoded.message.type !== 'TASK_RESULT' || decoded.message.task_id !== taskId) continue;
    const { message } = decoded;
    const envelope = { ...message.envelope, attempt: message.envelope.attempt ?? attempt };
    return { ...message, envelope, prose: message.prose ?? (prose === '' ? null : prose) };
  }
  return undefined;
}

type Members = ResultMembers & Pick<TaskResult, 'status'>;

function blocked(code: string, reason: string, more: Pick<Members, 'prose'>, retryable = false): Members {
  const named = code === 'unknown' ? reason : `${code}: ${reason}`;
  return { status: 'blocked', blocked_reason: named, blocked: { code, retryable }, ...more };
}

/** Returns a result of an agent without the fleet protocol. Its cost is unknown. */
function plain({ taskId, attempt }: Expected, members: Members): ReadReply {
  const all = { usage: { source: 'unknown' }, conformance: 'unstructured', ...members } as const;
  return { result: ownResult(taskId, attempt, all), announce: null };
}
