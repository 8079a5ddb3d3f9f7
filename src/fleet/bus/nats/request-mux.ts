/**
 * Requests over one connection, answered on one separate subject. The client has requests as well, with a timer and an error
 * object for each; a fleet makes several for every task.
 */
import type { Msg, MsgHdrs, NatsConnection } from './client.ts';

/** Reason why an operation has no reply. `sent`: it may have happened. */
export class NoReplyError extends Error {
  readonly sent: boolean;

  constructor(message: string, sent: boolean, cause?: unknown) {
    super(message, { cause });
    this.sent = sent;
  }
}

interface Asked {
  readonly subject: string;
  /** Monotonic milliseconds after which the caller stops waiting. */
  readonly until: number;
  readonly resolve: (message: Msg) => void;
  readonly reject: (error: Error) => void;
}

const LOOK_MS = 250;

export class RequestMux {
  readonly #connection: NatsConnection;
  readonly #prefix: string;
  readonly #timeoutMs: number;
  /** Requests in their order, which is the order of their ends. */
  readonly #asked = new Map<string, Asked>();
  #last = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(connection: NatsConnection, prefix: string, timeoutMs: number) {
    this.#connection = connection;
    this.#prefix = `${prefix}.`;
    this.#timeoutMs = timeoutMs;
    connection.subscribe(`${prefix}.*`, {
      callback: (error, message) => {
        if (error === null) this.#receive(message);
      },
    });
  }

  /** Makes one request. Fails with {@link NoReplyError}, or with the error of {@link refuse}. */
  ask(subject: string, data: Uint8Array | string, headers?: MsgHdrs): Promise<Msg> {
    return new Promise((resolve, reject) => {
      const token = (++this.#last).toString(36);
      // Throws for a message that can never be sent.
      this.#connection.publish(subject, data, { reply: this.#prefix + token, ...(headers && { headers }) });
      this.#asked.set(token, { subject, until: performance.now() + this.#timeoutMs, resolve, reject });
      this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
    });
  }

  /** Fails all requests when the connection was lost: no reply will come. */
  broken(): void {
    this.#end(() => true, new NoReplyError('the connection broke', true));
  }

  /** Fails the requests on a subject for which the server permits none. */
  refuse(subject: string, error: Error): void {
    this.#end((asked) => asked.subject === subject, error);
  }

  #receive(message: Msg): void {
    const token = message.subject.slice(this.#prefix.length);
    const asked = this.#asked.get(token);
    if (asked === undefined) return;
    this.#asked.delete(token);
    if (message.data.length === 0 && message.headers?.code === 503) {
      asked.reject(new NoReplyError('no subscriber accepts this now', false));
    } else asked.resolve(message);
  }

  #look(): void {
    const now = performance.now();
    for (const [token, asked] of this.#asked) {
      if (asked.until > now) return;
      this.#asked.delete(token);
      asked.reject(new NoReplyError('no reply within the timeout', true));
    }
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #end(which: (asked: Asked) => boolean, error: Error): void {
    for (const [token, asked] of [...this.#asked]) {
      if (!which(asked)) continue;
      this.#asked.delete(token);
      asked.reject(error);
    }
  }
}
