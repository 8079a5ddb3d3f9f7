/**
 * Compares messages of two runs, except the parts that differ in every run. Declared fields are left out, times of RFC
 * 3339 are equal to each other, ids that a program made up are equal when they correspond to each other everywhere, and
 * a placeholder of the redactor is equal to one text, everywhere the same. Pure except for the bindings it learns.
 *
 * @see docs/record-replay.md#compared-content
 */
import { keysOf, pointer } from '../wire/findings.ts';
import { badRecording, type Protocol, type VolatileFields } from './format.ts';
import { PLACEHOLDER } from './redactor.ts';

/** Members of any depth that hold a time, a duration, or a number of the operating system. */
const TIMES = [
  'ts',
  'timestamp',
  'created_at',
  'updated_at',
  'started_at',
  'ended_at',
  'finished_at',
  'last_active_at',
  'last_seen_at',
  'expires_at',
  'expires_in_ms',
  'accepted_at',
  'added_at',
  'claimed_at',
  'connected_at',
  'decided_at',
  'done_at',
  'enqueued_at',
  'next_attempt_at',
  'published_at',
  'received_at',
  'resolved_at',
  'sent_at',
  'valid_from',
  'last_called',
  'duration_ms',
  'avg_duration_ms',
  'p95_duration_ms',
  'elapsed_ms',
  'latency_ms',
  'round_trip_ms',
  'uptime_seconds',
  'host_uptime_seconds',
  'uptime_s',
  'pid',
];

const anywhere = TIMES.map((name) => `/**/${name}`);

/** Returns the fields that differ in every run of a protocol. */
export function defaultVolatile(protocol: Protocol): VolatileFields {
  switch (protocol) {
    case 'a2e':
      return {
        client: [
          '/id',
          '/ts',
          '/cursor',
          '/req_id',
          '/a2e',
          '/version',
          '/agent_id',
          '/auth_token',
          '/extensions/handfast~1resume',
        ],
        host: [
          '/id',
          '/cursor',
          '/req_id',
          '/a2e',
          '/version',

          '/extensions/handfast~1resume/*',
          ...anywhere,
        ],
      };
    case 'session-rpc':
      return {
        client: ['/id', '/params/client_name', '/params/client_version', '/params/token'],
        // Messages of all sessions of a server are numbered in one row.
        host: ['/id', '/params/payload/message/id', ...anywhere],
      };
    case 'unknown':
      return { client: [], host: [] };
    case 'fleet':
      // The hash of a commit has the time in it.
      return { client: ['/envelope/token', '/session/seq', '/artifacts/head_commit', ...anywhere], host: anywhere };
  }
}

/** Longest pattern, in characters. */
const MAX_POINTER = 500;

/** A pattern of JSON Pointers that was read. */
type Pattern = readonly string[];

/** Tells which places of a message are left out. */
export class VolatilePaths {
  /** Names that are left out at every place. */
  readonly #names = new Set<string>();
  readonly #patterns: Pattern[] = [];

  /** Throws `recording.invalid` for a text that is no JSON Pointer. */
  constructor(pointers: readonly string[]) {
    for (const text of pointers) {
      if (!text.startsWith('/') || text.length > MAX_POINTER)
        throw badRecording(
          `${JSON.stringify(text.slice(0, 80))} is no JSON Pointer, which begins with "/" and has at most ${MAX_POINTER} characters`,
        );
      const segments = keysOf(text);
      const [first, second] = segments;
      if (segments.length === 2 && first === '**' && second !== '*' && second !== '**')
        this.#names.add(second as string);
      else this.#patterns.push(segments);
    }
  }

