/**
 * Compares two recordings and finds the first relevant difference. Requests are matched by their content, so that the
 * order of parallel ones, their ids, times and declared fields make no difference; then their events and replies are
 * compared.
 * @see docs/record-replay.md#comparing
 */
import { canonicalJson } from '../base/canonical-json.ts';
import {
  Bindings,
  type Comparison,
  type Difference,
  differences,
  shownValue,
  VolatilePaths,
  withoutMadeUp,
} from './compare.ts';
import type { Recording } from './format.ts';
import { asAsked, resumed } from './messages.ts';
import { Redactor } from './redactor.ts';
import { plansOf, type Step } from './timeline.ts';

/**
 * `changed`: a value of a message · `missing`, `added`: a message is in the left one, or in the right one, alone · `order`: two
 * messages that followed each other have changed places.
 */
export type DivergenceKind = 'changed' | 'missing' | 'added' | 'order';

/** One place where two recordings differ. */
export interface Divergence {
  readonly kind: DivergenceKind;
  /** Type or method; of a reply that of its request. */
  readonly type: string;
  /** The part of an exchange that differs. */
  readonly part: 'request' | 'event' | 'reply' | 'message';
  /** `seq` in the left and in the right recording; null where it has none. */
  readonly left: number | null;
  readonly right: number | null;
  /** JSON Pointer, of `changed` alone; null for others. */
  readonly path: string | null;
  /** Both values as JSON, cut, without secrets; null for a missing one. */
  readonly left_value: string | null;
  readonly right_value: string | null;
}

export interface DiffOptions {
  /** JSON Pointers of fields that are not compared, beside those of both manifests. */
  readonly volatile?: readonly string[];
  /** Stop behind this many. Default 1. */
  readonly most?: number;
}

/** A request with its events and its reply, or a message that belongs to none. */
interface Unit {
  readonly step: Step;
  readonly type: string;
  readonly events: Step[];
  reply: Step | undefined;
  /** Equal for units that differ only in ids and times. */
  readonly key: string;
}

/** Differences of one message that are listed. */
const MAX_OF_MESSAGE = 20;
/** Divergences that are looked for at most. */
const MAX_DIVERGENCES = 10_000;

/**
 * Returns the divergences in the order of the left recording; units only in the right one come at their place in this
 * order.
 */
export function diffRecordings(
  left: Recording,
  right: Recording,
  { volatile = [], most = 1 }: DiffOptions = {},
): readonly Divergence[] {
  return new Comparer(left, right, volatile, most > 1 ? MAX_OF_MESSAGE : 1).run().slice(0, most);
}

/** A divergence with the number that sorts it. */
interface Placed {
  readonly at: number;
  readonly divergence: Divergence;
}

class Comparer {
  readonly #volatile: Readonly<Record<'client' | 'host', VolatilePaths>>;
  readonly #bindings = new Bindings();
  readonly #redactor = new Redactor();
  readonly #left: readonly Unit[];
  readonly #right: readonly Unit[];
  readonly #found: Placed[] = [];
  /** Side that is not complete. */
  readonly #cut: Readonly<Record<'left' | 'right', boolean>>;

  /** Differences of one message that are looked for. */
  readonly #ofMessage: number;

  constructor(left: Recording, right: Recording, volatile: readonly string[], ofMessage: number) {
    this.#ofMessage = ofMessage;
    this.#cut = { left: !left.manifest.complete, right: !right.manifest.complete };
    const declared = (side: 'client' | 'host') =>
      new VolatilePaths([...new Set([...left.manifest.volatile[side], ...right.manifest.volatile[side], ...volatile])]);
    this.#volatile = { client: declared('client'), host: declared('host') };
    const bare = left.fromJournal === true || right.fromJournal === true;
    this.#left = this.#units(left, bare);
    this.#right = this.#units(right, bare);
  }

  run(): readonly Divergence[] {
    const pairs = this.#align();
    for (const [mine, theirs] of pairs) this.#compare(mine, theirs);
    this.#orders(pairs);
    return this.#found.sort((one, other) => one.at - other.at).map(({ divergence }) => divergence);
  }

