/**
 * One session as an editor has it open: its events become updates, its prompts are held until their turns end, and what
 * is asked is asked in the editor. Made by `acp-agent.ts`.
 *
 * Updates leave in the order of the events, each when the editor has taken the one before; a slow editor costs no memory,
 * because the events that wait stay in the server's journal.
 */

import type {
  AgentContext,
  ClientCapabilities,
  SessionConfigOption,
  SessionUpdate,
  StopReason,
} from '../../acp/sdk.ts';
import { withTimeout } from '../../base/race.ts';
import type { ControlClient } from '../../control-client/control.ts';
import type { ControlEvent, EventGap } from '../../control-client/control-event.ts';
import type {
  Approval,
  StopReason as OurStopReason,
  SessionSettings,
  SessionState,
} from '../../protocol/session-types.ts';
import { asError, fail, HandfastError } from '../../wire/errors.ts';
import { ask } from './asking.ts';
import type { EditorPrompt } from './prompt.ts';
import { SessionUpdates } from './updates.ts';

export interface EditorSessionDeps {
  readonly control: ControlClient;
  readonly client: AgentContext;
  readonly capabilities: ClientCapabilities;
  /** Aborted when the editor is gone. */
  readonly gone: AbortSignal;
  /** What may be set for the session, out of its settings. */
  readonly optionsOf: (settings: SessionSettings) => Promise<SessionConfigOption[]>;
  /** Told what goes wrong where nobody waits for an answer. */
  readonly note: (line: string) => void;
}

/** A prompt of the editor's that was not answered yet. */
interface PendingPrompt {
  /** Undefined until the server has taken it. */
  turnId: string | undefined;
  cancelled: boolean;
  readonly ended: PromiseWithResolvers<StopReason>;
}

/** How often live output of tools is sent at most, in milliseconds. */
const OUTPUT_EVERY_MS = 100;
/** Time without an event after which a replay is given up, in milliseconds. */
const REPLAY_STALL_MS = 30_000;
/** Most text that replayed pieces are joined to, in characters. */
const JOINED_CHARACTERS = 64 * 1024;
/** Turns looked at when events are gone. */
const TURNS_LOOKED_AT = 100;

/** Endings that are an answer of the protocol. All others are errors. */
const STOP_REASONS: Partial<Record<OurStopReason, StopReason>> = {
  end_turn: 'end_turn',
  max_tokens: 'max_tokens',
  max_rounds: 'max_turn_requests',
  refusal: 'refusal',
  interrupted: 'cancelled',
  cleared: 'cancelled',
  closed: 'cancelled',
  shutdown: 'cancelled',
};

export class EditorSession {
  readonly id: string;
  /** Absolute. */
  readonly cwd: string;
  readonly #parts: EditorSessionDeps;
  readonly #state: SessionState;
  readonly #updates: SessionUpdates;
  readonly #stop = new AbortController();
  readonly #prompts = new Set<PendingPrompt>();
  /** Prompts the server has not taken yet: events wait for them, so that it is known whose turn they tell of. */
  readonly #sending = new Set<Promise<unknown>>();
  /** Questions the editor shows, by approval. */
  readonly #asked = new Map<string, AbortController>();
  /** Resolves when the editor knows that it has the session: nothing that happens now may be told before. */
  readonly #opened = Promise.withResolvers<void>();
  readonly #commands = new Set<AbortController>();
  #outputTimer: NodeJS.Timeout | undefined;
  /** Why its events cannot be read any more. */
  #failed: HandfastError | undefined;

  constructor(state: SessionState, parts: EditorSessionDeps) {
    this.id = state.id;
    this.cwd = state.cwd;
    this.#parts = parts;
    this.#state = state;
    const notices = parts.capabilities.session?.notices != null;
    this.#updates = new SessionUpdates({ cwd: state.cwd, settings: state.settings, notices });
  }

  /** True while a prompt of the editor's has no answer. */
  get busy(): boolean {
    return this.#prompts.size > 0;
  }

