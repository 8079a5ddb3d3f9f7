/**
 * Plays the conversations of `test/vectors/session-rpc/` against a server: one file is one conversation on a fresh
 * server with an empty data directory, an empty working directory and no credentials.
 *
 * A vector has the message to send, and the reply and the events that must follow in this order, as patterns. `wire`
 * leaves out the wording of errors and of system lines, `verbatim` compares it too.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { packageFile } from '../published.ts';

type Json = unknown;
type Fields = Record<string, Json>;

/** A service beside the server that a vector requires. */
export type FixtureName = 'scripted-model' | 'provider-catalogue' | 'login-service' | 'browser-callback';

/** One round of the scripted model. */
export interface ModelRound {
  readonly thought?: string;
  readonly text?: string;
  readonly tool_calls?: readonly { readonly id: string; readonly name: string; readonly input: Fields }[];
  readonly delay_ms?: number;
  readonly error?: string;
}

export interface Vector {
  readonly name: string;
  readonly send: Json;
  /** Absent or null: no answer. */
  readonly expect?: Json;
  readonly capture?: Readonly<Record<string, string>>;
  readonly events?: readonly Json[];
  readonly forbid?: readonly Json[];
  readonly requires?: FixtureName;
  readonly model?: readonly ModelRound[];
  readonly tags?: readonly ('lenient' | 'reference-bug' | 'first-turn' | 'final')[];
  readonly note?: string;
}

/** One connection to a fresh server. */
export interface VectorConnection {
  /** Writes text as it is; the runner adds the newline. */
  write(text: string): void;
  /** Passes on every line that the server writes, also earlier ones. Called once. */
  listen(onLine: (line: string) => void): void;
  /** Ends the input and waits for the end of the server. */
  close(): Promise<void>;
}

export interface PlayOptions {
  readonly level: 'wire' | 'verbatim';
  /**
   * Starts the services beside the server: called before a vector that requires one is sent, with the rounds of its
   * turns. A vector whose fixture is missing is skipped, and so is every vector that refers to a value that a skipped
   * vector would have captured.
   */
  readonly fixtures?: Partial<Record<FixtureName, (model: readonly ModelRound[]) => unknown>>;
  /** Returns a reason to leave a vector out; undefined = play it. */
  readonly skip?: (vector: Vector) => string | undefined;
  /** Returns the reason why a reply to a method, or an event, is wrong for any vector; undefined if it is correct. */
  readonly check?: (method: unknown, message: Fields) => string | undefined;
  /** Longest wait for an answer, and for the last event of a vector. Default 60,000. */
  readonly patienceMs?: number;
}

export interface VectorOutcome {
  readonly name: string;
  readonly outcome: 'passed' | 'skipped' | 'failed';
  /** Reason of the failure or the skip. */
  readonly why?: string;
}

const folder = packageFile('test/vectors/session-rpc');

/** Returns the names of all conversations, without their extension. */
export function conversations(): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.ndjson'))
    .map((name) => name.slice(0, -'.ndjson'.length))
    .sort();
}

/** Returns the vectors of one conversation. */
export function vectorsOf(conversation: string): Vector[] {
  const text = readFileSync(join(folder, `${conversation}.ndjson`), 'utf8');
  // Only the newline separates: strings may hold other line separators.
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Vector);
}

/** Time without a message after which no more are expected, if nothing can prove it. */
const QUIET_MS = 150;
const PATIENCE_MS = 60_000;

/**
 * Plays a conversation in order and closes the connection. A failure does not end it: later vectors give more
 * information.
 */
export async function play(
  vectors: readonly Vector[],
  connection: VectorConnection,
  options: PlayOptions,
): Promise<VectorOutcome[]> {
  const player = new Player(connection, options);
  const outcomes: VectorOutcome[] = [];
  try {
    for (const vector of vectors) outcomes.push(await player.play(vector));
  } finally {
    await connection.close();
  }
  return outcomes;
}

/** Plays the vectors of one conversation, each when it is asked for. */
export class Player {
  readonly #connection: VectorConnection;
  readonly #options: PlayOptions;
  readonly #messages: Fields[] = [];
  readonly #captured = new Map<string, string>();
  #wake: (() => void)[] = [];
  #proofs = 0;

