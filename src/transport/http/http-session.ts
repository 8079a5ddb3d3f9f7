/**
 * One session of the HTTP binding as a {@link Link}: messages come in by `POST /send`, go out over the event stream
 * that is attached, and wait in between.
 *
 * A session outlives its streams: losing one does not close the link, a missing reconnect does. Time is counted in
 * sweeps of the endpoint's one timer, so an idle session owns no timer.
 */
import type { ServerResponse } from 'node:http';
import type { CloseInfo, Link, LinkMeter, LinkReceiver, Message } from '../link.ts';
import { unsentBytes } from '../unsent-bytes.ts';
import { wireText } from './http-body.ts';
import { EventLog } from './http-event-log.ts';
import { SAFE_HEADERS } from './http-exchange.ts';
import { HttpInbox } from './http-inbox.ts';

/** Limits of a session. Durations are numbers of sweeps. */
export interface SessionRules {
  readonly replayBytes: number;
  readonly waitingBytes: number;
  readonly keepAliveSweeps: number;
  readonly idleSweeps: number;
  readonly reattachSweeps: number;
  readonly delaySweeps: number;
}

/** An attached event stream. At most one write is pending; messages sent meanwhile leave with the next. */
interface Stream {
  readonly response: ServerResponse;
  /** True when the reader sent its cursor, and so understands typed events. Others would read them as messages. */
  readonly resumes: boolean;
  busy: boolean;
  quietSweeps: number;
}

/** Longest text handed to the stream at once, unless a single message is longer. */
const WRITE_BYTES = 256 * 1024;
const RECONNECT_HINT_MS = 1_000;

const STREAM_HEADERS: string[] = [
  'Content-Type',
  'text/event-stream; charset=utf-8',
  'Cache-Control',
  'no-cache',
  // A buffering proxy would delay events.
  'X-Accel-Buffering',
  'no',
  ...SAFE_HEADERS,
];

export class HttpSession implements Link {
  readonly transport = 'http';
  readonly text = true;
  meter: LinkMeter | undefined;
  readonly id: string;
  readonly peer: string;
  /** The requests to `/send` of this session. */
  readonly inbox: HttpInbox;
  readonly #rules: SessionRules;
  readonly #log: EventLog;
  readonly #onGone: (session: HttpSession) => void;
  #receiver: LinkReceiver | undefined;
  #stream: Stream | undefined;
  #hadStream = false;
  #flushScheduled = false;
  /** Characters the system has accepted, over all streams. */
  #acceptedChars = 0;
  #unseenSweeps = 0;
  /** Requests of the client so far. */
  #requests = 0;
  #paused = false;
  #waiters: { lowWaterBytes: number; resolve: () => void }[] | undefined;
  #closing: { reason: string; promise: Promise<void>; resolve: () => void; timer: NodeJS.Timeout } | undefined;
  #ending = false;
  /** True once the client has ended the session; messages it had sent before are still delivered. */
  #left = false;
  #cause: CloseInfo | undefined;

  constructor(
    id: string,
    peer: string,
    maxMessageBytes: number,
    rules: SessionRules,
    onGone: (session: HttpSession) => void,
  ) {
    this.id = id;
    this.peer = peer;
    this.inbox = new HttpInbox(maxMessageBytes, rules.delaySweeps);
    this.#rules = rules;
    this.#log = new EventLog(rules.replayBytes);
    this.#onGone = onGone;
  }

  // ── The link, as its owner uses it ──