  /** Follows the session from now on. */
  follow(): void {
    for (const approval of this.#state.approvals) if (approval.state === 'pending') void this.#ask(approval);
    void this.#read(this.#state.seq, undefined);
  }

  /** Tells the whole conversation, then follows the session. Rejects when its past cannot be read. */
  async replay(): Promise<void> {
    if (this.#state.seq === 0) return this.follow();
    const replayed = Promise.withResolvers<void>();
    void this.#read(0, replayed);
    await replayed.promise;
  }

  /** The editor was answered: what happens from now on may be told. */
  opened(): void {
    this.#opened.resolve();
  }

  /** Forgets the session; its turns go on. Prompts without an answer are answered as cancelled. */
  close(): void {
    this.#stop.abort();
    this.#opened.resolve();
    clearTimeout(this.#outputTimer);
    for (const stop of this.#asked.values()) stop.abort();
    for (const command of this.#commands) command.abort();
    for (const { ended } of this.#prompts) ended.resolve('cancelled');
  }

  /** Sends updates, in the order of the calls. Resolves when the editor has taken them. */
  async tell(...updates: readonly SessionUpdate[]): Promise<void> {
    const { client } = this.#parts;
    await Promise.all(updates.map((update) => client.notify('session/update', { sessionId: this.id, update })));
  }

  /**
   * Sends a prompt, which waits while another turn runs; resolves when its turn has ended. Rejects when the server does
   * not take it, and with what the turn failed with.
   *
   * @param signal gives it up: what waits is dropped, what runs is interrupted
   */
  async prompt({ text, images }: EditorPrompt, signal: AbortSignal): Promise<StopReason> {
    const prompt: PendingPrompt = { turnId: undefined, cancelled: false, ended: Promise.withResolvers() };
    if (this.#failed !== undefined) throw this.#failed;
    this.#prompts.add(prompt);
    const giveUp = (): void => {
      // An editor that is gone has not asked for an end: what it began goes on.
      if (!this.#parts.gone.aborted) void this.#cancel([prompt]);
    };
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      const sent = this.#parts.control.send({ session_id: this.id, text, images, enqueue: true });
      const taken = sent.then(({ turn_id }) => {
        prompt.turnId = turn_id;
        this.#updates.ownTurn(turn_id);
      });
      this.#sending.add(taken);
      await taken.finally(() => this.#sending.delete(taken));
      if (prompt.cancelled) void this.#cancel([prompt]);
      return await prompt.ended.promise;
    } catch (error) {
      if (prompt.cancelled && prompt.turnId === undefined) return 'cancelled';
      throw error;
    } finally {
      signal.removeEventListener('abort', giveUp);
      this.#prompts.delete(prompt);
    }
  }

  /** Runs a slash command; undefined when it was given up. */
  async command(raw_command: string, signal: AbortSignal): Promise<{ readonly output?: unknown } | undefined> {
    const stop = new AbortController();
    this.#commands.add(stop);
    try {
      // Making room in the context asks a model, which takes its time.
      const options = { timeoutMs: 0, signal: AbortSignal.any([signal, stop.signal]) };
      return await this.#parts.control.rpc.commandExecute({ session_id: this.id, raw_command }, options);
    } catch (error) {
      if (stop.signal.aborted || signal.aborted) return undefined;
      throw error;
    } finally {
      this.#commands.delete(stop);
    }
  }

  /** Ends what the editor has asked for; with nothing of its own, the turn that runs. Never rejects. */
  async cancel(): Promise<void> {
    for (const command of this.#commands) command.abort();
    if (this.#commands.size > 0 && this.#prompts.size === 0) return;
    if (this.#prompts.size > 0) return this.#cancel([...this.#prompts]);
    await this.#tried(this.#parts.control.rpc.sessionInterrupt({ session_id: this.id }));
  }

  /** Drops those that wait first, so that none of them begins when the running one ends. */
  async #cancel(prompts: readonly PendingPrompt[]): Promise<void> {
    const { rpc } = this.#parts.control;
    for (const prompt of prompts) prompt.cancelled = true;
    const turns = prompts.flatMap(({ turnId }) => turnId ?? []);
    const drops = turns.map((turn_id) => rpc.queueRemove({ session_id: this.id, turn_id }));
    const stops = turns.map((turn_id) => rpc.sessionInterrupt({ session_id: this.id, turn_id }));
    await Promise.all([...drops, ...stops].map((call) => this.#tried(call)));
  }

  /** A call whose failure changes nothing here. */
  async #tried(call: Promise<unknown>): Promise<void> {
    try {
      await call;
    } catch (error) {
      this.#note(error);
    }
  }

  #note(error: unknown, what = ''): void {
    const { gone, note } = this.#parts;
    if (!gone.aborted && !this.#stop.signal.aborted) note(`session ${this.id}: ${what}${asError(error).message}`);
  }

  /** Reads events until the session is closed here. `replayed` is told when those of the past were sent. Never rejects. */
  async #read(afterSeq: number, replayed: PromiseWithResolvers<void> | undefined): Promise<void> {
    const { signal } = this.#stop;
    try {
      const events = this.#parts.control.events({ sessionId: this.id, afterSeq, signal });
      if (replayed !== undefined) await this.#replay(events);
      replayed?.resolve();
      await this.#opened.promise;
      for await (const event of events) {
        while (this.#sending.size > 0) await Promise.allSettled(this.#sending);
        if (event.type === 'gap') await this.#afterGap();
        else await this.#happened(event);
      }
    } catch (thrown) {
      const error = asError(thrown);
      this.#failed = error;
      replayed?.reject(error);
      if (signal.aborted) return;
      this.#note(error);
      for (const { ended } of this.#prompts) ended.reject(error);
    }
  }

  /** Tells what is stored. Text is sent in larger pieces than it once came in. */
  async #replay(events: AsyncIterator<ControlEvent | EventGap, void>): Promise<void> {
    const { seq: last } = this.#state;
    const pending = new Map<string, Approval>();
    let held: SessionUpdate | undefined;
    const tell = async (updates: readonly SessionUpdate[]): Promise<void> => {
      for (const update of updates) {
        const joined = held && joinedText(held, update);
        if (joined === undefined && held !== undefined) await this.tell(held);
        held = joined ?? update;
      }
    };
    this.#updates.beginReplay(this.#state);
    for (let at = 0; at < last; ) {
      const { value: event, done } = await withinStall(events.next());
      if (done) throw fail('cancelled', 'the session was closed');
      if (event.type === 'gap') {
        at = event.to;
        continue;
      }
      at = event.seq;
      if (event.type === 'approval.requested') pending.set(event.payload.approval.id, event.payload.approval);
      if (event.type === 'approval.resolved') pending.delete(event.payload.approval.id);
      await tell(this.#updates.of(event));
    }
    await tell(this.#updates.endReplay());
    if (held !== undefined) await this.tell(held);
    for (const approval of pending.values()) void this.#ask(approval);
  }

  async #happened(event: ControlEvent): Promise<void> {
    if (event.type === 'approval.requested') void this.#ask(event.payload.approval);
    if (event.type === 'approval.resolved') this.#asked.get(event.payload.approval.id)?.abort();
    await this.tell(...this.#updates.of(event));
    switch (event.type) {
      case 'session.tool.output':
        return this.#outputSoon();
      case 'session.configured': {
        const configOptions = await this.#parts.optionsOf(event.payload.settings);
        return this.tell({ sessionUpdate: 'config_option_update', configOptions });
      }
      case 'session.completed':
      case 'session.interrupted':
      case 'session.error':
        return this.#ended(event.payload);
    }
  }

  /** Output comes in many small pieces, and each update of it holds all that is shown. */
  #outputSoon(): void {
    this.#outputTimer ??= setTimeout(() => {
      this.#outputTimer = undefined;
      this.tell(...this.#updates.outputs()).catch(() => {});
    }, OUTPUT_EVERY_MS);
  }

  #ended(end: {
    readonly turn_id?: string;
    readonly stop_reason: OurStopReason;
    readonly message?: string;
    readonly kind?: string;
    readonly retryable?: boolean;
  }): void {
    const { turn_id: turnId, stop_reason: reason, message, kind, retryable } = end;
    const prompt = [...this.#prompts].find((each) => each.turnId !== undefined && each.turnId === turnId);
    if (prompt === undefined) return;
    const stopReason = STOP_REASONS[reason];
    if (stopReason !== undefined) return prompt.ended.resolve(stopReason);
    const detail = { session_id: this.id, turn_id: turnId, stop_reason: reason };
    if (reason === 'error') {
      const options = { detail, ...(retryable !== undefined && { retryable }) };
      return prompt.ended.reject(new HandfastError(kind ?? 'runtime_error', message ?? 'the turn failed', options));
    }
    const isLate = reason === 'timeout';
    const why = isLate ? 'the turn took longer than it may' : 'the server ended while the turn ran';
    prompt.ended.reject(fail(isLate ? 'timeout' : 'interrupted', why, detail));
  }

  /** Events were lost, and the end of a turn may have been among them. */
  async #afterGap(): Promise<void> {
    const { turns } = await this.#parts.control.rpc.sessionTurns({ session_id: this.id, limit: TURNS_LOOKED_AT });
    for (const { turn_id, stop_reason } of turns) if (stop_reason !== null) this.#ended({ turn_id, stop_reason });
  }

  /** Has a question answered in the editor. Whoever answers first decides. Never rejects. */
  async #ask(approval: Approval): Promise<void> {
    const { client, capabilities, control } = this.#parts;
    if (this.#asked.has(approval.id) || this.#stop.signal.aborted) return;
    const stop = new AbortController();
    this.#asked.set(approval.id, stop);
    const { turn_id: turnId, tool } = approval;
    const call = tool && this.#updates.callOf(turnId, tool.call_id);
    const deny = { decision: 'deny', remember: 'once' } as const;
    try {
      await this.#opened.promise;
      const isOwn = this.#updates.isOwn(turnId);
      let answer = await ask(approval, { client, capabilities, cwd: this.cwd, call, signal: stop.signal }).catch(
        (error): typeof deny | 'dismissed' => {
          if (stop.signal.aborted) return 'dismissed';
          this.#note(error, 'the editor could not ask: ');
          // Nobody else is there to say yes to what this editor began.
          return isOwn ? deny : 'dismissed';
        },
      );
      if (stop.signal.aborted) return;
      if (answer === 'dismissed') {
        // The protocol has this answer for turns that were cancelled; what others began is theirs to end.
        if (isOwn) await control.rpc.sessionInterrupt({ session_id: this.id, turn_id: turnId });
        return;
      }
      if (answer === 'unable') {
        if (!isOwn) return;
        await this.tell(unansweredQuestion(approval));
        answer = deny;
      }
      await control.rpc.approvalAnswer({ approval_id: approval.id, ...answer });
    } catch (error) {
      if (!stop.signal.aborted) this.#note(error);
    } finally {
      this.#asked.delete(approval.id);
    }
  }
}

/** Tells the user what could not be asked, so that it can be answered with the next prompt. */
function unansweredQuestion({ id, title }: Approval): SessionUpdate {
  const text = `\n\n> The agent asks: ${title.replaceAll('\n', '\n> ')}\n>\n> This editor cannot show the question, so the agent goes on without an answer. Answer with your next prompt.\n\n`;
  return { sessionUpdate: 'agent_message_chunk', messageId: `question-${id}`, content: { type: 'text', text } };
}

/** Two pieces of one message as one; undefined when they are not, or are long enough. */
function joinedText(one: SessionUpdate, next: SessionUpdate): SessionUpdate | undefined {
  if (one.sessionUpdate !== next.sessionUpdate || !('messageId' in one) || !('messageId' in next)) return undefined;
  if (one.messageId !== next.messageId || one.content.type !== 'text' || next.content.type !== 'text') return undefined;
  if (one.content.text.length > JOINED_CHARACTERS) return undefined;
  return { ...one, content: { type: 'text', text: one.content.text + next.content.text } };
}

/** A step of a replay, within its time. */
function withinStall<T>(step: Promise<T>): Promise<T> {
  return withTimeout(step, REPLAY_STALL_MS, () => fail('timeout', 'the stored events of the session did not arrive'));
}
