/**
 * Serves the host of a recording to live clients: no host, no model and no network behind it. A message of a client is
 * looked up by its type and its content; the host's recorded replies are sent, with the ids of the live client. A
 * message that was not recorded is never forwarded: it is refused with the nearest recorded one, and the difference
 * between the two.
 *
 * `live-connection.ts` plays one connection.
 * @see docs/record-replay.md#replaying-the-host
 */

import { suggest } from '../base/suggest.ts';
import type { Link, LinkReceiver } from '../transport/link.ts';
import { DEFAULT_MAX_MESSAGE_BYTES } from '../transport/link.ts';
import { A2ECodec } from '../wire/a2e.ts';
import type { Codec } from '../wire/codec.ts';
import type { HandfastError } from '../wire/errors.ts';
import { JsonRpcCodec } from '../wire/jsonrpc.ts';
import {
  Bindings,
  type Comparison,
  type Difference,
  differences,
  madeUpIds,
  shownValue,
  VolatilePaths,
} from './compare.ts';
import { failure } from './errors.ts';
import type { Protocol, Recording } from './format.ts';
import { LiveConnection, type ReplayOfConnections } from './live-connection.ts';
import { type Classified, resumed } from './messages.ts';
import { Redactor } from './redactor.ts';
import { firstOf, type Plan, plansOf, protocolIn, type Step } from './timeline.ts';

/** Misses that are listed; further ones are counted. */
const MAX_MISSES = 100;
/** Recorded messages a miss is compared with. */
const MAX_COMPARED = 200;

export interface ReplayOptions {
  /**
   * `fast`: once the client has sent the messages before it. `as-recorded`: with the pauses of the recording. Default
   * `fast`.
   */
  readonly speed?: 'fast' | 'as-recorded';
  /** `content`: requests of a connection may arrive in another order. `strict`: they may not. Default `content`. */
  readonly order?: 'content' | 'strict';
  /** JSON Pointers of fields of the client's messages that are not compared, beside those of the manifest. */
  readonly volatile?: readonly string[];
  /** Receives one line for each miss, and for recorded messages that the client did not send. */
  readonly log?: (line: string) => void;
}

/** The state of a replay so far. */
export interface ReplayReport {
  /** Messages of the client that were found. */
  readonly matched: number;
  /** Messages of the client that were not recorded. */
  readonly misses: number;
  /** The first of these, one line each. */
  readonly missed: readonly string[];
  /** Number of recorded messages of the client that did not arrive, on connections that have ended or were not opened. */
  readonly missing: number;
}

type Message = Readonly<Record<string, unknown>>;

export class ReplayHost implements ReplayOfConnections {
  readonly protocol: Protocol;
  readonly options: ReplayOptions;
  readonly bindings = new Bindings();
  readonly plans: readonly Plan[];
  /** Limits that `listen` reads from a host; a replay demands no token. */
  readonly limits = {
    maxMessageBytes: DEFAULT_MAX_MESSAGE_BYTES,
    maxSessions: 1000,
    sendBufferBytes: 64 * 1024 * 1024,
  };
  readonly requiresToken = false;
  readonly started = true;
  readonly #volatile: VolatilePaths;
  readonly #redactor = new Redactor();
  readonly #connections = new Set<LiveConnection>();
  readonly #missed: string[] = [];
  readonly #ended = Promise.withResolvers<void>();
  #misses = 0;
  #matched = 0;
  #fixed: Set<string> | undefined;

  constructor(recording: Recording, options: ReplayOptions = {}) {
    this.protocol = protocolIn(recording);
    this.options = options;
    this.plans = plansOf(recording);
    this.#volatile = new VolatilePaths([...recording.manifest.volatile.client, ...(options.volatile ?? [])]);
  }

  /** Takes a link of a client over. */
  accept(link: Link): void {
    const connection = new LiveConnection(this, link);
    this.#connections.add(connection);
    link.open(connection satisfies LinkReceiver);
  }