  constructor(connection: VectorConnection, options: PlayOptions) {
    this.#connection = connection;
    this.#options = options;
    connection.listen((line) => {
      this.#messages.push(JSON.parse(line) as Fields);
      for (const wake of this.#wake.splice(0)) wake();
    });
  }

  /** Plays one vector. Never rejects. */
  async play(vector: Vector): Promise<VectorOutcome> {
    const { name } = vector;
    const reason = this.#reasonToSkip(vector);
    if (reason !== undefined) return { name, outcome: 'skipped', why: reason };
    try {
      if (vector.requires !== undefined) await this.#options.fixtures?.[vector.requires]?.(vector.model ?? []);
      await this.#play(vector);
      return { name, outcome: 'passed' };
    } catch (problem) {
      return { name, outcome: 'failed', why: (problem as Error).message };
    }
  }

  #reasonToSkip(vector: Vector): string | undefined {
    const asked = this.#options.skip?.(vector);
    if (asked !== undefined) return asked;
    const { requires } = vector;
    if (requires !== undefined && this.#options.fixtures?.[requires] === undefined) return `needs ${requires}`;
    const own = Object.keys(vector.capture ?? {});
    const named = JSON.stringify([vector.send, vector.expect, vector.events ?? []]).matchAll(/\$\{(\w+)\}/g);
    const missing = [...named]
      .map((match) => match[1] as string)
      .find((key) => !this.#captured.has(key) && !own.includes(key));
    return missing === undefined ? undefined : `${missing} was not captured`;
  }

  async #play(vector: Vector): Promise<void> {
    const from = this.#messages.length;
    const sent = this.#filled(vector.send);
    this.#connection.write(typeof sent === 'string' ? sent : JSON.stringify(sent));
    if (vector.expect === undefined || vector.expect === null) await this.#noAnswer(vector, from);
    else await this.#answer(vector, vector.expect as Fields, from);
    await this.#events(vector, from);
    for (const pattern of vector.forbid ?? []) {
      const found = this.#messages
        .slice(from)
        .find((message) => this.#mismatch(this.#filled(pattern), message) === undefined);
      if (found !== undefined) throw new Error(`a forbidden message came: ${JSON.stringify(found)}`);
    }
    for (const event of this.#messages.slice(from).filter(isEvent)) {
      const wrong = this.#options.check?.(undefined, event);
      if (wrong !== undefined) throw new Error(wrong);
    }
  }

  async #answer(vector: Vector, expect: Fields, from: number): Promise<void> {
    const id = (this.#filled(expect) as Fields).id;
    const find = () => this.#messages.slice(from).find((message) => !isEvent(message) && message.id === id);
    const answer = await this.#wait(find, `the answer ${JSON.stringify(id)}`);
    for (const [name, path] of Object.entries(vector.capture ?? {})) {
      const value = path.split('.').reduce<Json>((at, key) => (at as Fields | undefined)?.[key], answer);
      if (typeof value !== 'string') throw new Error(`${path} is no text in ${JSON.stringify(answer)}`);
      this.#captured.set(name, value);
    }
    const problem = this.#mismatch(this.#filled(expect), answer);
    if (problem !== undefined) throw new Error(`${problem}; the answer was ${JSON.stringify(answer)}`);
    const wrong = this.#options.check?.((vector.send as Fields | undefined)?.method, answer);
    if (wrong !== undefined) throw new Error(wrong);
  }

  /** Expects no reply: the next reply is that of a ping. For the last message of a connection only a silence shows it. */
  async #noAnswer(vector: Vector, from: number): Promise<void> {
    const first = () => this.#messages.slice(from).find((message) => !isEvent(message));
    if (vector.tags?.includes('final')) {
      await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
      const stray = first();
      if (stray !== undefined) throw new Error(`expected no answer, got ${JSON.stringify(stray)}`);
      return;
    }
    const id = `proof ${++this.#proofs}`;
    this.#connection.write(JSON.stringify({ jsonrpc: '2.0', id, method: 'system.ping' }));
    const answer = await this.#wait(first, 'the answer to a ping');
    if (answer.id !== id) throw new Error(`expected no answer, got ${JSON.stringify(answer)}`);
  }

  /** Waits until each event was seen behind the one before it. */
  async #events(vector: Vector, from: number): Promise<void> {
    let at = from;
    for (const pattern of vector.events ?? []) {
      const wanted = this.#filled(pattern);
      const find = (): number | undefined => {
        for (let index = at; index < this.#messages.length; index++) {
          if (this.#mismatch(wanted, this.#messages[index]) === undefined) return index;
        }
        return undefined;
      };
      at = (await this.#wait(find, `the event ${JSON.stringify(wanted)}`)) + 1;
    }
  }

  async #wait<T>(find: () => T | undefined, what: string): Promise<T> {
    const late = performance.now() + (this.#options.patienceMs ?? PATIENCE_MS);
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      const left = late - performance.now();
      if (left <= 0) {
        const last = this.#messages.slice(-4).map((message) => JSON.stringify(message).slice(0, 400));
        throw new Error(`waited for ${what}; the last messages were\n  ${last.join('\n  ')}`);
      }
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#wake.push(resolve);
        timer = setTimeout(resolve, left);
      });
      clearTimeout(timer);
    }
  }

  /** Returns a copy with captured values in place of their names. */
  #filled(value: Json): Json {
    if (typeof value === 'string') {
      return value.replaceAll(/\$\{(\w+)\}/g, (whole, name: string) => this.#captured.get(name) ?? whole);
    }
    if (Array.isArray(value)) return value.map((item) => this.#filled(item));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.#filled(item)]));
  }

  #mismatch(pattern: Json, actual: Json): string | undefined {
    return mismatch(pattern, actual, this.#options.level === 'verbatim');
  }
}

