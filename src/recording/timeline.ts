/**
 * A recording as steps that wait for each other: each message of the host with the client's message to which it
 * replies.
 */
import { type Entry, type MessageEntry, messageOf, type Protocol, type Recording } from './format.ts';
import { type Classified, classify, isReport, protocolOf } from './messages.ts';

/** One recorded message, and its state in a replay. */
export interface Step {
  readonly entry: MessageEntry;
  readonly message: Readonly<Record<string, unknown>> | undefined;
  readonly info: Classified;
  /** Steps that must be done before: the request and its cancels, or the step before it. */
  readonly needs: readonly Step[];
  /** The request that a reply, an event or a cancel belongs to. */
  readonly request: Step | undefined;
  /** `skipped`: it only showed that a side responds, or reported. */
  state: 'waiting' | 'done' | 'skipped';
  /** A reply to it was recorded. */
  answered: boolean;
  /** The id that the live request has in place of the recorded one. */
  liveId: unknown;
}

/** The steps of one connection. */
export interface Plan {
  readonly number: number;
  readonly steps: readonly Step[];
  /** The end of the connection; undefined if the recording ends before. */
  readonly closed: Extract<Entry, { event: 'closed' }> | undefined;
  /** A live connection plays it. */
  taken: boolean;
}

/** Returns the protocol of a recording that was killed before its manifest named it. */
export function protocolIn({ manifest, entries }: Recording): Protocol {
  if (manifest.protocol !== 'unknown') return manifest.protocol;
  for (const entry of entries) {
    const message = messageOf(entry);
    if (message !== undefined) return protocolOf(message);
  }
  return 'unknown';
}

/** Returns the plans of a recording, by the order of their connections. */
export function plansOf(recording: Recording): readonly Plan[] {
  const protocol = protocolIn(recording);
  const plans: { number: number; steps: Step[]; closed: Plan['closed']; taken: boolean }[] = [];
  /** Requests by side and id, the newest last: a reply may come on the connection that resumed a session. */
  const requests = new Map<string, Step>();
  const cancels = new Map<Step, Step[]>();
  for (const entry of recording.entries) {
    if ('event' in entry) {
      if (entry.event === 'opened') plans.push({ number: entry.conn, steps: [], closed: undefined, taken: false });
      else (plans[entry.conn - 1] as (typeof plans)[0]).closed = entry;
      continue;
    }
    const { steps } = plans[entry.conn - 1] as (typeof plans)[0];
    const message = messageOf(entry);
    const info = message === undefined ? NONE : classify(protocol, message);
    // A cancel names a request of the side that sends it, all others one of the other side.
    const asker = info.kind === 'cancel' ? entry.from : entry.from === 'client' ? 'host' : 'client';
    const scope = (side: string, conn: number): string => `${side} ${protocol === 'a2e' ? '' : conn} `;
    const request = info.ref === '' ? undefined : requests.get(scope(asker, entry.conn) + info.ref);
    const before = steps.findLast(({ state }) => state !== 'skipped');
    const isProbe =
      info.kind === 'ping' ||
      info.kind === 'pong' ||
      request?.info.kind === 'ping' ||
      isReport(info.type, before === undefined);
    const needs =
      request === undefined ? (before === undefined ? [] : [before]) : [request, ...(cancels.get(request) ?? [])];
    const step: Step = {
      entry,
      message,
      info,
      needs,
      request,
      state: isProbe ? 'skipped' : 'waiting',
      answered: false,
      liveId: undefined,
    };
    steps.push(step);
    if (request !== undefined && (info.kind === 'reply' || info.kind === 'failure')) request.answered = true;
    if (info.id !== '') requests.set(scope(entry.from, entry.conn) + info.id, step);
    if (info.kind === 'cancel' && request !== undefined) cancels.set(request, [...(cancels.get(request) ?? []), step]);
  }
  return plans;
}

/** The classification of a line that is no message. */
const NONE: Classified = { kind: 'other', type: '', id: '', ref: '' };

/** Returns the first message of the client on a connection. */
export const firstOf = ({ steps }: Plan): Step | undefined =>
  steps.find(({ entry, state }) => entry.from === 'client' && state !== 'skipped');
