/**
 * Sessions of subagents: the runner of the subagent makes them, not a client, with the rights of the subagent and not with
 * those of the owner. In all else they are sessions: the owner lists, follows, steers and interrupts them and answers their
 * approvals.
 *
 * Rights are asked of the subagent each time they are needed. They end with it, and with the process: a session that is
 * found without its subagent may do nothing, and is closed at the next start.
 */
import { wrongParam } from '../../../protocol/rpc-reader.ts';
import { sessionCreate } from '../../../protocol/session-rpc.ts';
import type { SessionSettings, StopReason, Usage } from '../../../protocol/session-types.ts';
import type { Principal } from '../../../session/principal.ts';
import { fail } from '../../../wire/errors.ts';
import type { PublishedEvent } from '../../contract/events.ts';
import type { SessionRecord } from '../../contract/session-log.ts';
import type { EventHub } from '../log/event-hub.ts';
import { addUsage } from '../record/usage.ts';
import type { SessionPool } from './session-pool.ts';

/** Reason why such a session is closed. */
export const SUBAGENT_ENDED = 'subagent_ended';

export interface SubagentSessionOptions {
  /** Id of the subagent. */
  readonly subagent: string;
  /** Name of the principal that it acts for. */
  readonly owner: string;
  /** The session whose agent made it; one of another owner counts as none. */
  readonly parent?: string | undefined;
  readonly title: string;
  /** Absolute. */
  readonly cwd: string;
  readonly settings: SessionSettings;
  /** Returns the rights of the subagent, from its owner's rights now; undefined once it has ended. */
  rights(owner: Principal): Principal | undefined;
  /** Its session was closed or deleted by others. */
  closed(): void;
}

/** Events of a task while it runs. */
export interface SubagentTurnEvents {
  /** Reports the usage of its turns so far: a total. */
  usage(total: Usage): void;
  /** Reports that a tool was called. */
  tool(name: string): void;
  /** Reports the title of the approval that it waits for; undefined: it waits for none any more. */
  waiting(title: string | undefined): void;
  /** Reports a steer that was not used: it was cancelled before, or too many waited. */
  unused(text: string): void;
}

/** The end of a task. */
export type SubagentTurnEnd =
  | { readonly kind: 'completed'; readonly text: string; readonly stopReason: StopReason }
  | { readonly kind: 'interrupted'; readonly stopReason: StopReason }
  | { readonly kind: 'failed'; readonly message: string; readonly code: string };

/** The session of a subagent. */
export interface SubagentSession {
  /** Id of the session. */
  readonly id: string;
  /**
   * Runs a prompt as a turn, behind those that wait. Messages that came too late for the turn become separate turns, and the
   * last one ends the task. When the signal aborts, they are interrupted. Rejects with `session_closed`, `over_capacity`,
   * `interrupted`.
   */
  run(prompt: string, events: SubagentTurnEvents, signal: AbortSignal): Promise<SubagentTurnEnd>;
  /** Steers the running task. False: none runs. */
  steer(text: string): boolean;
  /** Closes it. Bounded, never rejects. */
  close(): Promise<void>;
}

export interface SubagentSessionsDeps {
  readonly pool: SessionPool;
  readonly hub: EventHub;
  /** The principal of a name. */
  readonly ownerOf: (name: string) => Principal;
  readonly backendNames: () => readonly string[];
  readonly defaultBackend: () => string;
  readonly newId: () => string;
  /** A session has come or gone. */
  readonly changed: (reason: string, session: { readonly id: string; readonly owner: string }) => void;
}

export class SubagentSessions {
  readonly #deps: SubagentSessionsDeps;
  /** Open subagents by session. */
  readonly #open = new Map<string, OpenSubagent>();
  #unlisten: (() => void) | undefined;

  constructor(deps: SubagentSessionsDeps) {
    this.#deps = deps;
  }

  /** Returns the principal whose rights the turns of a session have. For an ended subagent: a principal that may do nothing. */
  principalOf({ id, owner, subagent }: Pick<SessionRecord, 'id' | 'owner' | 'subagent'>): Principal {
    const principal = this.#deps.ownerOf(owner);
    if (subagent === null) return principal;
    return this.#open.get(id)?.options.rights(principal) ?? { name: owner, subagent };
  }