const isEvent = (message: Fields): boolean => message.method !== undefined && message.id === undefined;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** Placeholders with the values that they match. */
const placeholders: Readonly<Record<string, (value: Json) => boolean>> = {
  '<any>': (value) => value !== undefined,
  '<absent>': (value) => value === undefined,
  '<string>': (value) => typeof value === 'string',
  '<nonempty-string>': (value) => typeof value === 'string' && value !== '',
  '<integer>': Number.isInteger,
  '<number>': (value) => typeof value === 'number',
  '<boolean>': (value) => typeof value === 'boolean',
  '<array>': Array.isArray,
  '<object>': (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  '<iso8601>': (value) => typeof value === 'string' && ISO.test(value),
  '<uuid>': (value) => typeof value === 'string' && UUID.test(value),
};

/** Returns the place at which a value differs from a pattern, in words; undefined = it matches. */
export function mismatch(pattern: Json, actual: Json, verbatim: boolean, path = ''): string | undefined {
  const here = path === '' ? 'the message' : path;
  const differs = (): string => `${here} is ${JSON.stringify(actual)}, expected ${JSON.stringify(pattern)}`;
  if (typeof pattern === 'string') {
    const prefix = /^<prefix:(.*)>$/s.exec(pattern)?.[1];
    if (prefix !== undefined) return typeof actual === 'string' && actual.startsWith(prefix) ? undefined : differs();
    const fits = placeholders[pattern];
    return (fits === undefined ? actual === pattern : fits(actual)) ? undefined : differs();
  }
  if (Array.isArray(pattern)) {
    if (!Array.isArray(actual) || actual.length !== pattern.length) return differs();
    return first(pattern, (item, at) => mismatch(item, actual[at], verbatim, `${path}[${at}]`));
  }
  if (typeof pattern !== 'object' || pattern === null)
    return isDeepStrictEqual(actual, pattern) ? undefined : differs();
  if (Object.keys(pattern).some((key) => key.startsWith('$'))) {
    return Array.isArray(actual) ? listMismatch(pattern as Fields, actual, verbatim, here) : differs();
  }
  if (typeof actual !== 'object' || actual === null || Array.isArray(actual)) return differs();
  return first(Object.entries(pattern), ([key, item]) => {
    if (!verbatim && isWording(pattern as Fields, key, path)) return undefined;
    return mismatch(item, (actual as Fields)[key], verbatim, path === '' ? key : `${path}.${key}`);
  });
}

/** Returns true for texts for people, whose wording may differ: those of errors and of system lines. */
function isWording(pattern: Fields, key: string, path: string): boolean {
  return (key === 'message' && path === 'error') || (key === 'text' && pattern.kind === 'system');
}

function first<T>(items: readonly T[], problemOf: (item: T, at: number) => string | undefined): string | undefined {
  for (const [at, item] of items.entries()) {
    const problem = problemOf(item, at);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Compares a list with the pattern forms for lists. */
function listMismatch(pattern: Fields, actual: readonly Json[], verbatim: boolean, here: string): string | undefined {
  const { $length, $each, $contains, $containsBy, $sorted, $endsWith, ...unknown } = pattern;
  const strange = Object.keys(unknown);
  if (strange.length > 0) throw new Error(`a pattern uses ${strange.join(', ')}, which are unknown`);
  const shown = JSON.stringify(actual).slice(0, 600);
  const some = (item: Json): boolean => actual.some((one) => mismatch(item, one, verbatim) === undefined);
  if ($length !== undefined && actual.length !== $length) return `${here} has ${actual.length} elements: ${shown}`;
  if ($each !== undefined) {
    const problem = first(actual, (one, at) => mismatch($each, one, verbatim, `${here}[${at}]`));
    if (problem !== undefined) return problem;
  }
  const missing = (($contains ?? []) as Json[]).find((item) => !some(item));
  if (missing !== undefined) return `${here} has no ${JSON.stringify(missing)}: ${shown}`;
  const [member, values] = ($containsBy ?? ['', []]) as [string, Json[]];
  const lost = values.find((value) => !some({ [member]: value }));
  if (lost !== undefined) return `${here} has no ${member} ${JSON.stringify(lost)}: ${shown}`;
  if ($sorted === true && !isDeepStrictEqual(actual, [...actual].sort())) return `${here} is not sorted: ${shown}`;
  const ending = ($endsWith ?? []) as Json[];
  return first(ending, (item, at) =>
    mismatch(item, actual[actual.length - ending.length + at], verbatim, `${here}[-${ending.length - at}]`),
  );
}