  open(receiver: LinkReceiver): void {
    const first = this.#receiver === undefined;
    this.#receiver = receiver;
    if (this.#cause === undefined) this.inbox.open(receiver);
    else if (first) this.#notifyClosed(this.#cause);
  }

  send(message: string | Message): void {
    if (this.#closing !== undefined || this.#cause !== undefined) return;
    this.#log.append(wireText(typeof message === 'string' ? message : JSON.stringify(message)));
    const stream = this.#stream;
    if (stream === undefined) {
      if (this.#log.waitingBytes > this.#rules.waitingBytes && this.#log.waiting > 1) {
        this.destroy('slow_consumer: the event buffer is full and no stream reads it');
      }
    } else if (!this.#flushScheduled && !stream.busy) {
      this.#flushScheduled = true;
      setImmediate(flushSession, this);
    }
  }

  get buffered(): number {
    return this.#log.waitingBytes;
  }

  get progress(): number | undefined {
    const socket = this.#stream?.response.socket;
    return socket ? this.#acceptedChars - unsentBytes(socket) : undefined;
  }

  get isClosed(): boolean {
    return this.#cause !== undefined;
  }

  get received(): number | undefined {
    return this.#paused || this.#receiver === undefined ? undefined : this.#requests;
  }

  drained(lowWaterBytes = 0): Promise<void> {
    if (this.#cause !== undefined || this.buffered <= lowWaterBytes) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiters ??= [];
      this.#waiters.push({ lowWaterBytes, resolve });
    });
  }

  pause(paused: boolean): void {
    this.#paused = paused;
    this.inbox.pause(paused);
  }

  setMaxMessageBytes(bytes: number): void {
    this.inbox.maxMessageBytes = bytes;
  }

  close(reason = 'closed', graceMs = 2_000): Promise<void> {
    if (this.#closing !== undefined) return this.#closing.promise;
    if (this.#cause !== undefined) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    const late = `the peer did not finish within ${graceMs} ms`;
    const timer = setTimeout(() => this.destroy(late), graceMs);
    this.#closing = { reason, promise, resolve, timer };
    this.#endIfDelivered();
    return promise;
  }

  destroy(reason = 'destroyed'): void {
    this.#finish({ clean: false, reason });
  }

  // ── The session, as the endpoint drives it ──

  /** True while bodies are accepted; the stream may still be fetched when the session is closing. */
  get receiving(): boolean {
    return this.#closing === undefined && this.#cause === undefined && !this.#left;
  }

  /** True when it is over. */
  get ended(): boolean {
    return this.#cause !== undefined;
  }

  /** Records that a request of the client was seen. */
  touch(): void {
    this.#requests += 1;
    this.#unseenSweeps = 0;
  }

  /** Returns true when `id` can be the last event this client has seen. */
  hasReached(id: number): boolean {
    return id <= this.#log.lastId;
  }

  /**
   * Makes `response` the event stream; a former one ends. It continues after `lastEventId` if the reader named one,
   * with a `gap` event for messages that are no longer stored; otherwise from the first message that no stream passed
   * to the operating system.
   */
  attach(response: ServerResponse, lastEventId: number | undefined): void {
    this.#dropStream({ clean: false, reason: 'another reader took over' });
    const stream: Stream = { response, resumes: lastEventId !== undefined, busy: false, quietSweeps: 0 };
    const gap = lastEventId === undefined ? undefined : this.#log.resumeAfter(lastEventId);
    this.#stream = stream;
    this.#hadStream = true;
    response.on('close', () => this.#detached(stream));
    // A write that loses its race with the peer's close is reported here; `close` follows and does the work.
    response.on('error', () => {});
    response.writeHead(200, STREAM_HEADERS);
    response.write(`retry: ${RECONNECT_HINT_MS}\n\n${gap === undefined ? '' : typedEvent('gap', gap)}`, 'latin1');
    this.#flush(stream);
  }

  /** Handles the end of the session by the client: `clean` in order, otherwise as a lost link. */
  endedByPeer(clean: boolean): void {
    const reason = clean ? 'the client ended the session' : 'the client dropped the session';
    this.#left = true;
    this.inbox.finish(() => this.#finish({ clean, reason }));
  }

  /** Handles one tick of the endpoint's timer. */
  sweep(): void {
    const stream = this.#stream;
    if (stream === undefined) {
      this.#unseenSweeps = this.inbox.openSends > 0 ? 0 : this.#unseenSweeps + 1;
      const limit = this.#hadStream ? this.#rules.reattachSweeps : this.#rules.idleSweeps;
      if (this.#unseenSweeps > limit) {
        this.destroy(
          this.#hadStream ? 'the event stream was lost and no client resumed it' : 'no client ever read the stream',
        );
        return;
      }
    } else if (!stream.busy && !this.#ending) {
      stream.quietSweeps += 1;
      if (stream.quietSweeps >= this.#rules.keepAliveSweeps) {
        stream.quietSweeps = 0;
        stream.response.write(': keep-alive\n\n', 'latin1');
      }
    }
    this.inbox.sweep();
  }

  /** Sends all messages of one turn of the event loop in one write. */
  flush(): void {
    this.#flushScheduled = false;
    if (this.#stream !== undefined) this.#flush(this.#stream);
  }

  #flush(stream: Stream): void {
    if (stream.busy || this.#ending) return;
    const frames = this.#log.next(WRITE_BYTES);
    if (frames === undefined) {
      this.#endIfDelivered();
      return;
    }
    stream.busy = true;
    stream.quietSweeps = 0;
    stream.response.write(frames.text, 'latin1', (error) => {
      // A failed write, or one of a stream that was replaced, proves nothing: its messages are sent again.
      if (error || this.#stream !== stream) return;
      stream.busy = false;
      this.#log.delivered(frames.lastId);
      this.#acceptedChars += frames.text.length;
      this.#wake();
      this.#flush(stream);
    });
  }

  #wake(): void {
    if (this.#waiters === undefined) return;
    const left = this.#waiters.filter((waiter) => {
      if (this.#cause === undefined && this.buffered > waiter.lowWaterBytes) return true;
      waiter.resolve();
      return false;
    });
    this.#waiters = left.length > 0 ? left : undefined;
  }

  #detached(stream: Stream): void {
    if (this.#stream !== stream) return;
    this.#stream = undefined;
    this.#unseenSweeps = 0;
    if (this.#ending) this.#finish({ clean: true, reason: this.#closing?.reason ?? 'closed' });
  }

  /** Ends the attached stream with its reason; a stream with unsent bytes is destroyed instead. */
  #dropStream(cause: CloseInfo): void {
    const stream = this.#stream;
    if (stream === undefined) return;
    this.#stream = undefined;
    const { response } = stream;
    if (response.writableFinished) return;
    if (stream.busy || response.writableEnded || response.writableLength > 0) response.destroy();
    else response.end(stream.resumes ? typedEvent('end', cause) : '', 'latin1');
  }

  #endIfDelivered(): void {
    const closing = this.#closing;
    if (closing === undefined || this.#ending || this.#log.waiting > 0) return;
    const stream = this.#stream;
    const cause: CloseInfo = { clean: true, reason: closing.reason };
    if (stream === undefined) {
      this.#finish(cause);
      return;
    }
    this.#ending = true;
    stream.response.end(stream.resumes ? typedEvent('end', cause) : '', 'latin1', () => this.#finish(cause));
  }

  #finish(cause: CloseInfo): void {
    if (this.#cause !== undefined) return;
    this.#cause = cause;
    this.#dropStream(cause);
    this.inbox.close();
    this.#log.clear();
    this.#wake();
    if (this.#closing !== undefined) {
      clearTimeout(this.#closing.timer);
      this.#closing.resolve();
    }
    this.#onGone(this);
    if (this.#receiver !== undefined) this.#notifyClosed(cause);
  }

  /** Notifies the receiver in a microtask, because the caller of `destroy` or `open` may be in the middle of an update. */
  #notifyClosed(cause: CloseInfo): void {
    queueMicrotask(() => this.#receiver?.closed(cause));
  }
}

function flushSession(session: HttpSession): void {
  session.flush();
}

/** Returns the text of an event that is not a message and carries no id. */
function typedEvent(type: 'gap' | 'end', data: object): string {
  return `event: ${type}\ndata: ${wireText(JSON.stringify(data))}\n\n`;
}