  /** Resolves when every recorded connection was played and has ended. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  get report(): ReplayReport {
    const open = new Set([...this.#connections].map(({ plan }) => plan));
    const missing = this.plans.filter((plan) => !open.has(plan)).flatMap(({ steps }) => steps.filter(isMissing));
    return { matched: this.#matched, misses: this.#misses, missed: this.#missed, missing: missing.length };
  }

  /** Ends the connections that are open. */
  async close(): Promise<void> {
    await Promise.all([...this.#connections].map((connection) => connection.close()));
  }

  /** Returns a codec for messages of the replay itself. */
  codec(): Codec | undefined {
    if (this.protocol === 'a2e') return new A2ECodec();
    return this.protocol === 'session-rpc' ? new JsonRpcCodec({ calls: false }) : undefined;
  }

  /** Returns the plan whose first message of the client is this one: of the same session, if it resumes one. */
  choose(message: Message): Plan | undefined {
    const session = resumed(message)?.session;
    const free = this.plans.filter((plan) => !plan.taken && resumed(firstOf(plan)?.message ?? {})?.session === session);
    for (const idsMayDiffer of [false, true]) {
      const plan = free.find((each) => {
        const first = firstOf(each);
        return first !== undefined && this.matches(first, message, idsMayDiffer);
      });
      if (plan !== undefined) return plan;
    }
    return undefined;
  }

  /** Returns true when a recorded message and a live one are the same except for the parts that differ in every run. */
  matches(step: Step, message: Message, idsMayDiffer: boolean): boolean {
    if (step.message === undefined) return false;
    // Ids that the host gave out are served as they were recorded, so that a client sends them back as they are.
    if (idsMayDiffer) this.bindings.fixed = this.#hostIds();
    return this.bindings.attempt(() => this.#differences(step, message, idsMayDiffer).length === 0);
  }

  /** Notes that a message was found. */
  found(step: Step, message: Message): void {
    this.#matched += 1;
    step.state = 'done';
    step.liveId = message.id;
    const recorded = step.message?.id;
    if (typeof recorded === 'string' && typeof message.id === 'string' && recorded !== message.id)
      this.bindings.pair(recorded, message.id);
    for (const connection of this.#connections) connection.pump();
  }

  /** Returns the error for a message that was not recorded; `candidates` are the remaining steps. */
  miss(
    message: Message,
    { type, kind }: Pick<Classified, 'type' | 'kind'>,
    candidates: readonly Step[],
    why = '',
  ): HandfastError {
    const what = why === '' ? `${type === '' ? kind : type} is not in the recording` : why;
    return this.#noted(this.#nearest(message, type, candidates, what));
  }

  /** Returns the error for a request whose reply is not in a recording that was not finished. */
  cut({ entry: { seq }, info: { type } }: Step): HandfastError {
    const text = `the recording is not complete: it ends before the reply to #${seq} ${type}`;
    return this.#noted(failure('not_recorded', text, { nearest: seq, type }));
  }

  #noted(error: HandfastError): HandfastError {
    this.#misses += 1;
    if (this.#missed.length < MAX_MISSES) this.#missed.push(error.message);
    this.log(error.message);
    return error;
  }

  log(line: string): void {
    this.options.log?.(line);
  }

  /** Handles the end of a connection. */
  left(connection: LiveConnection): void {
    this.#connections.delete(connection);
    const missing = connection.plan?.steps.filter(isMissing) ?? [];
    const [first] = missing;
    if (first !== undefined)
      this.log(
        `the client left without sending #${first.entry.seq} ${first.info.type}${missing.length > 1 ? `, and ${missing.length - 1} more` : ''}`,
      );
    if (this.#connections.size === 0 && this.plans.every(({ taken }) => taken)) this.#ended.resolve();
  }

  #nearest(message: Message, type: string, candidates: readonly Step[], why: string): HandfastError {
    const same = candidates
      .filter((step) => step.message !== undefined && step.info.type === type)
      .slice(0, MAX_COMPARED);
    let nearest: { step: Step; found: readonly Difference[] } | undefined;
    for (const step of same) {
      let found: readonly Difference[] = [];
      this.bindings.attempt(() => {
        found = this.#differences(step, message, true, 20);
        return false;
      });
      if (nearest === undefined || found.length < nearest.found.length) nearest = { step, found };
    }
    if (nearest !== undefined) {
      const { seq } = nearest.step.entry;
      const [first] = nearest.found;
      if (first === undefined)
        return failure('not_recorded', `${why}; the nearest is #${seq} ${type}`, { nearest: seq, type });
      const { path } = first;
      const recorded = this.#shown(nearest.step.message as Message, first.left);
      const received = this.#shown(message, first.right);
      const text = `${why}; the nearest is #${seq} ${type}, which differs at ${path || 'its top'}: recorded ${recorded}, received ${received}`;
      return failure('not_recorded', text, { nearest: seq, type, path, recorded, received });
    }
    const used = this.plans
      .flatMap(({ steps }) => steps)
      .filter((step) => step.entry.from === 'client' && step.info.type === type && step.state === 'done');
    if (used.length > 0)
      return failure(
        'not_recorded',
        `${why} once more: its ${used.length} recorded times were used, the last is #${used.at(-1)?.entry.seq}`,
        { nearest: used.at(-1)?.entry.seq, type },
      );
    const types = [...new Set(candidates.map((step) => step.info.type).filter((each) => each !== ''))];
    const meant = suggest(type, types) ?? types[0];
    const step = candidates.find((each) => each.info.type === meant);
    if (step === undefined)
      return failure('not_recorded', `${why}, which expects nothing more of the client`, { type });
    return failure('not_recorded', `${why}; the nearest is #${step.entry.seq} ${meant}`, {
      nearest: step.entry.seq,
      type: meant,
    });
  }

  /** Returns a value of a message, without secrets that are found by their positions in it. */
  #shown(message: Message, value: unknown): string {
    this.#redactor.message(message);
    return shownValue(this.#redactor.message({ value }).value);
  }

  #differences(step: Step, message: Message, idsMayDiffer: boolean, most = 1): readonly Difference[] {
    const comparison: Comparison = { volatile: this.#volatile, bindings: this.bindings, idsMayDiffer, most };
    return differences(step.message, message, comparison);
  }

  /** Ids that the host was the first to send. */
  #hostIds(): ReadonlySet<string> {
    if (this.#fixed !== undefined) return this.#fixed;
    this.#fixed = new Set();
    const seen = new Set<string>();
    const steps = this.plans.flatMap((plan) => plan.steps).sort((one, other) => one.entry.seq - other.entry.seq);
    for (const { entry, message } of steps) {
      const ids = new Set<string>();
      madeUpIds(message, ids);
      for (const id of ids) if (!seen.has(id) && entry.from === 'host') this.#fixed.add(id);
      for (const id of ids) seen.add(id);
    }
    return this.#fixed;
  }
}

const isMissing = ({ entry, state }: Step): boolean => entry.from === 'client' && state === 'waiting';
