/**
 * Events as lines, and lines as events. An event is serialised once, when it is emitted; a replay sends the same text.
 * @see docs/protocol/session-rpc.md#events
 */
import type { SessionEvent } from '../../../protocol/session-events.ts';
import type { PublishedEvent } from '../../contract/events.ts';
import { type ImageShelf, mayRefer, payloadWithImages, sentJson, storedJson } from '../record/stored-image.ts';

/** Cursors of the journal per sequence number: an event is followed by internal entries, which are never sent. */
export const CURSORS_PER_EVENT = 256;

/** Returns the cursor of an event. Entries that are not sent lie between it and the next event's. */
export const cursorOf = (seq: number): number => seq * CURSORS_PER_EVENT;

/** Returns the newest event at or before a cursor. */
export const seqAt = (cursor: number): number => Math.floor(cursor / CURSORS_PER_EVENT);

/** True when the entry at a cursor is an event and not an internal entry. */
export const isEventCursor = (cursor: number): boolean => cursor % CURSORS_PER_EVENT === 0;

/**
 * Kind of an entry without content. A journal promises for volatile entries that no cursor of theirs is used twice, even
 * if a crash costs them, and keeps a range free ahead of them. An event that is sent before it is on disk needs that promise
 * too, so a session writes one of these before its first event in a process, and again every so often.
 */
export const RESERVED = 'cursors.reserved';

const HEAD = '{"jsonrpc":"2.0","method":"event","params":';

/** The parts of an event. Members of `payload` that are undefined are left out of both forms. */
export interface EventParts extends Pick<PublishedEvent, 'session' | 'owner' | 'type' | 'seq'> {
  readonly timestamp: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** Makes a serialised event. */
export const publishedEvent = (parts: EventParts): PublishedEvent => journaledEvent(parts).event;

/** An event, its entry in the journal, and the approximate number of characters of its line. */
export interface JournaledEvent {
  readonly event: PublishedEvent;
  readonly body: string;
  readonly size: number;
}

/** Makes an event with its entry, which refers to the stored images of `holder`. */
export function journaledEvent(parts: EventParts, holder?: string): JournaledEvent {
  const { session, owner, type, seq, timestamp, payload } = parts;
  const params: SessionEvent = { type, timestamp, payload, seq };
  const { text, omitted } = storedJson(params, holder);
  const body = `${HEAD}${text}}`;
  const facts = { session, owner, type, seq, params };
  const event = omitted === 0 ? { ...facts, line: body } : eventWithImages(facts);
  return { event, body, size: body.length + omitted };
}

/** Makes an event whose images are stored. Its line is made for the first client that gets it. */
function eventWithImages(facts: Omit<PublishedEvent, 'line'>): PublishedEvent {
  let line: string | undefined;
  return {
    ...facts,
    get line() {
      line ??= lineOf(facts.params);
      return line;
    },
  };
}

const lineOf = (params: SessionEvent): string => sentJson(() => `${HEAD}${JSON.stringify(params)}}`);

/** Returns a payload with the members the protocol puts first in front, and without undefined ones. */
export function payloadOf(
  first: Readonly<Record<string, unknown>>,
  rest: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const payload: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(first)) if (value !== undefined) payload[name] = value;
  for (const [name, value] of Object.entries(rest)) if (value !== undefined) payload[name] = value;
  return payload;
}

/** A stored event. Its text is at hand; the object is parsed when it is read. */
export class StoredEvent implements PublishedEvent {
  readonly session: string;
  readonly owner: string;
  readonly type: string;
  readonly seq: number;
  readonly #body: string;
  readonly #shelf: ImageShelf | undefined;
  #params: SessionEvent | undefined;

  /** @param shelf where the images are that its entry refers to */
  constructor(session: string, owner: string, type: string, seq: number, body: string, shelf?: ImageShelf) {
    this.session = session;
    this.owner = owner;
    this.type = type;
    this.seq = seq;
    this.#body = body;
    this.#shelf = shelf !== undefined && mayRefer(body) ? shelf : undefined;
  }

  /** Not stored where it has images: a page of events may have many. */
  get line(): string {
    return this.#shelf === undefined ? this.#body : lineOf(this.params);
  }

  get params(): SessionEvent {
    this.#params ??= paramsOf(this.#body, this.#shelf);
    return this.#params;
  }
}

/** Returns the `params` of an event's entry, with the images that it refers to. */
export function paramsOf(body: string, shelf?: ImageShelf): SessionEvent {
  const { params } = JSON.parse(body) as { params: SessionEvent };
  if (shelf === undefined || !mayRefer(body)) return params;
  return { ...params, payload: payloadWithImages(params.payload, shelf) };
}
