/**
 * The events of one session as updates of an editor. Holds the state of turns and calls so far.
 *
 * Replayed and live events go through the same functions. Events that are only of use at their moment (notices, live
 * output) are left out of a replay.
 */

import type { ContentBlock, SessionUpdate } from '../../acp/sdk.ts';
import type { ControlEvent } from '../../control-client/control-event.ts';
import type { SessionEventPayloads } from '../../protocol/session-events.ts';
import type { SessionSettings, SessionState, UiMessage } from '../../protocol/session-types.ts';
import { isAudio, MCP_NOTICE } from '../../protocol/session-words.ts';
import { modeOf } from './options.ts';
import { type CallFacts, callIdOf, fenced, outcomeOf, startOf } from './tool-calls.ts';

/** The shown part of a turn so far. */
interface ShownTurn {
  /** Started by this editor, which shows its prompt itself. */
  readonly own: boolean;
  /** True once its first prompt was sent. */
  prompted: boolean;
  /** The answer as it was streamed. */
  answer: string;
  /** Counts the texts between calls: an editor shows each by itself. */
  part: number;
  /** Its messages are no longer part of the session. */
  removed: boolean;
  readonly calls: Map<string, ShownCall>;
}

interface ShownCall extends CallFacts {
  /** The end of its live output. */
  output: string;
  /** The editor does not have all of `output` yet. */
  behind: boolean;
  /** The terminal of the editor in which it runs. */
  terminal?: string;
}

/** Most live output of a call that is shown, in characters: the end of it. The result has all that the session stores. */
const MAX_OUTPUT = 16 * 1024;

type Payloads = SessionEventPayloads;
/** Payloads as received: with the members that every emitter adds. */
type EventPayload<Type extends keyof Payloads> = Payloads[Type] & { readonly turn_id?: string };

export interface UpdatesOptions {
  /** Absolute. */
  readonly cwd: string;
  readonly settings: SessionSettings;
  /** The editor shows notices. */
  readonly notices: boolean;
  /** The editor shows compressions of the context. */
  readonly compactions: boolean;
}

export class SessionUpdates {
  readonly #cwd: string;
  readonly #notices: boolean;
  readonly #turns = new Map<string, ShownTurn>();
  readonly #own = new Set<string>();
  /** Messages of the session that were not replayed so far, oldest first; undefined outside of a replay. */
  #unsent: UiMessage[] | undefined;
  #mode: string;
  #size: number | undefined;
  #used = 0;
  #costUsd: number | undefined;
  #usageSent = '';
  readonly #compactions: boolean;
  /** The compression of the context that runs. */
  #compaction: string | undefined;

  constructor({ cwd, settings, notices, compactions }: UpdatesOptions) {
    this.#cwd = cwd;
    this.#notices = notices;
    this.#compactions = compactions;
    this.#mode = modeOf(settings);
  }

  /** Records that the editor has sent the prompt of this turn. */
  ownTurn(turnId: string): void {
    this.#own.add(turnId);
  }

  isOwn(turnId: string): boolean {
    return this.#own.has(turnId);
  }

  /** Starts a replay: later events are replayed. The state shows which of their messages are still part of the session. */
  startReplay({ messages }: Pick<SessionState, 'messages'>): void {
    this.#unsent = [...messages];
  }