  /** Makes a session. Fails with `schema_violation` for its backend, and as `session.create` does. */
  async open(options: SubagentSessionOptions): Promise<SubagentSession> {
    const { pool, hub, ownerOf, backendNames, defaultBackend, newId, changed } = this.#deps;
    const { owner, title, cwd, subagent, settings } = options;
    const backend = settings.backend ?? defaultBackend();
    if (!backendNames().includes(backend)) {
      throw wrongParam(sessionCreate.name, 'backend', `one of: ${backendNames().join(', ')}`);
    }
    pool.parts.storage.mustHaveRoom(ownerOf(owner));
    pool.mustHaveMemory(owner);
    const id = newId();
    const opened = new OpenSubagent(id, options, this.#deps, () => this.#remove(id));
    this.#open.set(id, opened);
    this.#unlisten ??= hub.listen((event) => this.#open.get(event.session)?.received(event));
    const isOwn = options.parent !== undefined && pool.ownerOf(options.parent) === owner;
    try {
      const turns = await pool.create(id, {
        owner,
        cwd,
        backend,
        title,
        settings: { ...settings, backend },
        parent_session_id: isOwn ? options.parent : null,
        subagent_id: subagent,
      });
      await turns.session.flushed().catch(async (thrown) => {
        await pool.undo(turns);
        throw thrown;
      });
    } catch (thrown) {
      this.#remove(id);
      throw thrown;
    }
    changed('session_created', { id, owner });
    return opened;
  }

  #remove(id: string): void {
    this.#open.delete(id);
    if (this.#open.size > 0) return;
    this.#unlisten?.();
    this.#unlisten = undefined;
  }
}

/** A task that runs. */
interface Running {
  readonly events: SubagentTurnEvents;
  readonly signal: AbortSignal;
  /** Its turns that have not ended: of its prompt, and of messages that came too late for that. */
  readonly turns: Set<string>;
  /** Texts of its steers, by id. */
  readonly steers: Map<string, string>;
  readonly used: Map<string, Usage>;
  readonly done: PromiseWithResolvers<SubagentTurnEnd>;
  last: SubagentTurnEnd | undefined;
}

class OpenSubagent implements SubagentSession {
  readonly id: string;
  readonly options: SubagentSessionOptions;
  readonly #deps: SubagentSessionsDeps;
  readonly #removed: () => void;
  #running: Running | undefined;
  #closing = false;

  constructor(id: string, options: SubagentSessionOptions, deps: SubagentSessionsDeps, removed: () => void) {
    this.id = id;
    this.options = options;
    this.#deps = deps;
    this.#removed = removed;
  }

  async run(prompt: string, events: SubagentTurnEvents, signal: AbortSignal): Promise<SubagentTurnEnd> {
    const { pool, newId, ownerOf } = this.#deps;
    signal.throwIfAborted();
    pool.parts.storage.mustHaveRoom(ownerOf(this.options.owner));
    pool.mustHaveMemory(this.options.owner);
    const turnId = newId();
    const running: Running = {
      events,
      signal,
      turns: new Set([turnId]),
      steers: new Map(),
      used: new Map(),
      done: Promise.withResolvers(),
      last: undefined,
    };
    this.#running = running;
    const interrupt = (): void => this.#interrupt(running);
    signal.addEventListener('abort', interrupt, { once: true });
    try {
      pool.get(this.id).send(turnId, { text: prompt, images: [] }, true);
      return await running.done.promise;
    } finally {
      signal.removeEventListener('abort', interrupt);
      if (this.#running === running) this.#running = undefined;
    }
  }

  steer(text: string): boolean {
    const running = this.#running;
    if (running === undefined || running.turns.size === 0) return false;
    const turns = this.#deps.pool.get(this.id);
    const id = this.#deps.newId();
    // Before it is sent: its turn may start at once.
    running.steers.set(id, text);
    try {
      return turns.steer({ id, text, whenLate: 'queue' }).outcome !== 'rejected';
    } catch {
      return false;
    }
  }

  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    const { pool, changed } = this.#deps;
    try {
      const turns = pool.get(this.id);
      if (turns.session.record.phase !== 'closed') {
        await turns.close('closed', SUBAGENT_ENDED);
        pool.noteLive(turns.session);
        await turns.session.flushed();
        changed('session_closed', { id: this.id, owner: this.options.owner });
      }
    } catch {
      // Deleted, or the server has stopped: no session is left to close.
    } finally {
      this.#removed();
    }
  }

