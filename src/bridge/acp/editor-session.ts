/**
 * One session that an editor has open: its events become updates, a prompt is replied to when its turn ends, and approvals
 * are requested in the editor.
 *
 * Updates are sent in the order of the events, each when the editor has accepted the one before. A slow editor costs no
 * memory: further events stay in the server's journal.
 */

import type {
  AgentContext,
  ClientCapabilities,
  SessionConfigOption,
  SessionUpdate,
  StopReason,
} from '../../acp/sdk.ts';
import { within, withTimeout } from '../../base/race.ts';
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
import { type EditorLoan, lendEditor } from './lending.ts';
import type { EditorPrompt } from './prompt.ts';
import { SessionUpdates } from './updates.ts';

export interface EditorSessionDeps {
  readonly control: ControlClient;
  readonly client: AgentContext;
  readonly capabilities: ClientCapabilities;
  /** The session may use the files of the editor. */
  readonly lends: boolean;
  /** Aborts when the editor disconnects. */
  readonly disconnected: AbortSignal;
  /** Returns the options of the session, from its settings. */
  readonly optionsOf: (settings: SessionSettings) => Promise<SessionConfigOption[]>;
  /** Receives failures outside of a request. */
  readonly note: (line: string) => void;
}

/** A prompt of the editor without a reply. */
interface PendingPrompt {
  /** Undefined until the server has accepted it. */
  turnId: string | undefined;
  cancelled: boolean;
  readonly ended: PromiseWithResolvers<StopReason>;
}

/** Time for which a terminal waits for its call, in milliseconds. */
const CALL_SHOWN_MS = 2000;
/** Least interval between sends of live output of tools, in milliseconds. */
const OUTPUT_EVERY_MS = 100;
/** Time without an event after which a replay fails, in milliseconds. */
const REPLAY_STALL_MS = 30_000;
/** Most text that replayed pieces are joined to, in characters. */
const JOINED_CHARACTERS = 64 * 1024;
/** Bound on turns whose end is checked after a gap in the events. */
const TURNS_CHECKED = 100;