  /** Ends a replay: later events are live. Returns the messages whose events were evicted. */
  endReplay(): SessionUpdate[] {
    const rest = this.#unsentBefore(Number.POSITIVE_INFINITY);
    this.#unsent = undefined;
    return [...rest, ...this.#usage()];
  }

  /** Returns the updates for an event. */
  of(event: ControlEvent): SessionUpdate[] {
    switch (event.type) {
      case 'session.message.appended':
        return this.#message(event.payload.message, event.payload.turn_id);
      case 'session.stream.chunk':
        return this.#streamed(event.payload);
      case 'session.tool.call.started':
        return this.#started(event.payload);
      case 'session.tool.output':
        return this.#output(event.payload);
      case 'session.tool.call.completed':
        return this.#completed(event.payload);
      case 'session.plan':
        if (this.#turn(event.payload.turn_id).removed) return [];
        return [{ sessionUpdate: 'plan', entries: event.payload.entries.map(planEntry) }];
      case 'session.work': {
        const { work, event: what, text = '', delivered } = event.payload;
        // Reports of a call are shown with the call.
        if (what !== 'ended' || delivered === true) return [];
        return this.#notice('info', `${work.kind} ${work.name}: ${text}`);
      }
      case 'session.context.estimate':
        this.#used = event.payload.total_tokens_estimate;
        this.#size = event.payload.context_window_tokens ?? this.#size;
        return this.#usage();
      case 'session.usage':
        this.#costUsd = event.payload.session_usage.cost_usd;
        return this.#usage();
      case 'session.renamed':
        return this.#replaying ? [] : [{ sessionUpdate: 'session_info_update', title: event.payload.title }];
      case 'session.configured':
        return this.#configured(event.payload.settings);
      case 'compaction.started':
        return this.#compacts(`compaction-${event.seq}`);
      case 'compaction.completed':
        return this.#compacted('completed');
      case 'compaction.failed':
        return this.#compacted('failed', event.payload.message);
      case 'session.status':
        return event.payload.detail?.retry === undefined ? [] : this.#notice('warning', event.payload.status_label);
      case 'session.completed':
      case 'session.interrupted':
      case 'session.error':
        return this.#ended(event.payload, event.timestamp);
      default:
        return [];
    }
  }

  /** Returns the live output since the last call. */
  outputs(): SessionUpdate[] {
    return [...this.#turns].flatMap(([turnId, { calls }]) =>
      [...calls].flatMap(([callId, call]): SessionUpdate[] => {
        if (!call.behind) return [];
        call.behind = false;
        const content = { type: 'text' as const, text: fenced(call.output) };
        return [
          {
            sessionUpdate: 'tool_call_update',
            toolCallId: callIdOf(turnId, callId),
            content: [{ type: 'content', content }],
          },
        ];
      }),
    );
  }

  /** Shows a terminal in the running call of this command; undefined = no such call runs. */
  inTerminal(command: readonly string[], terminalId: string): SessionUpdate | undefined {
    for (const [turnId, { calls }] of this.#turns) {
      for (const [callId, call] of calls) {
        if (call.terminal !== undefined || !runs(call.input, command)) continue;
        call.terminal = terminalId;
        const content = [{ type: 'terminal' as const, terminalId }];
        return { sessionUpdate: 'tool_call_update', toolCallId: callIdOf(turnId, callId), content };
      }
    }
    return undefined;
  }

  /** Returns a line for the user about a turn; a thought in an editor without notices. */
  warning(turnId: string, title: string): SessionUpdate {
    if (this.#notices) return { sessionUpdate: 'notice', severity: 'warning', title };
    const content = { type: 'text' as const, text: `${title}\n` };
    return { sessionUpdate: 'agent_thought_chunk', messageId: `${turnId}/warning`, content };
  }

  /** Returns the call that an approval is about, if it was sent. */
  callOf(turnId: string, callId: string): CallFacts | undefined {
    return this.#turns.get(turnId)?.calls.get(callId);
  }

  get #replaying(): boolean {
    return this.#unsent !== undefined;
  }

  #streamed({ chunk, turn_id = '' }: EventPayload<'session.stream.chunk'>): SessionUpdate[] {
    const turn = this.#turn(turn_id);
    const segments = chunk.segments ?? [{ kind: 'answer' as const, text: chunk.answerText }];
    return segments.flatMap(({ kind, text }) => {
      if (kind === 'thought') return this.#chunk('agent_thought_chunk', turn_id, text);
      turn.answer += text;
      return this.#chunk('agent_message_chunk', turn_id, text);
    });
  }

  #started({
    turn_id = '',
    data,
    tool_kind: toolKind,
    risks,
  }: EventPayload<'session.tool.call.started'>): SessionUpdate[] {
    const { name, input, callId, providerToolName: title } = data.call;
    const call: ShownCall = { name, input, title, toolKind, risks, output: '', behind: false };
    const turn = this.#turn(turn_id);
    turn.calls.set(callId, call);
    turn.part += 1;
    if (turn.removed) return [];
    const toolCallId = callIdOf(turn_id, callId);
    return [{ sessionUpdate: 'tool_call', toolCallId, status: 'in_progress', ...startOf(call, this.#cwd) }];
  }

  /** Stores output for `outputs`. */
  #output({ turn_id, call_id, text }: EventPayload<'session.tool.output'>): SessionUpdate[] {
    const call = this.#turn(turn_id).calls.get(call_id);
    if (call === undefined || this.#replaying) return [];
    call.output = (call.output + text).slice(-MAX_OUTPUT);
    call.behind = true;
    return [];
  }

  #completed({ turn_id = '', data: { executed } }: EventPayload<'session.tool.call.completed'>): SessionUpdate[] {
    const { name, ok, result, callId = '', input = {} } = executed;
    const turn = this.#turn(turn_id);
    const call: CallFacts & { readonly terminal?: string } = turn.calls.get(callId) ?? { name, input };
    const { terminal: terminalId } = call;
    const inTerminal = terminalId === undefined ? [] : [{ type: 'terminal' as const, terminalId }];
    turn.calls.delete(callId);
    if (turn.removed) return [];
    return [
      {
        sessionUpdate: 'tool_call_update',
        toolCallId: callIdOf(turn_id, callId),
        status: ok ? 'completed' : 'failed',
        // An editor still shows the output of a terminal that was released.
        content: terminalShows(inTerminal, result)
          ? inTerminal
          : [...inTerminal, ...outcomeOf(executed, call, this.#cwd)],
        rawOutput: result,
      },
    ];
  }

  #configured(settings: SessionSettings): SessionUpdate[] {
    const mode = modeOf(settings);
    if (this.#replaying || mode === this.#mode) return [];
    this.#mode = mode;
    return [{ sessionUpdate: 'current_mode_update', currentModeId: mode }];
  }

  #compacts(compactionId: string): SessionUpdate[] {
    if (!this.#compactions) return [];
    this.#compaction = compactionId;
    return [{ sessionUpdate: 'compaction_update', compactionId, status: 'in_progress' }];
  }

  #compacted(status: 'completed' | 'failed' | 'cancelled', message?: unknown): SessionUpdate[] {
    const compactionId = this.#compaction;
    this.#compaction = undefined;
    if (compactionId === undefined) return [];
    const error = typeof message === 'string' ? { error: message } : {};
    return [{ sessionUpdate: 'compaction_update', compactionId, status, ...error }];
  }

  #turn(id = ''): ShownTurn {
    let turn = this.#turns.get(id);
    if (turn === undefined) {
      turn = { own: this.#own.has(id), prompted: false, answer: '', part: 0, removed: false, calls: new Map() };
      this.#turns.set(id, turn);
    }
    return turn;
  }

  #ended({ turn_id = '' }: { readonly turn_id?: string }, updatedAt: string): SessionUpdate[] {
    this.#turns.delete(turn_id);
    this.#own.delete(turn_id);
    // A compression that was interrupted ends with its turn.
    const cancelled = this.#compacted('cancelled');
    return this.#replaying ? cancelled : [...cancelled, { sessionUpdate: 'session_info_update', updatedAt }];
  }

  #message(message: UiMessage, turnId = ''): SessionUpdate[] {
    const before = this.#replaying ? this.#unsentBefore(message.id) : [];
    const turn = this.#turn(turnId);
    if (this.#unsent !== undefined && message.unsent !== true) {
      // A message that the session no longer has removes its turn: the session was cleared, or another chat was loaded.
      if (this.#unsent[0]?.id === message.id) this.#unsent.shift();
      else if (turnId !== '') turn.removed = true;
    }
    return [...before, ...this.#messageOf(message, turn, turnId)];
  }

  #messageOf(message: UiMessage, turn: ShownTurn, turnId: string): SessionUpdate[] {
    if (turn.removed) return [];
    if (message.kind === 'system') {
      // The editor named the MCP server: it gets the notices about it even if it shows no notices.
      const isOwed = !this.#notices && !this.#replaying && message.text.startsWith(MCP_NOTICE);
      if (isOwed) return this.#chunk('agent_thought_chunk', turnId, `${message.text}\n`);
      return this.#notice('info', message.text);
    }
    if (message.kind === 'assistant') {
      // Usually empty, because the answer was streamed; else the part of the stream that a crash lost.
      const rest = message.text.startsWith(turn.answer) ? message.text.slice(turn.answer.length) : message.text;
      return this.#chunk('agent_message_chunk', turnId, rest);
    }
    const known = turn.own && !turn.prompted;
    turn.prompted = true;
    return known ? [] : chunksOf(message);
  }

  #chunk(sessionUpdate: 'agent_message_chunk' | 'agent_thought_chunk', turnId: string, text: string): SessionUpdate[] {
    const { part, removed } = this.#turn(turnId);
    if (text === '' || removed) return [];
    const messageId = `${turnId}/${sessionUpdate === 'agent_thought_chunk' ? 'thought-' : ''}${part}`;
    return [{ sessionUpdate, messageId, content: { type: 'text', text } }];
  }

  #notice(severity: 'info' | 'warning', title: string): SessionUpdate[] {
    return this.#notices && !this.#replaying ? [{ sessionUpdate: 'notice', severity, title }] : [];
  }

  /** Returns the messages whose events were evicted, or that came from another session. */
  #unsentBefore(id: number): SessionUpdate[] {
    const unsent = this.#unsent ?? [];
    const end = unsent.findIndex((message) => message.id >= id);
    return unsent.splice(0, end === -1 ? unsent.length : end).flatMap(chunksOf);
  }

  /** Returns the usage: once per change, and only if the size of the context is known. */
  #usage(): SessionUpdate[] {
    if (this.#size === undefined || this.#replaying) return [];
    const facts = {
      used: this.#used,
      size: this.#size,
      ...(this.#costUsd !== undefined && { cost: { amount: this.#costUsd, currency: 'USD' } }),
    };
    const text = JSON.stringify(facts);
    if (text === this.#usageSent) return [];
    this.#usageSent = text;
    return [{ sessionUpdate: 'usage_update', ...facts }];
  }
}

/** Returns the updates of a whole message. */
function chunksOf({ id, kind, text, images = [] }: UiMessage): SessionUpdate[] {
  if (kind === 'system') return [];
  const sessionUpdate = kind === 'user' ? ('user_message_chunk' as const) : ('agent_message_chunk' as const);
  const blocks: ContentBlock[] = [
    ...(text === '' ? [] : [{ type: 'text' as const, text }]),
    ...images.map(({ dataUrl, mimeType }) => ({
      type: isAudio(mimeType) ? ('audio' as const) : ('image' as const),
      mimeType,
      data: dataUrl.slice(dataUrl.indexOf(',') + 1),
    })),
  ];
  return blocks.map((content) => ({ sessionUpdate, messageId: `message-${id}`, content }));
}

/** Returns true if the terminal shows the whole result. */
const terminalShows = (inTerminal: readonly object[], result: unknown): boolean =>
  inTerminal.length > 0 && (result as { by?: unknown } | null | undefined)?.by === 'editor';

/** Returns true for the input of a call that runs this command. */
function runs({ command, argv }: Readonly<Record<string, unknown>>, words: readonly string[]): boolean {
  if (typeof command === 'string') return words.at(-1) === command;
  return Array.isArray(argv) && argv.length === words.length && argv.every((word, at) => word === words[at]);
}

function planEntry({ content, status, priority }: Payloads['session.plan']['entries'][number]) {
  return {
    content,
    status: oneOf(status, ['pending', 'in_progress', 'completed'] as const, 'pending'),
    priority: oneOf(priority, ['high', 'medium', 'low'] as const, 'medium'),
  };
}

const oneOf = <Word extends string>(word: string | undefined, words: readonly Word[], otherwise: Word): Word =>
  words.find((each) => each === word) ?? otherwise;
