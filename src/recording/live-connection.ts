/**
 * One live client of a replayed host: finds its messages in the recording, and sends the host's recorded messages once
 * the client has sent the messages before them.
 */
import type { CloseInfo, Link, LinkReceiver } from '../transport/link.ts';
import type { Codec } from '../wire/codec.ts';
import { parseNested } from '../wire/depth.ts';
import type { HandfastError } from '../wire/errors.ts';
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import type { Bindings } from './compare.ts';
import type { Protocol } from './format.ts';
import { asAsked, type Classified, classify, heartbeatTo, idKey, isReport, resumed, withRef } from './messages.ts';
import { firstOf, type Plan, type Step } from './timeline.ts';

/** Unsent bytes above which nothing more is sent, and at which it continues. */
const HIGH_WATER_BYTES = 256 * 1024;
const LOW_WATER_BYTES = 64 * 1024;
const MAX_DEPTH = 1024;

/** Exact comparisons of one message: beyond these, ids that differ count as the same. */
const MAX_EXACT = 200;

type Message = Readonly<Record<string, unknown>>;

/** Members of the replay that a connection uses. */
export interface ReplayOfConnections {
  readonly protocol: Protocol;
  readonly bindings: Bindings;
  readonly plans: readonly Plan[];
  readonly options: { readonly speed?: 'fast' | 'as-recorded'; readonly order?: 'content' | 'strict' };
  codec(): Codec | undefined;
  choose(message: Message): Plan | undefined;
  matches(step: Step, message: Message, idsMayDiffer: boolean): boolean;
  found(step: Step, message: Message): void;
  miss(message: Message, info: Classified, candidates: readonly Step[], why: string): HandfastError;
  cut(step: Step): HandfastError;
  log(line: string): void;
  left(connection: LiveConnection): void;
}

export class LiveConnection implements LinkReceiver {
  /** The plan that it plays; undefined before its first message. */
  plan: Plan | undefined;
  readonly #replay: ReplayOfConnections;
  readonly #link: Link;
  readonly #codec: Codec | undefined;
  /** Waiting steps of the client by type; the ones in front are mostly the next. */
  readonly #expected = new Map<string, Step[]>();
  /** Steps of the host that were not sent, in their order. */
  #unsent: Step[] = [];
  #blocked = false;
  #timer: NodeJS.Timeout | undefined;
  /** Milliseconds of the recording up to which it was played. */
  #playedMs = 0;
  #first: Message | undefined;
  #over = false;
  /** The client sends nothing more. */
  #ending = false;

  constructor(replay: ReplayOfConnections, link: Link) {
    this.#replay = replay;
    this.#link = link;
    this.#codec = replay.codec();
  }

  message(raw: string | Message): void {
    let message: unknown = raw;
    if (typeof raw === 'string') {
      try {
        message = parseNested(raw, MAX_DEPTH);
      } catch {
        message = undefined;
      }
    }
    if (!isObject(message)) return this.#odd();
    const info = classify(this.#replay.protocol, message);
    if (info.kind === 'ping' || info.kind === 'pong') return this.#probe(message, info);
    if (this.plan !== undefined && isReport(info.type, false)) return;
    if (this.plan === undefined && !this.#start(message, info)) return;
    this.#find(message, info);
  }

  malformed(): void {
    this.#odd();
  }

  /** Handles the end of the client's output; released messages for it are still sent. */
  ended(): void {
    this.#ending = true;
    this.pump();
    this.#endIfDone();
  }

  #endIfDone(): void {
    if (!this.#ending || this.#blocked || this.#timer !== undefined || this.#over) return;
    this.#over = true;
    void this.#link.close();
  }

  closed(_cause: CloseInfo): void {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#replay.left(this);
  }

  close(): Promise<void> {
    return this.#link.close('the replay has ended');
  }

  /** Sends every message that is due. */
  pump(): void {
    if (this.#blocked || this.#over || this.#timer !== undefined) return;
    const left: Step[] = [];
    const held = new Set<Step>();
    let sent = false;
    for (const [at, step] of this.#unsent.entries()) {
      const waits =
        !step.needs.every((need) => need.state !== 'waiting') || (step.request !== undefined && held.has(step.request));
      if (waits) {
        if (step.request !== undefined) held.add(step.request);
        left.push(step);
        continue;
      }
      const delay = this.#delayOf(step);
      if (delay > 0 || this.#link.buffered > HIGH_WATER_BYTES) {
        left.push(...this.#unsent.slice(at));
        this.#later(delay);
        break;
      }
      this.#send(step);
      sent = true;
    }
    this.#unsent = left;
    if (left.length === 0) this.#endAsRecorded();
    // A message sent here can unblock other connections of the session, so it goes first.
    else if (sent && !this.#blocked && this.#timer === undefined) this.pump();
    this.#endIfDone();
  }

  /** Returns the delay of a step, with the pauses of the recording: the time after its causes at which it was sent then. */
  #delayOf(step: Step): number {
    if (this.#replay.options.speed !== 'as-recorded') return 0;
    const cause = Math.max(this.#playedMs, ...step.needs.map(({ entry }) => entry.ms));
    const delay = step.entry.ms - cause;
    this.#playedMs = step.entry.ms;
    return delay;
  }

  #later(delay: number): void {
    if (delay > 0) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.pump();
      }, delay);
      return;
    }
    this.#blocked = true;
    void this.#link.drained(LOW_WATER_BYTES).then(() => {
      this.#blocked = false;
      this.pump();
    });
  }

