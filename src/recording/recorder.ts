/**
 * Forwards between clients and a host and stores every message of both directions, in the order in which it passed,
 * without its secrets. It changes no forwarded message, waits for slow readers, and ends both sides as they end.
 *
 * It knows links and no protocol.
 * @see docs/record-replay.md#recording
 */
import type { CloseInfo, Link, LinkReceiver, Malformed, Message } from '../transport/link.ts';
import { MESSAGE_BYTES_CEILING } from '../transport/link.ts';
import { parseNested } from '../wire/depth.ts';
import { asError, type HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { BundleWriter, type ManifestFacts } from './bundle-writer.ts';
import { defaultVolatile, VolatilePaths } from './compare.ts';
import {
  EDGES,
  FORMAT,
  FORMAT_VERSION,
  MAX_CONNECTIONS,
  PROTOCOL_VERSIONS,
  type Protocol,
  type Side,
} from './format.ts';
import { protocolOf } from './messages.ts';
import { Redactor, type RedactorOptions } from './redactor.ts';

/** Unsent bytes of a side above which the other one is not read, and at which it is read again. */
const HIGH_WATER_BYTES = 256 * 1024;
const LOW_WATER_BYTES = 64 * 1024;

/** Nesting of messages that are stored as such; a deeper line is stored as text. */
const MAX_DEPTH = 1024;

/** Replacement for a line that is not UTF-8 or too long: its receiver refuses it too, since it is no message. */
const UNREADABLE = '\u{fffd}';

export interface RecorderOptions extends RedactorOptions {
  /** A folder that is missing or empty. */
  readonly folder: string;
  /** Name → version of the software that takes part; put into the manifest. */
  readonly software?: Readonly<Record<string, string>>;
  /** JSON Pointers of further fields that differ in every run. */
  readonly volatile?: readonly string[];
  /** Returns monotonic milliseconds. */
  readonly now?: () => number;
}

export class Recorder {
  readonly #writer: BundleWriter;
  readonly #redactor: Redactor;
  readonly #options: RecorderOptions;
  readonly #now: () => number;
  readonly #startedAt: string;
  readonly #startMs: number;
  readonly #open = new Set<RecordedPair>();
  readonly #transports = { client: new Set<string>(), host: new Set<string>() };
  #protocol: Protocol = 'unknown';
  #seq = 0;
  #ms = 0;
  #connections = 0;
  #messages = 0;
  #finishing: Promise<void> | undefined;

  private constructor(writer: BundleWriter, options: RecorderOptions, startedAt: string) {
    this.#writer = writer;
    this.#options = options;
    this.#redactor = new Redactor(options);
    this.#now = options.now ?? (() => performance.now());
    this.#startMs = this.#now();
    this.#startedAt = startedAt;
  }

  /**
   * Starts a bundle.
   * @throws usage when the folder is not empty · recording.invalid for a volatile field that is no JSON Pointer · disk_full, runtime_error
   */
  static async start(options: RecorderOptions): Promise<Recorder> {
    new VolatilePaths(options.volatile ?? []);
    const startedAt = new Date().toISOString();
    const first = facts({
      options,
      protocol: 'unknown',
      startedAt,
      connections: 0,
      messages: 0,
      transports: { client: [], host: [] },
      redacted: [],
      skipped: [],
    });
    return new Recorder(await BundleWriter.create(options.folder, first), options, startedAt);
  }

  /** Connections and messages so far. */
  get counts(): { readonly connections: number; readonly messages: number; readonly bytes: number } {
    return { connections: this.#connections, messages: this.#messages, bytes: this.#writer.bytes };
  }

  /** Named secrets that are too short to be searched for. */
  get skippedSecrets() {
    return this.#redactor.skipped;
  }

  /** Redactions so far, by rule. */
  get redacted() {
    return this.#redactor.redacted;
  }

  /** Connections that are open. */
  get open(): number {
    return this.#open.size;
  }

  /**
   * Passes everything between the two links and records it. Resolves when both have ended; rejects when the bundle cannot be
   * written: then both were dropped, since a gap would not be noticed later.
   */
  connect(client: Link, host: Link): Promise<void> {
    if (this.#finishing !== undefined || this.#connections >= MAX_CONNECTIONS) {
      client.destroy('the recording has ended');
      host.destroy('the recording has ended');
      return Promise.resolve();
    }
    const conn = ++this.#connections;
    this.#transports.client.add(client.transport);
    this.#transports.host.add(host.transport);
    this.#line({ conn, event: 'opened', client: client.transport, host: host.transport });
    const pair = new RecordedPair(client, host, {
      message: (from, raw) => this.#record(conn, from, raw),
      malformed: (from, { reason }) => this.#count({ conn, from, malformed: reason }),
      closed: (by, { clean, reason }) =>
        this.#line({ conn, event: 'closed', by, clean, reason: this.#redactor.text(reason).slice(0, 1000) }),
      behind: () => (this.#writer.isBehind ? this.#writer.drained() : undefined),
      failed: () => this.#writer.failed,
    });
    this.#open.add(pair);
    return pair.done.finally(() => this.#open.delete(pair));
  }

  /** Ends the connections that are open, and the bundle. Fails as writing did; calling it again returns the same promise. */
  finish(): Promise<void> {
    this.#finishing ??= this.#finish();
    return this.#finishing;
  }

  async #finish(): Promise<void> {
    await Promise.all([...this.#open].map((pair) => pair.close()));
    const { client, host } = this.#transports;
    await this.#writer.finish(
      facts({
        options: this.#options,
        protocol: this.#protocol,
        startedAt: this.#startedAt,
        connections: this.#connections,
        messages: this.#messages,
        transports: { client: [...client], host: [...host] },
        redacted: this.#redactor.redacted,
        skipped: this.#redactor.skipped,
      }),
    );
  }

  #record(conn: number, from: Side, raw: string | Message): void {
    const message = typeof raw === 'string' ? parsed(raw) : raw;
    if (message === undefined) return this.#count({ conn, from, text: this.#redactor.text(raw as string) });
    if (this.#protocol === 'unknown') this.#protocol = protocolOf(message);
    this.#count({ conn, from, message: this.#redactor.message(message) });
  }

  #count(entry: object): void {
    this.#messages += 1;
    this.#line(entry);
  }

  #line(entry: object): void {
    // Times never run backwards, and three digits are enough.
    this.#ms = Math.max(this.#ms, Math.round((this.#now() - this.#startMs) * 1000) / 1000);
    this.#seq += 1;
    this.#writer.line(JSON.stringify({ seq: this.#seq, ms: this.#ms, ...entry }));
  }
}

/** Converts a message of a text link for the in-memory pair, or the other way; undefined for a line that is no message. */
const translated = (raw: string | Message): string | Message | undefined =>
  typeof raw === 'string' ? parsed(raw) : JSON.stringify(raw);

/** Parses a JSON object; undefined for any other text, which is stored as text. */
function parsed(text: string): Message | undefined {
  try {
    const value: unknown = parseNested(text, MAX_DEPTH);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function facts(known: {
  readonly options: RecorderOptions;
  readonly protocol: Protocol;
  readonly startedAt: string;
  readonly connections: number;
  readonly messages: number;
  readonly transports: ManifestFacts['transports'];
  readonly redacted: ManifestFacts['redacted'];
  readonly skipped: ManifestFacts['skipped_secrets'];
}): ManifestFacts {
  const { options, protocol } = known;
  const { software = {}, volatile = [] } = options;
  const usual = defaultVolatile(protocol);
  return {
    format: FORMAT,
    format_version: FORMAT_VERSION,
    protocol,
    protocol_version: PROTOCOL_VERSIONS[protocol],
    edges: [EDGES[protocol]],
    transports: known.transports,
    started_at: known.startedAt,
    software: { ...software, node: process.version, platform: `${process.platform} ${process.arch}` },
    connections: known.connections,
    messages: known.messages,
    redacted: known.redacted,
    skipped_secrets: known.skipped,
    volatile: { client: [...usual.client, ...volatile], host: [...usual.host, ...volatile] },
  };
}

interface PairObserver {
  message(from: Side, raw: string | Message): void;
  malformed(from: Side, problem: Malformed): void;
  /** Called when the first of the two has ended. */
  closed(by: Side, cause: CloseInfo): void;
  /** Resolves when the store has caught up; undefined when it is not behind. */
  behind(): Promise<void> | undefined;
  failed(): HandfastError | undefined;
}

/** Two links, each of which gets the messages that the other receives. */
class RecordedPair {
  readonly done: Promise<void>;
  readonly #links: Readonly<Record<Side, Link>>;
  readonly #observer: PairObserver;
  readonly #done = Promise.withResolvers<void>();
  readonly #paused = { client: false, host: false };
  readonly #closed = new Set<Side>();
  #first: Side | undefined;

  constructor(client: Link, host: Link, observer: PairObserver) {
    this.#links = { client, host };
    this.#observer = observer;
    this.done = this.#done.promise;
    // A caller that waits for `finish` alone must not end the process by this.
    this.done.catch(() => {});
    for (const link of [client, host]) link.setMaxMessageBytes(MESSAGE_BYTES_CEILING);
    host.open(this.#receiver('host'));
    client.open(this.#receiver('client'));
  }

  /** Ends both in order. */
  async close(): Promise<void> {
    await Promise.all([
      this.#links.client.close('the recording has ended'),
      this.#links.host.close('the recording has ended'),
    ]);
    await this.done.catch(() => {});
  }

  #receiver(side: Side): LinkReceiver {
    const other = this.#links[side === 'client' ? 'host' : 'client'];
    const own = this.#links[side];
    return {
      message: (raw) => {
        if (this.#drop()) return;
        // Before it is passed on: an answer to it must not be stored first.
        this.#observer.message(side, raw);
        const message = own.text === other.text ? raw : translated(raw);
        if (message !== undefined) other.send(message);
        this.#flow(side);
      },
      malformed: (problem) => {
        if (this.#drop()) return;
        this.#observer.malformed(side, problem);
        if (other.text) other.send(UNREADABLE);
      },
      ended: () => {
        this.#note(side, { clean: true, reason: 'it ended its output' });
        if (other.end === undefined) void other.close();
        else other.end();
      },
      closed: (cause) => {
        this.#note(side, cause);
        this.#closed.add(side);
        if (cause.clean) void other.close(cause.reason);
        else other.destroy(cause.reason);
        if (this.#closed.size < 2) return;
        const failed = this.#observer.failed();
        if (failed === undefined) this.#done.resolve();
        else this.#done.reject(failed);
      },
    };
  }

  #note(side: Side, cause: CloseInfo): void {
    if (this.#first !== undefined) return;
    this.#first = side;
    // Later messages of the other side belong to the recording: the end is its last line.
    const ended = (): void => this.#observer.closed(side, cause);
    void this.done.then(ended, ended);
  }

  /**
   * Stops reading from `side` while the other side does not accept its messages, or the disk does not accept the stored
   * lines.
   */
  #flow(side: Side): void {
    if (this.#paused[side]) return;
    const other = this.#links[side === 'client' ? 'host' : 'client'];
    const stored = this.#observer.behind();
    if (stored === undefined && other.buffered <= HIGH_WATER_BYTES) return;
    this.#paused[side] = true;
    this.#links[side].pause(true);
    void Promise.all([stored, other.drained(LOW_WATER_BYTES)]).then(() => {
      this.#paused[side] = false;
      this.#links[side].pause(false);
    });
  }

  /** Drops both when the bundle cannot be written any more. */
  #drop(): boolean {
    const failed = this.#observer.failed();
    if (failed === undefined) return false;
    for (const link of Object.values(this.#links)) link.destroy(asError(failed).message);
    return true;
  }
}
