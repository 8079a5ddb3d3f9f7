/**
 * The format of a recording: its manifest, its lines, and the check of both. The content of a file is untrusted until
 * it was checked here; nothing in it is ever executed or used as a path.
 *
 * @see docs/record-replay.md#the-bundle
 */
import type { HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { failure } from './errors.ts';

export const FORMAT = 'handfast-recording';
export const FORMAT_VERSION = 1;

/** The files of a bundle; it has no others. */
export const MANIFEST_FILE = 'manifest.json';
export const MESSAGES_FILE = 'messages.ndjson';

/** Longest manifest, in bytes. */
export const MAX_MANIFEST_BYTES = 1024 * 1024;
/** Longest line of messages, in bytes: the longest message of any link, and its envelope. */
export const MAX_LINE_BYTES = 64 * 1024 * 1024 + 4096;
/** Most bytes of messages that are read. */
export const MAX_MESSAGES_BYTES = 512 * 1024 * 1024;
/** Most connections of one recording. */
export const MAX_CONNECTIONS = 100_000;

/** A protocol of the project; `unknown` until a first message showed it. */
export type Protocol = 'a2e' | 'session-rpc' | 'fleet' | 'unknown';

/** The side of a connection: `client` opened it, `host` accepted it. */
export type Side = 'client' | 'host';

/** The edge that each protocol serves. */
export const EDGES: Readonly<Record<Protocol, string>> = {
  a2e: 'environment',
  'session-rpc': 'control',
  fleet: 'fleet',
  unknown: 'unknown',
};

/** Versions of the protocols, as the wire names them. */
export const PROTOCOL_VERSIONS: Readonly<Record<Protocol, string>> = {
  a2e: '1.0',
  'session-rpc': '1.0.0',
  fleet: '2.0',
  unknown: '',
};

/** Redactions of one rule. */
export interface Redacted {
  /** `field:NAME`, `env:NAME`, `value:NAME` or `pattern:NAME`. */
  readonly rule: string;
  /** Places where something was replaced. */
  readonly count: number;
  /** Different values among them. */
  readonly values: number;
}

/** A secret that was named and is not searched for in texts, and why. */
export interface SkippedSecret {
  readonly rule: string;
  readonly reason: string;
}

/** Fields that are not compared, see `compare.ts`. */
export interface VolatileFields {
  /** JSON Pointers into messages of the client; a segment may be `*` (any one) or `**` (any number). */
  readonly client: readonly string[];
  /** The same into messages of the host. */
  readonly host: readonly string[];
}

export interface Manifest {
  readonly format: typeof FORMAT;
  readonly format_version: number;
  /** False: the recorder was killed, or has not ended; the last line may be missing. */
  readonly complete: boolean;
  readonly protocol: Protocol;
  readonly protocol_version: string;
  readonly edges: readonly string[];
  readonly transports: { readonly client: readonly string[]; readonly host: readonly string[] };
  /** RFC 3339. */
  readonly started_at: string;
  readonly ended_at: string | null;
  /** Name → version: `handfast`, `node`, and the platform. */
  readonly software: Readonly<Record<string, string>>;
  readonly connections: number;
  readonly messages: number;
  readonly redacted: readonly Redacted[];
  readonly skipped_secrets: readonly SkippedSecret[];
  readonly volatile: VolatileFields;
  /** Size and SHA-256 of the file of messages; absent while it is incomplete. */
  readonly files: Readonly<Record<string, { readonly bytes: number; readonly sha256: string }>>;
}

interface EntryBase {
  /** 1, 2, 3 … */
  readonly seq: number;
  /** Milliseconds since the start, monotonic. */
  readonly ms: number;
  /** Number of the connection, from 1. */
  readonly conn: number;
}

/** A connection was opened, by its transports; or it has ended, by the side that ended it first. */
export type ConnectionEntry = EntryBase &
  (
    | { readonly event: 'opened'; readonly client: string; readonly host: string }
    | { readonly event: 'closed'; readonly by: Side; readonly clean: boolean; readonly reason: string }
  );

/** Input from a side: a message, a line that is none, or bytes that were no line. */
export type MessageEntry = EntryBase & { readonly from: Side } & (
    | { readonly message: Readonly<Record<string, unknown>> }
    | { readonly text: string }
    | { readonly malformed: string }
  );

export type Entry = ConnectionEntry | MessageEntry;

/** A recording in memory. */
export interface Recording {
  readonly manifest: Manifest;
  readonly entries: readonly Entry[];
  /** Entries of a journal instead: it has no handshakes and no pings. */
  readonly fromJournal?: boolean;
}

/** Returns the decoded message of an entry; undefined for every other entry. */
export const messageOf = (entry: Entry): Readonly<Record<string, unknown>> | undefined =>
  'message' in entry ? entry.message : undefined;

/** Returns the error for a bundle that cannot be used; `line` counts from 1. */
export function badRecording(why: string, line?: number, cause?: unknown): HandfastError {
  const detail = line === undefined ? {} : { line };
  return failure(
    'invalid',
    `not a valid recording: ${why}${line === undefined ? '' : ` (line ${line})`}`,
    detail,
    cause,
  );
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isText = (value: unknown, most: number): value is string => typeof value === 'string' && value.length <= most;
const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.length <= 1000 && value.every((each) => isText(each, 1000));
const isSide = (value: unknown): value is Side => value === 'client' || value === 'host';

/** Checks a manifest that was read. Throws `recording.invalid` with the invalid member. */
export function checkManifest(value: unknown): Manifest {
  if (!isObject(value)) throw badRecording('the manifest is no JSON object');
  const wrong = (member: string) => badRecording(`the manifest has no valid "${member}"`);
  if (value.format !== FORMAT) throw wrong('format');
  if (value.format_version !== FORMAT_VERSION) {
    throw badRecording(
      `it has format version ${JSON.stringify(value.format_version)?.slice(0, 20)}, and ${FORMAT_VERSION} is read`,
    );
  }
  if (typeof value.complete !== 'boolean') throw wrong('complete');
  if (typeof value.protocol !== 'string' || !Object.hasOwn(EDGES, value.protocol)) throw wrong('protocol');
  for (const member of ['protocol_version', 'started_at']) if (!isText(value[member], 100)) throw wrong(member);
  if (value.ended_at !== null && !isText(value.ended_at, 100)) throw wrong('ended_at');
  for (const member of ['connections', 'messages']) if (!isCount(value[member])) throw wrong(member);
  if (!isTexts(value.edges)) throw wrong('edges');
  const { transports, software, volatile, redacted, skipped_secrets: skipped, files } = value;
  if (!isObject(transports) || !isTexts(transports.client) || !isTexts(transports.host)) throw wrong('transports');
  if (!isObject(software) || !isTexts(Object.values(software))) throw wrong('software');
  if (!isObject(volatile) || !isTexts(volatile.client) || !isTexts(volatile.host)) throw wrong('volatile');
  if (!Array.isArray(redacted) || !redacted.every(isRedacted)) throw wrong('redacted');
  if (!Array.isArray(skipped) || !skipped.every(isSkipped)) throw wrong('skipped_secrets');
  checkFiles(files, value.complete);
  return value as unknown as Manifest;
}

const isRedacted = (value: unknown): boolean =>
  isObject(value) && isText(value.rule, 200) && isCount(value.count) && isCount(value.values);
const isSkipped = (value: unknown): boolean => isObject(value) && isText(value.rule, 200) && isText(value.reason, 200);

/** Checks the files: a bundle has one file besides its manifest; any other name could be a path. */
function checkFiles(files: unknown, complete: boolean): void {
  if (!isObject(files)) throw badRecording('the manifest has no valid "files"');
  const named = Object.keys(files).find((name) => name !== MESSAGES_FILE);
  if (named !== undefined) throw badRecording(`the manifest names the file ${JSON.stringify(named.slice(0, 80))}`);
  const facts = Object.hasOwn(files, MESSAGES_FILE) ? files[MESSAGES_FILE] : undefined;
  if (facts === undefined && !complete) return;
  const valid =
    isObject(facts) && isCount(facts.bytes) && isText(facts.sha256, 64) && /^[0-9a-f]{64}$/.test(facts.sha256);
  if (!valid) throw badRecording(`the manifest has no valid size and hash of ${MESSAGES_FILE}`);
}

/** Checks lines one after the other: their shape, their numbers, and that connections open before they are used. */
export class EntryChecker {
  readonly #open = new Set<number>();
  #seq = 0;
  #ms = 0;
  #connections = 0;
  #messages = 0;

  get connections(): number {
    return this.#connections;
  }

  get messages(): number {
    return this.#messages;
  }

  /** Checks the entry of a line. Throws `recording.invalid`. */
  check(value: unknown): Entry {
    const line = this.#seq + 1;
    if (!isObject(value)) throw badRecording('a line is no JSON object', line);
    const { seq, ms, conn } = value;
    if (seq !== line) throw badRecording('"seq" does not count 1, 2, 3 …', line);
    // A number beyond double precision is read as infinite, and a replay at the recorded speed would wait for it.
    if (!Number.isFinite(ms) || !((ms as number) >= this.#ms))
      throw badRecording('"ms" is no number, or runs backwards', line);
    if (!isCount(conn)) throw badRecording('"conn" is no number', line);
    if ('event' in value) this.#event(value, conn, line);
    else this.#message(value, conn, line);
    this.#seq = line;
    this.#ms = ms as number;
    return value as unknown as Entry;
  }

  #event(value: Record<string, unknown>, conn: number, line: number): void {
    if (value.event === 'opened') {
      if (conn !== this.#connections + 1) throw badRecording('connections are not numbered 1, 2, 3 …', line);
      if (conn > MAX_CONNECTIONS) throw badRecording(`it has more than ${MAX_CONNECTIONS} connections`, line);
      if (!isText(value.client, 40) || !isText(value.host, 40))
        throw badRecording('a connection has no transport', line);
      this.#connections = conn;
      this.#open.add(conn);
      return;
    }
    const valid =
      value.event === 'closed' && isSide(value.by) && typeof value.clean === 'boolean' && isText(value.reason, 2000);
    if (!valid) throw badRecording('an event is neither "opened" nor a valid "closed"', line);
    if (!this.#open.delete(conn)) throw badRecording('a connection ends that is not open', line);
  }

  #message(value: Record<string, unknown>, conn: number, line: number): void {
    if (!isSide(value.from)) throw badRecording('"from" is neither "client" nor "host"', line);
    const forms = ['message', 'text', 'malformed'].filter((form) => Object.hasOwn(value, form));
    const [form = ''] = forms;
    const valid =
      forms.length === 1 && (form === 'message' ? isObject(value.message) : typeof value[form] === 'string');
    if (!valid) throw badRecording('it has none, or several, of "message", "text" and "malformed"', line);
    if (!this.#open.has(conn)) throw badRecording('a message belongs to a connection that is not open', line);
    this.#messages += 1;
  }
}