  #send(step: Step): void {
    step.state = 'done';
    const { entry, message, info, request } = step;
    if (message === undefined) {
      if ('text' in entry && this.#link.text) this.#link.send(entry.text);
      return;
    }
    const { bindings, protocol } = this.#replay;
    const translated = bindings.translate(message);
    let own = translated;
    if (request?.entry.from === 'client') own = withRef(protocol, own, info.kind, request.liveId);
    if (message.type === 'handshake/resp') own = asAsked(own, this.#first ?? {});
    this.#link.send(this.#link.text ? JSON.stringify(own) : { ...own });
  }

  /**
   * Called when everything of the host was sent: ends the link if the recording shows that the client did not end it in
   * order.
   */
  #endAsRecorded(): void {
    if (this.plan === undefined) return;
    const { closed, steps } = this.plan;
    if (closed === undefined || (closed.by === 'client' && closed.clean)) return;
    if (steps.some(({ entry, state }) => entry.from === 'client' && state === 'waiting')) return;
    this.#over = true;
    void this.#link.drained(0).then(() => {
      if (closed.clean) void this.#link.close(closed.reason);
      else this.#link.destroy(closed.reason);
    });
  }

  /** Picks the recorded connection by the first message. */
  #start(message: Message, info: Classified): boolean {
    const plan = this.#replay.choose(message);
    if (plan === undefined) {
      const firsts = this.#replay.plans.filter(({ taken }) => !taken).flatMap((each) => firstOf(each) ?? []);
      const why =
        firsts.length === 0 && this.#replay.plans.length > 0 ? 'every recorded connection was played; this one' : '';
      this.#refuse(message, info, firsts, why);
      void this.#link.close('not recorded');
      return false;
    }
    plan.taken = true;
    this.plan = plan;
    this.#first = message;
    for (const step of plan.steps) {
      if (step.state === 'skipped') continue;
      if (step.entry.from === 'host') this.#unsent.push(step);
      else {
        const key = keyOf(step.info);
        const expected = this.#expected.get(key);
        if (expected === undefined) this.#expected.set(key, [step]);
        else expected.push(step);
      }
    }
    this.#resume(message, plan);
    return true;
  }

  /**
   * Handles a session of A2E that is resumed: the live agent may have received more or less before its link was lost
   * than the recorded one had. Messages it has are not sent again, and missing ones are sent after the reply.
   */
  #resume(message: Message, plan: Plan): void {
    const asked = resumed(message)?.cursor;
    const recorded = resumed(firstOf(plan)?.message ?? {})?.cursor;
    if (asked === undefined || recorded === undefined) return;
    this.#unsent = this.#unsent.filter((step) => {
      const has = cursorOf(step) > 0 && cursorOf(step) <= asked;
      if (has) step.state = 'done';
      return !has;
    });
    const earlier = this.#replay.plans.filter(({ number }) => number < plan.number).flatMap(({ steps }) => steps);
    const lacking = earlier.filter(
      (step) => step.entry.from === 'host' && cursorOf(step) > asked && cursorOf(step) <= recorded,
    );
    // The reply to the handshake is the first.
    this.#unsent.splice(1, 0, ...lacking);
  }

  /** Finds the recorded message that this one is, or refuses it. */
  #find(message: Message, info: Classified): void {
    const { kind } = info;
    const expected = this.#expected.get(keyOf(info)) ?? [];
    let step: Step | undefined;
    if (info.ref !== '') {
      // A reply to a request of the host has its recorded id; a cancel's request has its live one.
      step = expected.find(
        ({ request, info: recorded }) => (kind === 'cancel' ? idKey(request?.liveId) : recorded.ref) === info.ref,
      );
      if (step === undefined && kind === 'cancel')
        return this.#replay.log(`a ${kind} was not recorded and has no effect`);
    } else {
      const candidates = this.#replay.options.order === 'strict' ? this.#next(expected) : expected;
      step =
        candidates.slice(0, MAX_EXACT).find((each) => this.#replay.matches(each, message, false)) ??
        candidates.find((each) => this.#replay.matches(each, message, true));
    }
    if (step === undefined) return this.#refuse(message, info, this.#waiting());
    expected.splice(expected.indexOf(step), 1);
    this.#replay.found(step, message);
    if (kind === 'request' && !step.answered && this.plan?.closed === undefined)
      this.#fail(message.id as string | number, this.#replay.cut(step));
  }

  /** Returns, for strict order, the next step of the client if it is of this type. */
  #next(expected: readonly Step[]): readonly Step[] {
    const [next] = this.#waiting();
    return next !== undefined && expected.includes(next) ? [next] : [];
  }

  #waiting(): readonly Step[] {
    return this.plan?.steps.filter(({ entry, state }) => entry.from === 'client' && state === 'waiting') ?? [];
  }

  #refuse(message: Message, info: Classified, candidates: readonly Step[], why = ''): void {
    const error = this.#replay.miss(message, info, candidates, why);
    if (this.#codec === undefined) return void this.#link.close('not recorded');
    if (info.kind === 'request' || info.kind === 'other') this.#fail(message.id as string | number, error);
  }

  #fail(id: string | number, error: HandfastError): void {
    const sent = this.#codec?.failure(this.#link.text, { id, idText: '' }, error, 0, error.capability);
    if (sent !== undefined) this.#link.send(sent);
  }

  /** Handles input that is no message: replied to as recorded, else refused as no message. */
  #odd(): void {
    const step = this.plan?.steps.find(
      ({ entry, message, state }) => entry.from === 'client' && state === 'waiting' && message === undefined,
    );
    if (step !== undefined) return this.#replay.found(step, {});
    this.#replay.log('a line of the client is no message');
    if (this.#codec === undefined) return void this.#link.close('no message');
    const nothing = { id: this.#replay.protocol === 'a2e' ? '' : null, idText: '' };
    this.#link.send(
      this.#codec.failure(this.#link.text, nothing, fail('parse_error', 'the line is not a JSON object'), 0),
    );
  }

  /** Replies to a liveness probe: probes come at other times in every run, and always get a reply. */
  #probe(message: Message, { kind }: Classified): void {
    const beat = heartbeatTo(message);
    if (beat !== undefined) return this.#link.send(this.#link.text ? JSON.stringify(beat) : { ...beat });
    if (kind === 'pong' || this.#codec === undefined || (message.id === undefined && this.#replay.protocol !== 'a2e'))
      return;
    const recorded = this.#replay.plans
      .flatMap(({ steps }) => steps)
      .find(({ entry, request }) => entry.from === 'host' && request?.info.kind === 'ping');
    const id = message.id as string | number;
    if (recorded?.message !== undefined) {
      const pong = withRef(this.#replay.protocol, recorded.message, 'pong', id);
      this.#link.send(this.#link.text ? JSON.stringify(pong) : { ...pong });
    } else this.#link.send(this.#codec.pong(this.#link.text, { id, idText: '' }, { uptime_seconds: 0 }));
  }
}

const keyOf = ({ kind, type, ref }: Classified): string =>
  kind === 'reply' || kind === 'failure' ? 'reply' : `${kind} ${type} ${ref === '' ? '' : 'ref'}`;

const cursorOf = ({ message }: Step): number => (typeof message?.cursor === 'number' ? message.cursor : 0);
