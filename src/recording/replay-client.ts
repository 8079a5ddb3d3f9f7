/**
 * Plays the client of a recording against a live host, and compares the host's messages with the recorded ones. The
 * client sends the recorded messages again, with the ids that the live host gave out in place of the recorded ones;
 * each is sent once the host has sent the messages it had sent before it.
 * @see docs/record-replay.md#replaying-the-client
 */
import { sleep } from '../base/sleep.ts';
import type { Link } from '../transport/link.ts';
import { parseNested } from '../wire/depth.ts';
import { fail } from '../wire/errors.ts';
import { isObject, membersOf } from '../wire/json.ts';
import { Bindings, differences, VolatilePaths } from './compare.ts';
import { type Divergence, diffRecordings } from './diff.ts';
import type { Entry, Protocol, Recording } from './format.ts';
import { classify, heartbeatTo, isReport, resumed } from './messages.ts';
import { PLACEHOLDER } from './redactor.ts';
import { plansOf, protocolIn, type Step } from './timeline.ts';

const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_DEPTH = 1024;

type Message = Readonly<Record<string, unknown>>;

export interface ReplayClientOptions {
  /** Opens a link to the live host, once for each recorded connection. */
  readonly dial: () => Promise<Link>;
  /** Sent in place of the recorded token. Default: none. */
  readonly token?: string;
  /** Placeholder → the secret to send in its place. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** JSON Pointers of fields that are not compared, beside those of the manifest. */
  readonly volatile?: readonly string[];
  /** Divergences that are looked for. Default 1. */
  readonly most?: number;
  /** Longest wait for a recorded message of the host, milliseconds. Default 30,000. */
  readonly timeoutMs?: number;
}

export interface ClientReplay {
  /** The passed messages, as a recording. */
  readonly live: Recording;
  /** The differences from the recording; none when the host replied as recorded. */
  readonly divergences: readonly Divergence[];
}

/**
 * Plays every connection in the recorded order and resolves with the differences. A message of the host that does not
 * arrive within its time ends the replay, and is a divergence.
 * @throws usage when the recording sends a secret whose value was not given · errors of `dial`
 */
export async function replayClient(recording: Recording, options: ReplayClientOptions): Promise<ClientReplay> {
  const player = new ClientPlayer(recording, options);
  const live = await player.play();
  const { volatile, most } = options;
  return { live, divergences: diffRecordings(recording, live, { volatile, most }) };
}

class ClientPlayer {
  readonly #recording: Recording;
  readonly #options: ReplayClientOptions;
  readonly #protocol: Protocol;
  readonly #bindings = new Bindings();
  readonly #volatile: VolatilePaths;
  readonly #steps = new Map<number, Step>();
  readonly #links = new Map<number, Link>();
  readonly #closed = new Set<number>();
  readonly #live: Entry[] = [];
  /** Steps of the host that have not arrived, by the message to which they reply. */
  readonly #expected = new Map<string, Step[]>();
  #wake: () => void = () => {};
  #lastCursor = 0;
  /** The name and the life of a worker that is played, as its heartbeats have them. */
  #worker: Message = {};

  constructor(recording: Recording, options: ReplayClientOptions) {
    this.#recording = recording;
    this.#options = options;
    this.#protocol = protocolIn(recording);
    this.#volatile = new VolatilePaths([...recording.manifest.volatile.host, ...(options.volatile ?? [])]);
    for (const [placeholder, value] of Object.entries(options.secrets ?? {})) this.#bindings.secret(placeholder, value);
    const sent = new Set<string>();
    for (const step of plansOf(recording).flatMap(({ steps }) => steps)) {
      this.#steps.set(step.entry.seq, step);
      if (step.state === 'skipped' || step.entry.from === 'client') continue;
      const cursor = step.message?.cursor;
      const again = `${String(cursor)} ${String(step.message?.id)}`;
      // Sent again to an agent that resumed; the live one has it already.
      if (typeof cursor === 'number' && sent.has(again)) step.state = 'skipped';
      else this.#expect(step);
      sent.add(again);
    }
  }