/** Stop reasons that the protocol has. All others are errors. */
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
  /** Prompts the server has not accepted yet. Events wait for them, so that the turn of an event is known. */
  readonly #sending = new Set<Promise<unknown>>();
  /** Approvals the editor shows, by id. */
  readonly #asked = new Map<string, AbortController>();
  /** Resolves when the editor has the reply that opens the session: no update may be sent before. */
  readonly #opened = Promise.withResolvers<void>();
  readonly #commands = new Set<AbortController>();
  /** Resolves when the editor was sent the next call of a tool. */
  #called = Promise.withResolvers<void>();
  #outputTimer: NodeJS.Timeout | undefined;
  /** Reason why its events cannot be read any more. */
  #failed: HandfastError | undefined;

  constructor(state: SessionState, parts: EditorSessionDeps) {
    this.id = state.id;
    this.cwd = state.cwd;
    this.#parts = parts;
    this.#state = state;
    const { notices, compaction } = parts.capabilities.session ?? {};
    const shown = { notices: notices != null, compactions: compaction != null };
    this.#updates = new SessionUpdates({ cwd: state.cwd, settings: state.settings, ...shown });
  }

  /** True while a prompt of the editor has no reply. */
  get busy(): boolean {
    return this.#prompts.size > 0;
  }

  /** Follows the session from now on. */
  follow(): void {
    for (const approval of this.#state.approvals) if (approval.state === 'pending') void this.#ask(approval);
    void this.#read(this.#state.seq, undefined);
  }

  /** Sends the whole conversation, then follows the session. Rejects when the stored events cannot be read. */
  async replay(): Promise<void> {
    if (this.#state.seq === 0) return this.follow();
    const replayed = Promise.withResolvers<void>();
    const { messages_cursor, messages_after_seq = 0 } = this.#state;
    // Of a long conversation the newest part.
    void this.#read(typeof messages_cursor === 'string' ? messages_after_seq : 0, replayed);
    await replayed.promise;
  }

  /** Records that the reply is sent: updates may follow. */
  opened(): void {
    this.#opened.resolve();
    const { control, client, capabilities, lends, note } = this.#parts;
    const { title, updatedAt } = this.#state;
    // Later titles arrive as events; this one was known before.
    if (title !== '') this.notify({ sessionUpdate: 'session_info_update', title, updatedAt }).catch(() => {});
    if (!lends) return;
    const showTerminal: EditorLoan['showTerminal'] = (command, id) => this.#showTerminal(command, id);
    const loan = { sessionId: this.id, cwd: this.cwd, control, client, capabilities, showTerminal, note };
    void lendEditor(loan, this.#stop.signal);
  }

  /** Stops following the session; its turns continue. Prompts without a reply get `cancelled`. */
  close(): void {
    this.#stop.abort();
    this.#opened.resolve();
    clearTimeout(this.#outputTimer);
    for (const stop of this.#asked.values()) stop.abort();
    for (const command of this.#commands) command.abort();
    for (const { ended } of this.#prompts) ended.resolve('cancelled');
  }

  /** Sends updates, in the order of the calls. Resolves when the editor has accepted them. */
  async notify(...updates: readonly SessionUpdate[]): Promise<void> {
    const { client } = this.#parts;
    await Promise.all(updates.map((update) => client.notify('session/update', { sessionId: this.id, update })));
  }

  /**
   * Sends a prompt, which is queued while another turn runs; resolves when its turn has ended. Rejects when the server does
   * not accept it, and with the failure of the turn.
   *
   * @param signal cancels it: a queued prompt is dropped, a running turn interrupted
   */
  async prompt({ text, images, leftOut }: EditorPrompt, signal: AbortSignal): Promise<StopReason> {
    const prompt: PendingPrompt = { turnId: undefined, cancelled: false, ended: Promise.withResolvers() };
    if (this.#failed !== undefined) throw this.#failed;
    this.#prompts.add(prompt);
    const cancel = (): void => {
      // A lost connection is no cancel: turns of the editor continue.
      if (!this.#parts.disconnected.aborted) void this.#cancel([prompt]);
    };
    signal.addEventListener('abort', cancel, { once: true });
    try {
      const sent = this.#parts.control.send({ session_id: this.id, text, images, enqueue: true });
      const accepted = sent.then(({ turn_id }) => {
        prompt.turnId = turn_id;
        this.#updates.ownTurn(turn_id);
      });
      this.#sending.add(accepted);
      await accepted.finally(() => this.#sending.delete(accepted));
      if (prompt.cancelled) void this.#cancel([prompt]);
      for (const line of leftOut) await this.notify(this.#updates.warning(prompt.turnId ?? '', line));
      return await prompt.ended.promise;
    } catch (error) {
      if (prompt.cancelled && prompt.turnId === undefined) return 'cancelled';
      throw error;
    } finally {
      signal.removeEventListener('abort', cancel);
      this.#prompts.delete(prompt);
    }
  }

  /** Runs a slash command; undefined when it was cancelled. */
  async command(raw_command: string, signal: AbortSignal): Promise<{ readonly output?: unknown } | undefined> {
    const stop = new AbortController();
    this.#commands.add(stop);
    try {
      // `/compress` asks a model, which may take minutes.
      const options = { timeoutMs: 0, signal: AbortSignal.any([signal, stop.signal]) };
      return await this.#parts.control.rpc.commandExecute({ session_id: this.id, raw_command }, options);
    } catch (error) {
      if (stop.signal.aborted || signal.aborted) return undefined;
      throw error;
    } finally {
      this.#commands.delete(stop);
    }
  }

  /** Cancels the prompts and commands of the editor; without any, the running turn. Never rejects. */
  async cancel(): Promise<void> {
    for (const command of this.#commands) command.abort();
    if (this.#commands.size > 0 && this.#prompts.size === 0) return;
    if (this.#prompts.size > 0) return this.#cancel([...this.#prompts]);
    await this.#tried(this.#parts.control.rpc.sessionInterrupt({ session_id: this.id }));
  }

  /** Drops the queued ones first, so that none of them starts when the running one ends. */
  async #cancel(prompts: readonly PendingPrompt[]): Promise<void> {
    const { rpc } = this.#parts.control;
    for (const prompt of prompts) prompt.cancelled = true;
    const turns = prompts.flatMap(({ turnId }) => turnId ?? []);
    const drops = turns.map((turn_id) => rpc.queueRemove({ session_id: this.id, turn_id }));
    const stops = turns.map((turn_id) => rpc.sessionInterrupt({ session_id: this.id, turn_id }));
    await Promise.all([...drops, ...stops].map((call) => this.#tried(call)));
  }

  /** Awaits a call and reports its failure. */
  async #tried(call: Promise<unknown>): Promise<void> {
    try {
      await call;
    } catch (error) {
      this.#note(error);
    }
  }

  #note(error: unknown, what = ''): void {
    const { disconnected, note } = this.#parts;
    if (!disconnected.aborted && !this.#stop.signal.aborted)
      note(`session ${this.id}: ${what}${asError(error).message}`);
  }

  /** Reads events until the session is closed here. `replayed` settles when the stored ones were sent. Never rejects. */
  async #read(afterSeq: number, replayed: PromiseWithResolvers<void> | undefined): Promise<void> {
    const { signal } = this.#stop;
    try {
      const events = this.#parts.control.events({ sessionId: this.id, afterSeq, signal });
      if (replayed !== undefined) await this.#replay(afterSeq, events);
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

  /** Sends the stored events. Text is sent in larger pieces than it was received in. */
  async #replay(from: number, events: AsyncIterator<ControlEvent | EventGap, void>): Promise<void> {
    const { seq: last } = this.#state;
    const pending = new Map<string, Approval>();
    let pendingUpdate: SessionUpdate | undefined;
    const notify = async (updates: readonly SessionUpdate[]): Promise<void> => {
      for (const update of updates) {
        const joined = pendingUpdate && joinedText(pendingUpdate, update);
        if (joined === undefined && pendingUpdate !== undefined) await this.notify(pendingUpdate);
        pendingUpdate = joined ?? update;
      }
    };
    this.#updates.startReplay(this.#state);
    for (let at = from; at < last; ) {
      const { value: event, done } = await withinStall(events.next());
      if (done) throw fail('cancelled', 'the session was closed');
      if (event.type === 'gap') {
        at = event.to;
        continue;
      }
      at = event.seq;
      if (event.type === 'approval.requested') pending.set(event.payload.approval.id, event.payload.approval);
      if (event.type === 'approval.resolved') pending.delete(event.payload.approval.id);
      await notify(this.#updates.of(event));
    }
    await notify(this.#updates.endReplay());
    if (pendingUpdate !== undefined) await this.notify(pendingUpdate);
    for (const approval of pending.values()) void this.#ask(approval);
  }

  async #happened(event: ControlEvent): Promise<void> {
    if (event.type === 'approval.requested') void this.#ask(event.payload.approval);
    if (event.type === 'approval.resolved') this.#asked.get(event.payload.approval.id)?.abort();
    await this.notify(...this.#updates.of(event));
    switch (event.type) {
      case 'session.tool.call.started':
        this.#called.resolve();
        this.#called = Promise.withResolvers();
        return;
      case 'session.tool.output':
        return this.#outputSoon();
      case 'session.configured': {
        const configOptions = await this.#parts.optionsOf(event.payload.settings);
        return this.notify({ sessionUpdate: 'config_option_update', configOptions });
      }
      case 'session.completed':
      case 'session.interrupted':
      case 'session.error':
        return this.#ended(event.payload);
    }
  }

  /** Shows a terminal with its call, whose event may still be on its way. */
  async #showTerminal(command: readonly string[], terminalId: string): Promise<void> {
    const until = performance.now() + CALL_SHOWN_MS;
    for (;;) {
      const update = this.#updates.inTerminal(command, terminalId);
      if (update !== undefined) return this.notify(update);
      const leftMs = until - performance.now();
      if (leftMs <= 0 || this.#stop.signal.aborted) return;
      await within(this.#called.promise, leftMs);
    }
  }

  /**
   * Schedules updates of output. Output arrives in many small pieces, and each update holds the whole shown text: so
   * updates are limited in rate.
   */
  #outputSoon(): void {
    this.#outputTimer ??= setTimeout(() => {
      this.#outputTimer = undefined;
      this.notify(...this.#updates.outputs()).catch(() => {});
    }, OUTPUT_EVERY_MS);
  }

  #ended(end: {
    readonly turn_id?: string;
    readonly stop_reason: OurStopReason;
    readonly message?: string;
    readonly kind?: string;
    readonly retryable?: boolean;
    readonly reason?: string;
  }): void {
    const { turn_id: turnId, stop_reason: reason, message, kind, retryable, reason: refusal } = end;
    const prompt = [...this.#prompts].find((each) => each.turnId !== undefined && each.turnId === turnId);
    if (prompt === undefined) return;
    const stopReason = STOP_REASONS[reason];
    if (stopReason !== undefined) return prompt.ended.resolve(stopReason);
    const detail = { session_id: this.id, turn_id: turnId, stop_reason: reason };
    if (reason === 'error') {
      const why = refusal === undefined ? detail : { ...detail, reason: refusal };
      const options = { detail: why, ...(retryable !== undefined && { retryable }) };
      return prompt.ended.reject(new HandfastError(kind ?? 'runtime_error', message ?? 'the turn failed', options));
    }
    const isLate = reason === 'timeout';
    const why = isLate ? 'the turn exceeded its time limit' : 'the server ended while the turn ran';
    prompt.ended.reject(fail(isLate ? 'timeout' : 'interrupted', why, detail));
  }

  /** Events were lost, perhaps with the end of a turn. */
  async #afterGap(): Promise<void> {
    const { turns } = await this.#parts.control.rpc.sessionTurns({ session_id: this.id, limit: TURNS_CHECKED });
    for (const { turn_id, stop_reason } of turns) if (stop_reason !== null) this.#ended({ turn_id, stop_reason });
  }

  /** Requests an approval in the editor. The first answer of any client decides. Never rejects. */
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
          // No other client waits to approve a call of this editor's turn.
          return isOwn ? deny : 'dismissed';
        },
      );
      if (stop.signal.aborted) return;
      if (answer === 'dismissed') {
        // Editors dismiss the question of a cancelled turn. A turn of another client is not theirs to end.
        if (isOwn) await control.rpc.sessionInterrupt({ session_id: this.id, turn_id: turnId });
        return;
      }
      if (answer === 'unable') {
        if (!isOwn) return;
        await this.notify(unansweredQuestion(approval));
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

/** Shows the user a question that the editor cannot ask, so that the next prompt can answer it. */
function unansweredQuestion({ id, title }: Approval): SessionUpdate {
  const text = `\n\n> The agent asks: ${title.replaceAll('\n', '\n> ')}\n>\n> This editor cannot show the question, so the agent continues without an answer. Answer with your next prompt.\n\n`;
  return { sessionUpdate: 'agent_message_chunk', messageId: `question-${id}`, content: { type: 'text', text } };
}

/** Joins two pieces of one message; undefined for pieces of two messages, and past the length limit. */
function joinedText(one: SessionUpdate, next: SessionUpdate): SessionUpdate | undefined {
  if (one.sessionUpdate !== next.sessionUpdate || !('messageId' in one) || !('messageId' in next)) return undefined;
  if (one.messageId !== next.messageId || one.content.type !== 'text' || next.content.type !== 'text') return undefined;
  if (one.content.text.length > JOINED_CHARACTERS) return undefined;
  return { ...one, content: { type: 'text', text: one.content.text + next.content.text } };
}

/** Runs a step of a replay, within its timeout. */
function withinStall<T>(step: Promise<T>): Promise<T> {
  return withTimeout(step, REPLAY_STALL_MS, () => fail('timeout', 'the stored events of the session did not arrive'));
}
