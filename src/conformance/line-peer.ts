/**
 * One connection to a target, as lines of JSON: sent lines, received messages, and bounded waits.
 */
import { within } from '../base/race.ts';
import { asError, fail } from '../wire/errors.ts';
import { Lines } from './bounded.ts';
import { type Binding, type Carrier, type CarrierSink, openCarrier } from './carriers.ts';
import { type Crossing, Mismatch } from './case.ts';
import type { DiallingTarget } from './dialling-target.ts';

/** A JSON object, as received. */
export type Fields = Readonly<Record<string, unknown>>;

/** Longest line that is stored for a report, in characters, and the number of lines. */
const MAX_CROSSING = 400;
const MAX_CROSSINGS = 12;
/** Bytes of a sent message that are read for a report: a secret in the shown part is whole in it. */
const MAX_SHOWN_BYTES = 16 * 1024;
/** Time a child has for its first line, in milliseconds. */
export const CHILD_START_MS = 60_000;
/** Output of a target that is taken from one connection, in characters: the connection is dropped behind it. */
const MAX_RECEIVED = 256 * 1024 * 1024;
/** The same in lines: no case makes a target send a hundredth of them, and short ones take many times their length. */
const MAX_LINES = 100_000;

/** The newest lines of all connections of a case, the oldest first. */
export class Transcript {
  #lines: Crossing[] = [];
  readonly #secret: string;

  /** @param secret a text that no line may show; empty: none */
  constructor(secret: string) {
    this.#secret = secret;
  }

  add(direction: Crossing['direction'], whole: string): void {
    const text = this.#secret === '' ? whole : whole.replaceAll(this.#secret, '<token>');
    const cut = text.length > MAX_CROSSING ? `${text.slice(0, MAX_CROSSING)}… (${text.length} characters)` : text;
    this.#lines.push({ direction, text: cut });
    if (this.#lines.length > MAX_CROSSINGS) this.#lines.shift();
  }

  get lines(): readonly Crossing[] {
    return this.#lines;
  }
}

/** Options of a peer. */
export interface PeerOptions {
  readonly address: string;
  /** Longest wait for anything, in milliseconds. */
  readonly patienceMs: number;
  readonly transcript: Transcript;
  /** Set: the target opens the connection, and `address` is only named in reports. */
  readonly dialling?: DiallingTarget;
  /** Set for a child in addition to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
}

export class LinePeer {
  /** Every received message, in order. */
  readonly messages: Fields[] = [];
  /** Lines that are no JSON object. */
  readonly strange: string[] = [];
  /** Every line as received. */
  readonly lines: string[] = [];
  /** HTTP: statuses of the bodies sent, in order. */
  readonly statuses: number[] = [];
  /** Bytes a child wrote to its stderr. */
  stderrBytes = 0;
  /** True once the target has ended the connection. */
  over = false;
  /** Of a child that has ended. */
  exitCode: number | null | undefined;
  readonly #patienceMs: number;
  /** The report of the lines of this connection. Replaced when a case takes over a shared connection. */
  transcript: Transcript;
  #carrier: Carrier | undefined;
  readonly #lines = new Lines();
  #received = 0;
  #wake: (() => void)[] = [];
  #closing: Promise<void> | undefined;
  #hear: (line: string) => void = () => {};

  private constructor({ patienceMs, transcript }: PeerOptions) {
    this.#patienceMs = patienceMs;
    this.transcript = transcript;
  }

  /** Connects. Fails with `unreachable`, `timeout`, `usage`. */
  static async open(options: PeerOptions): Promise<LinePeer> {
    const peer = new LinePeer(options);
    const sink: CarrierSink = {
      text: (chunk) => peer.#text(chunk),
      gone: (exitCode) => peer.#gone(exitCode),
      status: (code) => {
        peer.statuses.push(code);
        peer.#stir();
      },
      noise: (bytes) => {
        peer.stderrBytes += bytes;
      },
    };
    const { address, dialling, patienceMs, env } = options;
    const opening = dialling?.accept(sink) ?? openCarrier(address, sink, Math.max(patienceMs, 10_000), env);
    peer.#carrier = await opening;
    return peer;
  }

