/**
 * The writing side of the fleet protocol: messages with their type, version and envelope filled in.
 *
 * A message built here fits `schema/fleet.json`, and `decode.ts` accepts it, so long as its parts are of their types.
 * @see docs/protocol/fleet.md
 */
import { fromCharacter } from '../../base/strict-text.ts';
import {
  type Envelope,
  FLEET_VERSION,
  type FleetMessage,
  type SessionAnnounce,
  type TaskDispatch,
  type TaskResult,
} from '../../protocol/fleet.ts';
import { isLonger } from '../../wire/ascii.ts';
import { MAX_MESSAGE_BYTES } from '../../wire/strict-json.ts';
import type { Reported } from './decoded.ts';

/** A message without the members that {@link fleetMessage} fills in. */
export type Body<M extends FleetMessage> = Omit<M, 'type' | 'protocol_version' | 'envelope'>;
type MessageOf<T extends FleetMessage['type']> = Extract<FleetMessage, { readonly type: T }>;

/** Longest prose that goes with a result, in bytes of UTF-8. */
const MAX_PROSE_BYTES = 262_144;

/** Makes any message: `fleetMessage('TASK_POLL', { task_id })`. */
export function fleetMessage<T extends FleetMessage['type']>(
  type: T,
  body: Body<MessageOf<T>>,
  envelope?: Envelope,
): MessageOf<T> {
  return { type, protocol_version: FLEET_VERSION, ...body, ...(envelope && { envelope }) } as unknown as MessageOf<T>;
}

export const announceMessage = (body: Body<SessionAnnounce>, envelope?: Envelope): SessionAnnounce =>
  fleetMessage('SESSION_ANNOUNCE', body, envelope);

export const dispatchMessage = (body: Body<TaskDispatch>, envelope?: Envelope): TaskDispatch =>
  fleetMessage('TASK_DISPATCH', body, envelope);

/**
 * Makes a result that every reader accepts. Of prose beyond {@link MAX_PROSE_BYTES} the end stays, where agents and programs
 * report, behind a line that reports the cut; where the whole would still be longer than a message may be, the largest parts
 * are left out and reported. A result that no reader accepts would be sent for ever and count for nothing.
 */
export function resultMessage(body: Body<TaskResult>, envelope?: Envelope): TaskResult {
  const { prose } = body;
  const cut =
    prose != null && isLonger(prose, MAX_PROSE_BYTES) ? { ...body, prose: endOfProse(prose, MAX_PROSE_BYTES) } : body;
  return boundedResult(fleetMessage('TASK_RESULT', cut, envelope), MAX_MESSAGE_BYTES);
}

/** The line before prose of which the beginning was cut. */
const LEFT_OUT = '[The beginning of this reply was cut: it is longer than a result may be.]\n';

/**
 * Returns the end of longer prose, behind the line {@link LEFT_OUT}: in whole lines, unless a line is very long, and in whole
 * characters.
 */
export function endOfProse(prose: string, most: number): string {
  const bytes = Buffer.from(prose);
  if (bytes.length <= most) return prose;
  const end = fromCharacter(bytes.subarray(bytes.length - (most - LEFT_OUT.length)));
  const newline = end.indexOf(10);
  return LEFT_OUT + end.toString('utf8', newline < MAX_CUT_LINE ? newline + 1 : 0);
}

/** Longest line, in bytes, of which the rest is left out as well. */
const MAX_CUT_LINE = 4096;

/** Returns the beginning of a text, at most `most` bytes of UTF-8, with no character cut in two. */
export function cutText(text: string, most: number): string {
  const bytes = new Uint8Array(most);
  const { read } = new TextEncoder().encodeInto(text, bytes);
  return text.slice(0, read);
}

const fits = (message: FleetMessage, maxBytes: number): boolean => !isLonger(JSON.stringify(message), maxBytes);

/** Members of a result without a separate bound, those that are missed least first. */
const LARGE = ['prose', 'answer', 'artifacts', 'summary'] as const satisfies readonly (keyof TaskResult)[];

/**
 * Returns the result within `maxBytes` bytes of JSON: without the parts that are missed least, and with a step that names the
 * parts left out.
 */
export function boundedResult(result: TaskResult, maxBytes: number): TaskResult {
  if (fits(result, maxBytes)) return result;
  let rest = result;
  const lost: string[] = [];
  for (const part of LARGE) {
    if (rest[part] == null) continue;
    lost.push(part);
    const { [part]: _, ...without } = rest;
    rest = withoutParts(without as TaskResult, lost);
    if (fits(rest, maxBytes)) return rest;
  }
  // The remaining parts are steps and reasons: texts for people, of which the beginning is enough.
  return {
    ...rest,
    next_steps: rest.next_steps?.slice(0, 100).map((step) => cutText(step, 1024)) ?? [],
    ...(rest.blocked_reason != null && { blocked_reason: cutText(rest.blocked_reason, 8192) }),
    ...(rest.error_summary != null && { error_summary: cutText(rest.error_summary, 8192) }),
    ...(rest.blocked?.missing !== undefined && {
      blocked: { ...rest.blocked, missing: rest.blocked.missing.slice(0, 256).map((one) => cutText(one, 1024)) },
    }),
  };
}

/**
 * Returns a result without these parts. Work that was done without its answer is not done: the reader must know that something
 * is missing.
 */
function withoutParts(result: TaskResult, lost: readonly string[]): TaskResult {
  const step = `The result was longer than a message may be; left out: ${lost.join(', ')}.`;
  const status = result.status === 'done' && lost.includes('answer') ? 'partial' : result.status;
  const steps = (result.next_steps ?? []).filter(
    (one) => !one.startsWith('The result was longer than a message may be;'),
  );
  return { ...result, status, next_steps: [...steps, step] };
}

/** Returns the wire form of a result that was received: to store or to forward it. Members without a value are left out. */
export function resultFrom(reported: Reported): TaskResult {
  const { type, protocol_version, task_id, status, tokens_spent, next_steps } = reported;
  const { blocked_reason, error_summary, summary, blocked, usage, answer, prose, conformance, envelope } = reported;
  return {
    type,
    protocol_version,
    task_id,
    status,
    tokens_spent,
    next_steps,
    ...(blocked_reason !== null && { blocked_reason }),
    ...(error_summary !== undefined && { error_summary }),
    ...(summary !== null && { summary }),
    ...(reported.more_artifacts.size > 0 && { artifacts: Object.fromEntries(reported.more_artifacts) }),
    ...(blocked !== null && { blocked }),
    ...(usage !== null && { usage }),
    ...(answer !== undefined && { answer }),
    ...(prose !== null && { prose }),
    ...(conformance !== null && { conformance }),
    ...(Object.keys(envelope).length > 0 && { envelope }),
  };
}