  #units(recording: Recording, bare: boolean): readonly Unit[] {
    const units = new Map<Step, Unit>();
    const cursors = new Set<string>();
    for (const { steps } of plansOf(recording)) {
      for (const step of steps) {
        if (step.state === 'skipped' || (bare && isFrame(step)) || isResuming(step)) continue;
        const cursor = step.message?.cursor;
        // Sent again to an agent that resumed.
        if (typeof cursor === 'number' && step.entry.from === 'host') {
          const key = `${cursor} ${String(step.message?.id)}`;
          if (cursors.has(key)) continue;
          cursors.add(key);
        }
        const owner = step.request === undefined || step.info.kind === 'cancel' ? undefined : units.get(step.request);
        if (owner === undefined) {
          const { type, kind } = step.info;
          // The reply to a request that is not there: of a session that was resumed, or left out above.
          if (step.request !== undefined && kind !== 'cancel') continue;
          units.set(step, { step, type: type || kind, events: [], reply: undefined, key: this.#key(step) });
        } else if (step.info.kind === 'event') owner.events.push(step);
        else owner.reply ??= step;
      }
    }
    return [...units.values()].sort((one, other) => one.step.entry.seq - other.step.entry.seq);
  }

  /** Returns a key of a message without ids, times and declared fields. */
  #key({ entry, message, info }: Step): string {
    const head = `${entry.from} ${info.kind} ${info.type} `;
    if (message === undefined) return head + ('text' in entry ? entry.text : '');
    return head + canonicalJson(plain(message, [], this.#volatile[entry.from]));
  }

  /** Finds each left unit among the right ones: by its content, else in their order among those of its type. */
  #align(): readonly (readonly [Unit, Unit])[] {
    const pairs: [Unit, Unit][] = [];
    const byKey = grouped(this.#right, ({ key }) => key);
    const free = new Set(this.#right);
    const lonely: Unit[] = [];
    for (const mine of this.#left) {
      const theirs = byKey.get(mine.key)?.shift();
      if (theirs === undefined) lonely.push(mine);
      else {
        free.delete(theirs);
        pairs.push([mine, theirs]);
      }
    }
    const byType = grouped([...free], typeKey);
    for (const mine of lonely) {
      const theirs = byType.get(typeKey(mine))?.shift();
      if (theirs === undefined) this.#alone(mine, 'missing');
      else {
        free.delete(theirs);
        pairs.push([mine, theirs]);
      }
    }
    for (const theirs of free) this.#alone(theirs, 'added');
    return pairs.sort(([one], [other]) => one.step.entry.seq - other.step.entry.seq);
  }

  #compare(mine: Unit, theirs: Unit): void {
    const part = mine.step.info.kind === 'request' ? 'request' : 'message';
    this.#steps(mine.step, theirs.step, part, mine.type);
    let [ours, others] = [mine.events, theirs.events];
    // Progress may be left out for a slow reader, and contains no lasting information.
    if (ours.length !== others.length) [ours, others] = [ours.filter(isNoProgress), others.filter(isNoProgress)];
    // Events after a recorder was killed are unknown.
    const isCut = (this.#cut.left && mine.reply === undefined) || (this.#cut.right && theirs.reply === undefined);
    const count = isCut ? Math.min(ours.length, others.length) : Math.max(ours.length, others.length);
    for (let at = 0; at < count; at++) this.#steps(ours[at], others[at], 'event', mine.type, mine, theirs);
    if (isCut) return;
    this.#steps(mine.reply, theirs.reply, 'reply', mine.type, mine, theirs);
  }

  /** Compares two messages of which one may not be there. */
  #steps(
    mine: Step | undefined,
    theirs: Step | undefined,
    part: Divergence['part'],
    type: string,
    ours?: Unit,
    others?: Unit,
  ): void {
    if (mine === undefined && theirs === undefined) return;
    if (mine === undefined || theirs === undefined) {
      const kind = theirs === undefined ? 'missing' : 'added';
      const at = mine?.entry.seq ?? (ours?.step.entry.seq ?? 0) + 0.5;
      const none = {
        left: mine?.entry.seq ?? ours?.step.entry.seq ?? null,
        right: theirs?.entry.seq ?? others?.step.entry.seq ?? null,
      };
      this.#note(at, {
        kind,
        type,
        part,
        ...none,
        path: null,
        left_value: this.#shown(mine?.message),
        right_value: this.#shown(theirs?.message),
      });
      return;
    }
    const comparison: Comparison = {
      volatile: this.#volatile[mine.entry.from],
      bindings: this.#bindings,
      most: this.#ofMessage,
    };
    let [leftValue, rightValue] = [valueOfStep(mine), valueOfStep(theirs)];
    if (part === 'reply' && mine.message !== undefined && theirs.message !== undefined) {
      leftValue = asAsked(mine.message, others?.step.message ?? {});
      rightValue = asAsked(theirs.message, ours?.step.message ?? {});
    }
    for (const each of differences(leftValue, rightValue, comparison)) this.#changed(mine, theirs, part, type, each);
  }