  /** Returns true when the member at `path` is left out. */
  has(path: readonly string[]): boolean {
    const last = path[path.length - 1];
    if (last !== undefined && this.#names.has(last)) return true;
    return this.#patterns.some((pattern) => matches(pattern, path));
  }
}

/**
 * Returns true if a pattern matches a path. It never goes back before the last `**`, so that no pattern of a recording
 * takes more than its length times that of the path.
 */
function matches(pattern: Pattern, path: readonly string[]): boolean {
  let [at, from] = [0, 0];
  let [star, tried] = [-1, 0];
  while (from < path.length) {
    if (pattern[at] === '**') [star, tried, at] = [at, from, at + 1];
    else if (at < pattern.length && (pattern[at] === '*' || pattern[at] === path[from]))
      [at, from] = [at + 1, from + 1];
    else if (star >= 0) [at, tried, from] = [star + 1, tried + 1, tried + 1];
    else return false;
  }
  while (pattern[at] === '**') at += 1;
  return at === pattern.length;
}

/** A place where two messages differ; a missing member is undefined. */
export interface Difference {
  /** JSON Pointer. */
  readonly path: string;
  readonly left: unknown;
  readonly right: unknown;
}

/**
 * Ids that programs make up (UUIDs, 12 to 32 hex digits, and those of Handfast: five characters, a dash, a number, and those of
 * subagents), and times of RFC 3339. Hex in a text needs a digit and a letter, as an ordinary number and a word are no ids; a text that
 * is 12, 16 or 32 hex digits needs none. Longer hex is the hash of a content, which matters.
 */
const MADE_UP =
  /(?<uuid>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)|(?<hex>(?<![0-9a-zA-Z])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,32}(?![0-9a-zA-Z]))|(?<time>\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))|(?<own>^(?:[0-9a-z]{5}-\d{1,12}|[0-9a-f]{12}|[0-9a-f]{16}|[0-9a-f]{32})$)|(?<sub>\bsub_[0-9a-f]{8}\b)/g;

interface Piece {
  readonly kind: 'text' | 'time' | 'id' | 'secret';
  readonly text: string;
}

/** Splits a text into its constant and its made-up pieces. */
function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  const found = [
    ...[...text.matchAll(PLACEHOLDER)].map((match) => ({ match, kind: 'secret' as const })),
    ...[...text.matchAll(MADE_UP)].map((match) => ({
      match,
      kind: match.groups?.time === undefined ? ('id' as const) : ('time' as const),
    })),
  ].sort((one, other) => one.match.index - other.match.index);
  let from = 0;
  for (const { match, kind } of found) {
    if (match.index < from) continue;
    if (match.index > from) pieces.push({ kind: 'text', text: text.slice(from, match.index) });
    pieces.push({ kind, text: match[0] });
    from = match.index + match[0].length;
  }
  if (from < text.length) pieces.push({ kind: 'text', text: text.slice(from) });
  return pieces;
}

/** Returns a text with its made-up pieces replaced by their kinds, by which equal messages of two runs are found. */
export function withoutMadeUp(text: string): string {
  if (text.length < 7 || text.length > MAX_TEXT) return text;
  return piecesOf(text)
    .map((piece) => (piece.kind === 'text' ? piece.text : `<${piece.kind}>`))
    .join('');
}

/** Longest text that is looked through for made-up pieces. */
const MAX_TEXT = 1024 * 1024;

/**
 * Correspondences: ids of one run to those of the other, texts to placeholders. They grow with each comparison that
 * holds.
 */
export class Bindings {
  /** Left → right. */
  readonly ids = new Map<string, string>();
  readonly #back = new Map<string, string>();
  /** Text by placeholder. */
  readonly secrets = new Map<string, string>();
  /** Ids of the left side that only correspond to themselves. */
  fixed: ReadonlySet<string> = new Set();
  /** Undo functions of the learned bindings, in order: undone from the end. */
  readonly #learned: (() => void)[] = [];

