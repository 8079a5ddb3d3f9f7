/**
 * Results on their way to their orchestrators. A result is in the journal before it is in here, is sent until the other end has
 * stored it durably, and waits while the other end is unreachable, however long that is.
 *
 * One lane for each name of a reply channel, so that an unreachable one delays no other.
 */
import { backoffMs } from '../../base/backoff.ts';
import type { Log } from '../../base/log.ts';
import type { Timer } from '../../base/timer-queue.ts';
import type { TaskResult } from '../../protocol/fleet.ts';
import { asError } from '../../wire/errors.ts';
import type { ReplyChannel } from '../bus/reply-channel.ts';

/** Results of one lane that are being sent at a time. */
const MAX_SENDING = 64;
const FIRST_DELAY_MS = 1000;
const MAX_DELAY_MS = 60_000;

export interface OutboxOptions {
  /** The result of an attempt that ended, out of the journal. */
  readonly load: (taskId: string, attempt: number) => TaskResult | null;
  /** The other end has stored the result of this attempt. */
  readonly delivered: (taskId: string, attempt: number) => void;
  readonly log: Log;
  /** Delay before an unconfirmed result is sent again; doubled each time up to a minute, half of it random. Default 1,000. */
  readonly firstDelayMs?: number;
  /** 0 ≤ x < 1. */
  readonly random?: () => number;
  readonly timer: Timer;
}

interface Item {
  readonly taskId: string;
  readonly attempt: number;
  /** Not in memory while it waits: it is in the journal. */
  result: TaskResult | undefined;
  /** The channel of its dispatch, for when none is attached under that name. */
  origin: ReplyChannel | undefined;
  sending: boolean;
  failures: number;
  cancelTimer: (() => void) | undefined;
  /** Called when it was offered once. */
  tried: (() => void) | undefined;
}

const keyOf = (taskId: string, attempt: number): string => `${attempt} ${taskId}`;

interface Lane {
  /** The latest is used; an earlier one stays until its link has ended. */
  readonly channels: ReplyChannel[];
  readonly waiting: Map<string, Item>;
  ready: Item[];
  sending: number;
}

export class Outbox {
  readonly #options: OutboxOptions;
  readonly #lanes = new Map<string, Lane>();
  readonly #quiet = new Set<() => void>();
  #closed = false;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /** Results that are not confirmed yet. */
  get size(): number {
    let size = 0;
    for (const { waiting } of this.#lanes.values()) size += waiting.size;
    return size;
  }

  /** Returns the channel of this name that is attached now. */
  channel(name: string): ReplyChannel | undefined {
    return this.#lanes.get(name)?.channels.at(-1);
  }

  /** Yields all channels that are attached, one for each name. */
  *attached(): Iterable<ReplyChannel> {
    for (const { channels } of this.#lanes.values()) {
      const latest = channels.at(-1);
      if (latest !== undefined) yield latest;
    }
  }

  /** Forwards queued and future results for this name to `channel`; returns a function that detaches it. */
  attach(channel: ReplyChannel): () => void {
    const lane = this.#lane(channel.name);
    lane.channels.push(channel);
    lane.ready = [];
    for (const item of lane.waiting.values()) {
      item.cancelTimer?.();
      item.cancelTimer = undefined;
      item.failures = 0;
      if (!item.sending) lane.ready.push(item);
    }
    this.#pump(lane);
    return () => {
      const at = lane.channels.indexOf(channel);
      if (at >= 0) lane.channels.splice(at, 1);
    };
  }

  /**
   * Adds a result that is in the journal. `result` and `origin` save reading it again while they are at hand. Resolves when it
   * was offered once, or has to wait for a channel.
   */
  add(channelName: string, taskId: string, attempt: number, result?: TaskResult, origin?: ReplyChannel): Promise<void> {
    const lane = this.#lane(channelName);
    const tried = Promise.withResolvers<void>();
    const item: Item = {
      taskId,
      attempt,
      result,
      origin,
      sending: false,
      failures: 0,
      cancelTimer: undefined,
      tried: tried.resolve,
    };
    lane.waiting.set(keyOf(taskId, attempt), item);
    if (lane.channels.length > 0 || origin !== undefined) lane.ready.push(item);
    else tried.resolve();
    this.#pump(lane);
    return tried.promise;
  }

  /** True while the result of this attempt is not confirmed. */
  has(taskId: string, attempt: number): boolean {
    const key = keyOf(taskId, attempt);
    for (const { waiting } of this.#lanes.values()) if (waiting.has(key)) return true;
    return false;
  }

  /** Notes that the other end of this name has the result. False: it waits for another one, or does not wait. */
  confirm(channelName: string, taskId: string, attempt: number): boolean {
    const waiting = this.#lanes.get(channelName)?.waiting;
    const key = keyOf(taskId, attempt);
    waiting?.get(key)?.cancelTimer?.();
    return waiting?.delete(key) ?? false;
  }

  /** Removes a result that need not be sent any more: the same attempt runs after all. */
  remove(taskId: string, attempt: number): void {
    const key = keyOf(taskId, attempt);
    for (const lane of this.#lanes.values()) {
      lane.waiting.get(key)?.cancelTimer?.();
      lane.waiting.delete(key);
    }
  }

  /** Resolves when nothing is being sent and nothing is ready to be; at the latest after `boundMs`. */
  async settled(boundMs: number): Promise<void> {
    if (!this.#busy()) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        cancel();
        this.#quiet.delete(done);
        resolve();
      };
      const cancel = this.#options.timer(done, boundMs);
      this.#quiet.add(done);
    });
  }