  async play(): Promise<Recording> {
    try {
      for (const entry of this.#recording.entries) {
        if ('event' in entry) await (entry.event === 'opened' ? this.#opened(entry.conn) : this.#ended(entry));
        else if (entry.from === 'client') {
          if (!(await this.#came(entry.conn, entry.seq))) break;
          this.#send(this.#steps.get(entry.seq) as Step);
        }
      }
      // A recording that was killed has no ends of connections.
      for (const conn of this.#links.keys())
        if (!this.#closed.has(conn)) await this.#came(conn, Number.POSITIVE_INFINITY);
    } finally {
      await Promise.all([...this.#links.values()].map((link) => link.close('the replay has ended')));
    }
    return { manifest: this.#recording.manifest, entries: this.#live };
  }

  async #opened(conn: number): Promise<void> {
    const link = await this.#options.dial();
    this.#links.set(conn, link);
    this.#note({ conn, event: 'opened', client: link.transport, host: link.transport });
    link.open({
      message: (raw) => this.#receive(conn, raw),
      malformed: () => {},
      ended: () => void link.close(),
      closed: () => {
        this.#closed.add(conn);
        this.#wake();
      },
    });
  }

  async #ended({ conn, seq, by, clean }: Extract<Entry, { event: 'closed' }>): Promise<void> {
    const link = this.#links.get(conn) as Link;
    await this.#came(conn, seq);
    if (by === 'host') await this.#until(() => this.#closed.has(conn));
    if (clean) await link.close();
    else link.destroy('lost, as recorded');
    await this.#until(() => this.#closed.has(conn));
  }

  /**
   * Waits for the messages that the host had sent on a connection before `seq`; resolves with false when they do not
   * arrive.
   */
  #came(conn: number, seq: number): Promise<boolean> {
    const before = [...this.#steps.values()].filter(
      ({ entry, state }) => entry.conn === conn && entry.seq < seq && entry.from === 'host' && state === 'waiting',
    );
    return this.#until(() => before.every(({ state }) => state !== 'waiting') || this.#closed.has(conn));
  }

  async #until(holds: () => boolean): Promise<boolean> {
    const deadline = performance.now() + (this.#options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    while (!holds()) {
      const left = deadline - performance.now();
      if (left <= 0) return false;
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      const controller = new AbortController();
      await Promise.race([woken, sleep(left, controller.signal).catch(() => {})]);
      controller.abort();
    }
    return true;
  }

  #send(step: Step): void {
    const { entry, message } = step;
    const link = this.#links.get(entry.conn) as Link;
    // Pings are replied to as they arrive; reports that the client sent on its own initiative are sent again.
    if (step.state === 'skipped' && !isReport(step.info.type, false)) return;
    if (message === undefined) {
      if ('text' in entry && link.text) this.#pass(entry.conn, link, entry.text);
      return;
    }
    const own = this.#withToken(this.#bindings.translate(message), message);
    const missing = JSON.stringify(own).match(PLACEHOLDER)?.[0];
    if (missing !== undefined) {
      throw fail('usage', `the recording sends ${missing} in #${entry.seq}; give the value to send in its place`);
    }
    this.#pass(entry.conn, link, own);
  }

  #pass(conn: number, link: Link, message: Message | string): void {
    this.#note(
      typeof message === 'string' ? { conn, from: 'client', text: message } : { conn, from: 'client', message },
    );
    link.send(typeof message === 'string' || !link.text ? (message as string) : JSON.stringify(message));
  }

  /** Returns the first message of a protocol with the live token, and after the live cursor if it resumes a session. */
  #withToken(message: Message, recorded: Message): Message {
    const { token = '' } = this.#options;
    if ('auth_token' in message) {
      const own = { ...message, auth_token: token };
      if (resumed(recorded) === undefined) return own;
      const extensions = membersOf(message.extensions);
      const resume = { ...membersOf(extensions['handfast/resume']), cursor: this.#lastCursor };
      return { ...own, extensions: { ...extensions, 'handfast/resume': resume } };
    }
    if (message.method === 'rpc.handshake') {
      const { token: _recorded, ...params } = membersOf(message.params);
      return { ...message, params: token === '' ? params : { ...params, token } };
    }
    if (message.type === 'SESSION_ANNOUNCE') {
      const { agent_id } = membersOf(message.worker);
      const { incarnation } = membersOf(message.session);
      this.#worker = { agent_id, incarnation };
    }
    const envelope = membersOf(message.envelope);
    return message.type === 'SESSION_ANNOUNCE' && 'token' in envelope
      ? { ...message, envelope: { ...envelope, token } }
      : message;
  }

  #receive(conn: number, raw: string | Message): void {
    let message: unknown = raw;
    if (typeof raw === 'string') {
      try {
        message = parseNested(raw, MAX_DEPTH);
      } catch {
        return this.#note({ conn, from: 'host', text: raw });
      }
    }
    if (!isObject(message)) return;
    if (message.type === 'ping') return this.#links.get(conn)?.send(pongTo(message, raw));
    const beat = heartbeatTo(message, this.#worker);
    if (beat !== undefined) this.#links.get(conn)?.send(typeof raw === 'string' ? JSON.stringify(beat) : { ...beat });
    this.#note({ conn, from: 'host', message });
    const info = classify(this.#protocol, message);
    const expected = this.#expected.get(keyOf(conn, info.ref, info.kind, info.type));
    const step = expected?.shift();
    if (typeof message.cursor === 'number') this.#lastCursor = Math.max(this.#lastCursor, message.cursor);
    if (step === undefined) return;
    step.state = 'done';
    // Differences are found later; here the live ids are learned.
    differences(step.message, message, { volatile: this.#volatile, bindings: this.#bindings, most: 1000 });
    this.#wake();
  }

  #expect(step: Step): void {
    const { entry, info } = step;
    const key = keyOf(entry.conn, info.ref, info.kind, info.type);
    const expected = this.#expected.get(key);
    if (expected === undefined) this.#expected.set(key, [step]);
    else expected.push(step);
  }

  #note(entry: object): void {
    this.#live.push({ seq: this.#live.length + 1, ms: this.#live.length, ...entry } as Entry);
  }
}

/**
 * Returns a key for the message to which a message replies: a request, whose replies may come on a later connection of
 * the session; else its type on its connection.
 */
const keyOf = (conn: number, ref: string, kind: string, type: string): string =>
  ref === '' ? `${conn} ${type}` : `${ref.startsWith('n') ? conn : ''} ${ref} ${kind === 'event' ? 'event' : 'reply'}`;

/** Replies to a ping of the host, in the form in which it arrived. */
function pongTo(ping: Message, raw: string | Message): string | Record<string, unknown> {
  const pong = {
    type: 'pong',
    id: `${String(ping.id)}-pong`,
    a2e: '1.0',
    version: '1.0',
    ts: Date.now() / 1000,
    req_id: ping.id,
  };
  return typeof raw === 'string' ? JSON.stringify(pong) : pong;
}