  /** Returns true when both correspond to each other, which they do from now on. */
  pair(left: string, right: string): boolean {
    const known = this.ids.get(left);
    if (known !== undefined || this.#back.has(right)) return known === right;
    if (this.fixed.has(left)) return false;
    this.ids.set(left, right);
    this.#back.set(right, left);
    this.#learned.push(() => {
      this.ids.delete(left);
      this.#back.delete(right);
    });
    return true;
  }

  secret(placeholder: string, text: string): boolean {
    const known = this.secrets.get(placeholder);
    if (known !== undefined) return known === text;
    this.secrets.set(placeholder, text);
    this.#learned.push(() => this.secrets.delete(placeholder));
    return true;
  }

  /** Runs a comparison; bindings that it learned are removed when it is false. */
  attempt(holds: () => boolean): boolean {
    const before = this.#learned.length;
    const held = holds();
    if (!held) for (const undo of this.#learned.splice(before).reverse()) undo();
    return held;
  }

  /** Returns the value with every bound id and placeholder of the left side replaced by its counterpart. */
  translate<T>(value: T): T {
    return this.ids.size === 0 && this.secrets.size === 0 ? value : (this.#translated(value) as T);
  }

  #translated(value: unknown): unknown {
    if (typeof value === 'string') {
      if (value.length < 7) return value;
      return value
        .replace(MADE_UP, (id) => this.ids.get(id) ?? id)
        .replace(PLACEHOLDER, (placeholder) => this.secrets.get(placeholder) ?? placeholder);
    }
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((each) => this.#translated(each));
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, this.#translated(member)]));
  }
}

/** Collects the ids that programs made up, in all texts of a value. */
export function madeUpIds(value: unknown, found: Set<string>): void {
  if (typeof value === 'string') {
    if (value.length < 7 || value.length > MAX_TEXT) return;
    for (const { kind, text } of piecesOf(value)) if (kind === 'id') found.add(text);
  } else if (typeof value === 'object' && value !== null) {
    for (const each of Object.values(value)) madeUpIds(each, found);
  }
}

export interface Comparison {
  readonly volatile: VolatilePaths;
  readonly bindings: Bindings;
  /** Stop behind this many differences. Default 1. */
  readonly most?: number;
  /** False: ids must be equal as they are. Default true. */
  readonly idsMayDiffer?: boolean;
}

/** Returns the differences between two messages, in the order of the left one. Bindings learned on the way stay. */
export function differences(left: unknown, right: unknown, comparison: Comparison): readonly Difference[] {
  const found: Difference[] = [];
  walk(left, right, [], '', comparison, found);
  return found;
}

function walk(
  left: unknown,
  right: unknown,
  path: string[],
  at: string,
  comparison: Comparison,
  found: Difference[],
): void {
  if (found.length >= (comparison.most ?? 1) || left === right) return;
  if (typeof left === 'string' && typeof right === 'string') {
    if (!sameText(left, right, comparison)) found.push({ path: at, left, right });
    return;
  }
  const isList = Array.isArray(left);
  if (
    typeof left !== 'object' ||
    typeof right !== 'object' ||
    left === null ||
    right === null ||
    isList !== Array.isArray(right)
  ) {
    found.push({ path: at, left, right });
    return;
  }
  const names = isList
    ? Array.from({ length: Math.max(left.length, (right as unknown[]).length) }, (_, index) => String(index))
    : [...new Set([...Object.keys(left), ...Object.keys(right)])];
  for (const name of names) {
    path.push(name);
    if (!comparison.volatile.has(path)) {
      const [mine, theirs] = [own(left, name), own(right, name)];
      walk(mine, theirs, path, pointer(at, name), comparison, found);
    }
    path.pop();
  }
}

const own = (value: object, name: string): unknown =>
  Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;

function sameText(left: string, right: string, { bindings, idsMayDiffer = true }: Comparison): boolean {
  if (left.length > MAX_TEXT || right.length > MAX_TEXT) return false;
  const [ours, theirs] = [piecesOf(left), piecesOf(right)];
  // A placeholder matches any text: the constant pieces around it must be present.
  if (ours.some(({ kind }) => kind === 'secret')) return sameAround(ours, right, bindings);
  if (theirs.some(({ kind }) => kind === 'secret')) return sameAround(theirs, left, bindings);
  if (ours.length !== theirs.length) return false;
  return ours.every(({ kind, text }, index) => {
    const other = theirs[index] as Piece;
    if (kind !== other.kind) return false;
    if (kind === 'text') return text === other.text;
    if (kind === 'time') return true;
    return text === other.text || (idsMayDiffer && bindings.pair(text, other.text));
  });
}

/**
 * Returns true when `text` has the constant pieces in order; the texts between them are those of the placeholders. Each
 * piece is searched once, so that no text takes more than linear time.
 */
function sameAround(pieces: readonly Piece[], text: string, bindings: Bindings): boolean {
  const secrets: [placeholder: string, text: string][] = [];
  let from = 0;
  for (const [index, piece] of pieces.entries()) {
    if (piece.kind === 'text') {
      if (!text.startsWith(piece.text, from)) return false;
      from += piece.text.length;
      continue;
    }
    const next = pieces[index + 1];
    // Two of them side by side have no border: the first is one character.
    let to = next === undefined ? text.length : next.kind === 'text' ? text.indexOf(next.text, from + 1) : from + 1;
    // The last constant piece is the end of the text.
    if (next?.kind === 'text' && index === pieces.length - 2)
      to = text.endsWith(next.text) ? text.length - next.text.length : -1;
    if (to <= from) return false;
    if (piece.kind === 'secret') secrets.push([piece.text, text.slice(from, to)]);
    from = to;
  }
  return from === text.length && secrets.every(([placeholder, meant]) => bindings.secret(placeholder, meant));
}

/** Characters of a value that are shown. */
const SHOWN = 100;

/** Returns a value in the form of an error message. */
export function shownValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = JSON.stringify(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}