  /** Receives an event of its session. */
  received({ type, params: { payload } }: PublishedEvent): void {
    if (type === 'session.closed') return this.#closed(payload.reason === SUBAGENT_ENDED);
    const running = this.#running;
    if (running === undefined) return;
    const turnId = String(payload.turn_id ?? '');
    // A steer that came too late becomes a turn under the steer's id.
    if ((type === 'session.turn.queued' || type === 'session.turn.started') && running.steers.has(turnId)) {
      running.turns.add(turnId);
      // The turn of a task that was stopped; the queue changes while this event is sent.
      if (running.signal.aborted) queueMicrotask(() => this.#interrupt(running));
    }
    if (type === 'session.steer.returned') {
      for (const { id } of payload.steers as readonly { readonly id: string }[]) this.#unused(running, id);
    }
    if (type === 'approval.requested' || type === 'approval.resolved') return this.#waiting(running);
    if (!running.turns.has(turnId)) return;
    switch (type) {
      case 'session.usage': {
        running.used.set(turnId, payload.usage as Usage);
        return running.events.usage([...running.used.values()].reduce(addUsage));
      }
      case 'session.tool.call.started':
        return running.events.tool((payload.data as { call: { name: string } }).call.name);
      case 'session.completed': {
        const stopReason = payload.stop_reason as StopReason;
        return this.#ended(running, turnId, { kind: 'completed', text: this.#answerOf(turnId), stopReason });
      }
      case 'session.interrupted':
        return this.#ended(running, turnId, { kind: 'interrupted', stopReason: payload.stop_reason as StopReason });
      case 'session.error': {
        const { message, kind } = payload;
        return this.#ended(running, turnId, { kind: 'failed', message: String(message), code: String(kind) });
      }
    }
  }

  #ended(running: Running, turnId: string, end: SubagentTurnEnd): void {
    running.turns.delete(turnId);
    running.last = end;
    // A steer that came too late is queued behind this event.
    queueMicrotask(() => {
      if (running.turns.size === 0 && running.last !== undefined) running.done.resolve(running.last);
    });
  }

  #unused({ steers, events }: Running, id: string): void {
    const text = steers.get(id);
    if (steers.delete(id) && text !== undefined) events.unused(text);
  }

  #waiting({ events }: Running): void {
    const { approvals } = this.#record;
    events.waiting(approvals.find(({ state }) => state === 'pending')?.title);
  }

  /** Returns the text behind the last tool of a turn; where its backend stored none, the whole answer. */
  #answerOf(turnId: string): string {
    const { history, messages } = this.#record;
    const last = history.findLast(({ role, turn }) => role === 'assistant' && turn === turnId);
    if (last?.role === 'assistant' && last.text.trim() !== '') return last.text;
    return messages.findLast(({ kind }) => kind === 'assistant')?.text ?? '';
  }

  get #record(): SessionRecord {
    return this.#deps.pool.get(this.id).session.record;
  }

  #interrupt(running: Running): void {
    const turns = this.#deps.pool.get(this.id);
    const current = turns.session.record.turn?.id;
    for (const turnId of [...running.turns]) {
      if (turnId === current) turns.interrupt('interrupted', turnId);
      else if (turns.dropQueued('interrupted', turnId) > 0) this.#unused(running, turnId);
    }
  }

  /** @param ended true: by its subagent, or because the server ends; else by others */
  #closed(ended: boolean): void {
    this.#closing = true;
    const error = ended
      ? fail('interrupted', 'the server is ending')
      : fail('session_closed', `session is closed: ${this.id}`, { session_id: this.id });
    this.#running?.done.reject(error);
    this.#removed();
    if (!ended) this.options.closed();
  }
}