  #changed(mine: Step, theirs: Step, part: Divergence['part'], type: string, { path, left, right }: Difference): void {
    this.#note(mine.entry.seq, {
      kind: 'changed',
      type,
      part,
      left: mine.entry.seq,
      right: theirs.entry.seq,
      path,
      left_value: this.#shown(left, mine.message),
      right_value: this.#shown(right, theirs.message),
    });
  }

  #alone(unit: Unit, kind: 'missing' | 'added'): void {
    const { entry, message, info } = unit.step;
    const part = info.kind === 'request' ? 'request' : 'message';
    const value = this.#shown(message ?? ('text' in entry ? entry.text : undefined));
    const isLeft = kind === 'missing';
    // A unit only in the right one comes after its predecessor there.
    const at = isLeft
      ? entry.seq
      : (this.#left.findLast(({ step }) => step.entry.seq <= entry.seq)?.step.entry.seq ?? 0) + 0.6;
    this.#note(at, {
      kind,
      type: unit.type,
      part,
      left: isLeft ? entry.seq : null,
      right: isLeft ? null : entry.seq,
      path: null,
      left_value: isLeft ? value : null,
      right_value: isLeft ? null : value,
    });
  }

  /** Neighbours of one side and one connection that followed each other in both recordings, and not in the same order. */
  #orders(pairs: readonly (readonly [Unit, Unit])[]): void {
    const last = new Map<string, readonly [Unit, Unit]>();
    for (const pair of pairs) {
      const [mine, theirs] = pair;
      const side = `${mine.step.entry.from} ${mine.step.entry.conn}`;
      const before = last.get(side);
      last.set(side, pair);
      if (before === undefined || before[1].step.entry.conn !== theirs.step.entry.conn) continue;
      if (before[1].step.entry.seq < theirs.step.entry.seq) continue;
      if (endOf(before[0]) > mine.step.entry.seq || endOf(theirs) > before[1].step.entry.seq) continue;
      this.#note(mine.step.entry.seq, {
        kind: 'order',
        type: mine.type,
        part: mine.step.info.kind === 'request' ? 'request' : 'message',
        left: mine.step.entry.seq,
        right: theirs.step.entry.seq,
        path: null,
        left_value: null,
        right_value: null,
      });
    }
  }

  #shown(value: unknown, message?: unknown): string | null {
    if (value === undefined) return null;
    // Secrets that a message has elsewhere by a telling name.
    if (message !== undefined) this.#redactor.message(message);
    return shownValue(this.#redactor.message({ value }).value);
  }

  #note(at: number, divergence: Divergence): void {
    if (this.#found.length < MAX_DIVERGENCES) this.#found.push({ at, divergence });
  }
}

/** Returns the end of an exchange; a missing reply leaves it open. */
const endOf = ({ step, reply }: Unit): number =>
  reply?.entry.seq ?? (step.info.kind === 'request' ? Number.POSITIVE_INFINITY : step.entry.seq);

const typeKey = ({ step, type }: Unit): string => `${step.entry.from} ${step.info.kind} ${type}`;

const isNoProgress = ({ message }: Step): boolean => message?.kind !== 'progress';

/** Opens or ends a session, which a journal does not store; or reads the journal. */
const isFrame = ({ info, request }: Step): boolean =>
  info.kind === 'cancel' ||
  /^(?:handshake\/|journal\/|shutdown$|rpc\.handshake$)/.test(request?.info.type ?? info.type);

/** Returns true for the handshake that moves a session to another link, or its reply. */
const isResuming = ({ message, request }: Step): boolean =>
  resumed((request ?? { message })?.message ?? {}) !== undefined;

const valueOfStep = ({ entry, message }: Step): unknown =>
  message ?? ('text' in entry ? entry.text : 'malformed' in entry ? entry.malformed : undefined);

function grouped(units: readonly Unit[], keyOf: (unit: Unit) => string): Map<string, Unit[]> {
  const groups = new Map<string, Unit[]>();
  for (const unit of units) {
    const key = keyOf(unit);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [unit]);
    else group.push(unit);
  }
  return groups;
}

/** Returns a value without declared fields, its made-up pieces replaced by their kinds. */
function plain(value: unknown, path: string[], volatile: VolatilePaths): unknown {
  if (typeof value === 'string') return withoutMadeUp(value);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).flatMap(([name, member]): [string, unknown][] => {
    path.push(name);
    const kept: [string, unknown][] = volatile.has(path) ? [] : [[name, plain(member, path, volatile)]];
    path.pop();
    return kept;
  });
  return Array.isArray(value) ? members.map(([, member]) => member) : Object.fromEntries(members);
}
