/**
 * The host's side of the messages of a skill in a sandbox: calls of tools, events, printed text, its result. Every message is
 * checked here, since a skill may send any text; an invalid message ends the run as `sandbox_crash`.
 */

import { asError, type HandfastError } from '../../../wire/errors.ts';
import { isObject } from '../../../wire/json.ts';
import { failure } from '../errors.ts';
import type { FromInside, ToInside } from './inside.ts';

/** The functions of the host that a run may use. */
export interface Granted {
  /** Calls a tool. */
  call(tool: string, args: unknown): Promise<unknown>;
  /** Passes an event to the caller. */
  event(kind: string, data: Readonly<Record<string, unknown>>): Promise<void> | undefined;
}

export interface ConversationLimits {
  /** Characters of its result, and of any other message. */
  readonly maxMessageChars: number;
  /** Maximum characters that it may print; further ones are dropped. */
  readonly maxPrintedChars: number;
  readonly maxCalls: number;
  readonly maxEvents: number;
}

/** Maximum characters that are read and dropped beyond those it may print: reading costs the host time. */
const MAX_DROPPED_CHARS = 64 * 1024 * 1024;
/** Maximum number of calls and events that wait. */
const MAX_WAITING = 1024;

export class Conversation {
  /** Resolves with the result of the skill; rejects with `skill_error`, `out_of_memory`, `sandbox_crash`. */
  readonly result: Promise<unknown>;
  readonly #granted: Granted;
  readonly #limits: ConversationLimits;
  readonly #resolve: (value: unknown) => void;
  readonly #reject: (error: HandfastError) => void;
  #send: ((line: string) => void) | undefined;
  #isOver = false;
  #waiting = 0;
  #calls = 0;
  #events = 0;
  #printed = 0;

  constructor(granted: Granted, limits: ConversationLimits) {
    this.#granted = granted;
    this.#limits = limits;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.result = promise;
    promise.catch(() => {});
    this.#resolve = resolve;
    this.#reject = reject;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Longest line that is read. */
  get maxLineChars(): number {
    return this.#limits.maxMessageChars;
  }

  /** Records that the sandbox has started: replies go to `send`. */
  open(send: (line: string) => void): void {
    this.#send = send;
  }

  /** Handles a line from inside. Lines after the result are ignored. */
  receive(line: string): void {
    if (this.#isOver) return;
    if (line.length > this.#limits.maxMessageChars) return this.fail(tooLong(this.#limits.maxMessageChars));
    let message: FromInside | undefined;
    try {
      message = messageOf(JSON.parse(line));
    } catch {}
    if (message === undefined)
      return this.fail(failure('crash', 'the sandbox sent what is no message', { reason: 'bad_message' }));
    switch (message.type) {
      case 'done':
        this.#isOver = true;
        return this.#resolve(message.value);
      case 'failed':
        return this.fail(thrownInside(message));
      case 'print':
        return this.printed(`${message.text}\n`, 'info');
      case 'call': {
        const { tool, args } = message;
        if (++this.#calls > this.#limits.maxCalls) return this.fail(limit('calls', this.#limits.maxCalls));
        return this.#answer(message.id, () => this.#granted.call(tool, args));
      }
      case 'event': {
        const { kind, data } = message;
        if (++this.#events > this.#limits.maxEvents) return this.fail(limit('events', this.#limits.maxEvents));
        return this.#answer(message.id, () => this.#granted.event(kind, isObject(data) ? data : { value: data }));
      }
    }
  }

  /** Passes on text that the skill printed, which is never taken for a message. */
  printed(text: string, level: 'info' | 'error'): void {
    const room = this.#limits.maxPrintedChars - this.#printed;
    this.#printed += text.length;
    if (room < -MAX_DROPPED_CHARS) return this.fail(limit('characters that it printed', MAX_DROPPED_CHARS));
    if (room <= 0 || this.#isOver) return;
    const message =
      text.length > room ? `${text.slice(0, room)}… what it printed beyond is left out` : text.replace(/\n$/, '');
    Promise.resolve(this.#granted.event('log', { level, message })).catch(() => {});
  }

  /** Ends the run with an error; the first counts. */
  fail(error: HandfastError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#reject(error);
  }

  #answer(id: number, work: () => Promise<unknown> | undefined): void {
    if (++this.#waiting > MAX_WAITING) return this.fail(limit('calls and events that wait', MAX_WAITING));
    const reply = (message: Extract<ToInside, { type: 'reply' }>): void => {
      this.#waiting--;
      if (!this.#isOver) this.#send?.(JSON.stringify(message));
    };
    void (async () => {
      try {
        reply({ type: 'reply', id, value: await work() });
      } catch (thrown) {
        const { code, message } = asError(thrown);
        reply({ type: 'reply', id, error: { code, message } });
      }
    })();
  }
}

function messageOf(value: unknown): FromInside | undefined {
  if (!isObject(value)) return undefined;
  const { type, id } = value as Partial<Record<string, unknown>>;
  const isText = (...names: readonly string[]) => names.every((name) => typeof value[name] === 'string');
  const isCall = Number.isSafeInteger(id);
  const fits =
    type === 'done' ||
    (type === 'failed' && isText('name', 'message')) ||
    (type === 'print' && isText('text')) ||
    (type === 'call' && isCall && isText('tool')) ||
    (type === 'event' && isCall && isText('kind'));
  return fits ? (value as unknown as FromInside) : undefined;
}

/** Messages of engines whose memory is used up. */
const NO_MEMORY = /out of memory|Array buffer allocation failed|Invalid typed array length/i;

function thrownInside({ name, message }: Extract<FromInside, { type: 'failed' }>): HandfastError {
  if (/^(?:InternalError|RangeError)$/.test(name) && NO_MEMORY.test(message)) {
    return failure('memory', 'the skill used more memory than it may');
  }
  const what = message === '' ? name : `${name === 'Error' ? '' : `${name}: `}${message}`;
  return failure('failed', what, { reason: 'thrown' });
}

const limit = (what: string, max: number): HandfastError =>
  failure('failed', `the skill made more than ${max} ${what}`, { reason: 'limit', limit: what, max });

export const tooLong = (max: number): HandfastError =>
  failure('failed', `the skill sent a message of more than ${max} characters`, { reason: 'too_large', max });