  /** Stops sending; waiting results are in the journal. */
  close(): void {
    this.#closed = true;
    for (const lane of this.#lanes.values()) {
      for (const { cancelTimer } of lane.waiting.values()) cancelTimer?.();
      lane.channels.length = 0;
      lane.ready = [];
    }
  }

  #lane(name: string): Lane {
    let lane = this.#lanes.get(name);
    if (lane === undefined) {
      lane = { channels: [], waiting: new Map(), ready: [], sending: 0 };
      this.#lanes.set(name, lane);
    }
    return lane;
  }

  #busy(): boolean {
    for (const { sending, ready, channels } of this.#lanes.values()) {
      if (sending > 0 || (ready.length > 0 && channels.length > 0)) return true;
    }
    return false;
  }

  #pump(lane: Lane): void {
    while (!this.#closed && lane.sending < MAX_SENDING && lane.ready.length > 0) {
      const item = lane.ready.shift() as Item;
      if (item.sending || !isWaiting(lane, item)) continue;
      const channel = lane.channels.at(-1) ?? item.origin;
      if (channel !== undefined) void this.#send(lane, item, channel);
    }
    if (this.#quiet.size > 0 && !this.#busy()) for (const done of [...this.#quiet]) done();
  }

  async #send(lane: Lane, item: Item, channel: ReplyChannel): Promise<void> {
    const { taskId, attempt } = item;
    item.sending = true;
    lane.sending += 1;
    try {
      const result = item.result ?? this.#options.load(taskId, attempt);
      // Removed meanwhile: no result is left to send.
      if (result !== null) await channel.deliverResult(result);
      if (isWaiting(lane, item)) {
        lane.waiting.delete(keyOf(taskId, attempt));
        if (result !== null) this.#options.delivered(taskId, attempt);
      }
    } catch (thrown) {
      this.#failed(lane, item, channel, thrown);
    } finally {
      item.sending = false;
      lane.sending -= 1;
      item.tried?.();
      this.#pump(lane);
    }
  }

  #failed(lane: Lane, item: Item, channel: ReplyChannel, thrown: unknown): void {
    item.result = undefined;
    item.origin = undefined;
    if (this.#closed || !isWaiting(lane, item)) return;
    const { code, message } = asError(thrown);
    this.#options.log.debug('result was not confirmed', {
      task_id: item.taskId,
      channel: channel.name,
      code,
      error: message,
    });
    const { firstDelayMs = FIRST_DELAY_MS, random, timer } = this.#options;
    const delayMs = backoffMs(item.failures, { firstDelayMs, maxDelayMs: MAX_DELAY_MS, ...(random && { random }) });
    item.failures += 1;
    const again = (): void => {
      item.cancelTimer = undefined;
      if (lane.channels.length === 0) return;
      lane.ready.push(item);
      this.#pump(lane);
    };
    // Another channel replaced the one that failed: no reason to wait.
    item.cancelTimer = timer(again, lane.channels.at(-1) === channel ? delayMs : 0);
  }
}

const isWaiting = (lane: Lane, item: Item): boolean => lane.waiting.get(keyOf(item.taskId, item.attempt)) === item;
