/**
 * Editors that lend a session their files and terminals. The client of an editor waits for requests with `editor.next`
 * and replies to them with `editor.reply`; the tools of the session make them. One registry per process joins the two.
 *
 * An editor belongs to one session and is attached while its client waits or has requests without a reply. Each request
 * has a deadline, which bounds the time that an editor without a reply costs a call.
 */
import { orAborted, withTimeout } from '../base/race.ts';
import { fail, type HandfastError } from '../wire/errors.ts';

/** The services that an editor lends. */
export interface EditorOffer {
  readonly reads: boolean;
  readonly writes: boolean;
  readonly terminals: boolean;
}

export interface EditorRequestOptions {
  readonly signal?: AbortSignal;
  /** Time for the answer in milliseconds. Default 10,000; `Infinity` = none. */
  readonly timeoutMs?: number;
}

/** An attached editor, as tools use it. */
export interface EditorAccess extends EditorOffer {
  /**
   * Asks the editor. Methods and parameters are those of the Agent Client Protocol without `sessionId`; paths start at the
   * folder of the session. Fails with `tool_error`: `editor_refused` (it answered with an error), `editor_silent`,
   * `editor_lost`, `editor_busy`; and with the reason of the signal.
   */
  request(method: string, params: object, options?: EditorRequestOptions): Promise<unknown>;
}

/** A request as the client of the editor gets it. */
export interface EditorRequest {
  readonly request_id: string;
  readonly method: string;
  readonly params: object;
}

/** The reply of an editor. */
export interface EditorReply {
  readonly result?: unknown;
  /** Reason of the refusal. */
  readonly error?: string;
}

const DEFAULT_TIMEOUT_MS = 10_000;
/** A client that does not wait for the next request for this time, in milliseconds, has lost its connection in between. */
const AWAY_MS = 5_000;
const DISCONNECTED = 'the editor has disconnected';
/** Most requests of one editor without an answer. */
const MAX_REQUESTS = 256;

export class Editors {
  /** By session of the control edge. */
  readonly #attached = new Map<string, AttachedEditor>();
  /** The session of the control edge, by the id of its session with a host. */
  readonly #sessions = new Map<string, string>();

  /**
   * Assigns the calls of a session with a host to this session of the control edge, until the returned function is
   * called.
   */
  bind(hostSession: string, session: string): () => void {
    this.#sessions.set(hostSession, session);
    return () => void this.#sessions.delete(hostSession);
  }

  /** Returns the session of the control edge that a session with a host belongs to; undefined = none. */
  sessionOf(hostSession: string): string | undefined {
    return this.#sessions.get(hostSession);
  }

  /** Returns the editor of a session with a host; undefined = none is attached. */
  of(hostSession: string): EditorAccess | undefined {
    const session = this.#sessions.get(hostSession);
    return session === undefined ? undefined : this.#attached.get(session);
  }

  /**
   * Attaches the editor behind a connection, and waits for the next request to it. The newest editor of a session is the one
   * that is used: an earlier one gets `superseded`. When the signal aborts, the editor is detached.
   */
  next(session: string, connection: string, offer: EditorOffer, signal: AbortSignal): Promise<EditorRequest> {
    let editor = this.#attached.get(session);
    if (editor?.connection !== connection) {
      editor?.end('another editor has opened the session', 'superseded');
      const detach = (): void => {
        if (this.#attached.get(session) === editor) this.#attached.delete(session);
      };
      editor = new AttachedEditor(connection, offer, detach);
      this.#attached.set(session, editor);
    }
    const attached = editor;
    return orAborted(attached.next(), signal).catch((error) => {
      if (signal.aborted) attached.end(DISCONNECTED);
      throw error;
    });
  }

  /** Settles a request. False where it waits no more. */
  reply(session: string, connection: string, id: string, reply: EditorReply): boolean {
    const editor = this.#attached.get(session);
    return editor?.connection === connection && editor.reply(id, reply);
  }
}

/** Returns the same editor with a report of its work: `done` is called after each request that it did not refuse. */
export function noting(editor: EditorAccess | undefined, done: () => void): EditorAccess | undefined {
  return (
    editor && {
      reads: editor.reads,
      writes: editor.writes,
      terminals: editor.terminals,
      async request(...asked) {
        const answer = await editor.request(...asked);
        done();
        return answer;
      },
    }
  );
}

class AttachedEditor implements EditorAccess {
  readonly connection: string;
  readonly reads: boolean;
  readonly writes: boolean;
  readonly terminals: boolean;
  readonly #unsent: EditorRequest[] = [];
  readonly #open = new Map<string, PromiseWithResolvers<unknown>>();
  readonly #detach: () => void;
  #waiting: PromiseWithResolvers<EditorRequest> | undefined;
  #away: NodeJS.Timeout | undefined;
  #count = 0;
  #ended: HandfastError | undefined;

  /** @param detach called when the editor has ended */
  constructor(connection: string, { reads, writes, terminals }: EditorOffer, detach: () => void) {
    this.connection = connection;
    this.#detach = detach;
    this.reads = reads;
    this.writes = writes;
    this.terminals = terminals;
  }

  next(): Promise<EditorRequest> {
    clearTimeout(this.#away);
    this.#waiting?.reject(fail('superseded', 'this client waits for requests a second time'));
    this.#waiting = Promise.withResolvers();
    const { promise } = this.#waiting;
    this.#send();
    return promise;
  }

  async request(method: string, params: object, options: EditorRequestOptions = {}): Promise<unknown> {
    const { signal, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    if (this.#ended !== undefined) throw this.#ended;
    if (this.#open.size >= MAX_REQUESTS) throw failure('editor_busy', 'the editor has too many requests to answer');
    this.#count += 1;
    const request_id = String(this.#count);
    const answer = Promise.withResolvers<unknown>();
    this.#open.set(request_id, answer);
    this.#unsent.push({ request_id, method, params });
    this.#send();
    const silent = () => failure('editor_silent', `the editor did not answer ${method} within ${timeoutMs} ms`);
    try {
      return await orAborted(withTimeout(answer.promise, timeoutMs, silent), signal);
    } finally {
      this.#open.delete(request_id);
      const at = this.#unsent.findIndex((each) => each.request_id === request_id);
      if (at !== -1) this.#unsent.splice(at, 1);
    }
  }

  reply(id: string, { result, error }: EditorReply): boolean {
    const answer = this.#open.get(id);
    if (error === undefined) answer?.resolve(result);
    else answer?.reject(failure('editor_refused', `the editor refused: ${error}`));
    return answer !== undefined;
  }

  end(why: string, code?: 'superseded'): void {
    clearTimeout(this.#away);
    this.#ended = failure('editor_lost', why);
    this.#waiting?.reject(code === undefined ? this.#ended : fail(code, why));
    this.#waiting = undefined;
    for (const answer of this.#open.values()) answer.reject(this.#ended);
    this.#detach();
  }

  #send(): void {
    const [request] = this.#unsent;
    if (request === undefined || this.#waiting === undefined) return;
    this.#unsent.shift();
    this.#waiting.resolve(request);
    this.#waiting = undefined;
    this.#away = setTimeout(() => this.end(DISCONNECTED), AWAY_MS).unref();
  }
}

const failure = (reason: string, message: string): HandfastError => fail('tool_error', message, { reason });