  /** Longest wait for a message. A child that has sent nothing yet may still be starting. */
  get patienceMs(): number {
    const isStarting = this.#carrier?.binding === 'stdio' && this.lines.length === 0;
    return isStarting ? Math.max(this.#patienceMs, CHILD_START_MS) : this.#patienceMs;
  }

  get binding(): Binding {
    return this.#carried.binding;
  }

  /** True if bytes may be cut anywhere: no frames, no bodies. */
  get isByteStream(): boolean {
    return this.binding !== 'websocket' && this.binding !== 'http';
  }

  /** Writes bytes as they are. */
  write(bytes: Uint8Array | string): void {
    const whole = typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
    this.transcript.add('sent', Buffer.from(whole.subarray(0, MAX_SHOWN_BYTES)).toString().trimEnd());
    this.#carried.write(whole);
  }

  /** Writes one line: a value as compact JSON, a text as it is. */
  line(value: unknown): void {
    this.write(`${typeof value === 'string' ? value : JSON.stringify(value)}\n`);
  }

  /** Hands over every further line with a JSON object. */
  hear(onLine: (line: string) => void): void {
    this.#hear = onLine;
  }

  /** Ends the output of this side. False if the transport cannot. */
  end(): boolean {
    this.#carried.end?.();
    return this.#carried.end !== undefined;
  }

  /**
   * Returns the first matching message from position `from` on. Fails the case when none arrives in time or the target
   * is gone.
   */
  async find(fits: (message: Fields) => boolean, what: string, from = 0): Promise<Fields> {
    const found = await this.sought(fits, from);
    if (found !== undefined) return found;
    const last = this.messages.at(-1);
    const came = last === undefined ? 'nothing' : `last message ${JSON.stringify(last)}`;
    throw new Mismatch(what, this.over ? `the target ended the connection; ${came}` : `no such message; ${came}`);
  }

  /** Works as {@link find}; undefined when none arrives. */
  async sought(
    fits: (message: Fields) => boolean,
    from = 0,
    patienceMs = this.patienceMs,
  ): Promise<Fields | undefined> {
    let at = from;
    let found: Fields | undefined;
    await this.until(() => {
      while (at < this.messages.length && found === undefined) {
        const message = this.messages[at++] as Fields;
        if (fits(message)) found = message;
      }
      return found !== undefined || this.over;
    }, patienceMs);
    return found;
  }

  /** Waits until `done` holds; false when it does not in time. */
  async until(done: () => boolean, patienceMs = this.patienceMs): Promise<boolean> {
    const ends = performance.now() + patienceMs;
    while (!done()) {
      const left = ends - performance.now();
      if (left <= 0) return false;
      await within(new Promise<void>((resolve) => this.#wake.push(resolve)), left);
    }
    return true;
  }

  /** Waits for the target to end the connection; false when it does not in time. */
  ended(patienceMs = this.patienceMs): Promise<boolean> {
    return this.until(() => this.over, patienceMs);
  }

  /** Drops the connection. Never rejects. */
  close(): Promise<void> {
    this.#closing ??= (this.#carrier?.close() ?? Promise.resolve()).catch((thrown) => void asError(thrown));
    return this.#closing;
  }

  get #carried(): Carrier {
    if (this.#carrier === undefined) throw fail('connection_lost', 'the connection is not open');
    return this.#carrier;
  }

  #text(chunk: string): void {
    if (this.#closing !== undefined) return;
    this.#received += chunk.length;
    if (this.#received > MAX_RECEIVED || this.lines.length > MAX_LINES) {
      this.#gone(undefined);
      void this.close();
      return;
    }
    for (const line of this.#lines.push(chunk)) {
      const text = line.trim();
      if (text === '') continue;
      this.lines.push(line);
      this.transcript.add('received', text);
      const message = objectOf(text);
      if (message === undefined) this.strange.push(text);
      else {
        this.messages.push(message);
        this.#hear(text);
      }
    }
    this.#stir();
  }

  #gone(exitCode: number | null | undefined): void {
    this.over = true;
    if (exitCode !== undefined) this.exitCode = exitCode;
    this.#stir();
  }

  #stir(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}

function objectOf(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
  } catch {
    return undefined;
  }
}
