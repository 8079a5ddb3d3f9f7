/**
 * Turns the reports of a working agent, every `session/update` of a running prompt, into the events and the history of a turn;
 * kinds it does not know are left to the debug log.
 *
 * The protocol knows no rounds. A round here is a text of the agent, with the calls it makes before its next text: so the
 * history of such a turn reads like that of any other.
 */
import type { ContentBlock } from '../../../acp/sdk.ts';
import {
  inputOf,
  merged,
  nameOf,
  readFields,
  resultOf,
  risksOf,
  type ToolFields,
  textOf,
  wordsOf,
} from '../../../acp/tool-facts.ts';
import type { ToolDone } from '../../../protocol/session-types.ts';
import { NO_USAGE } from '../../../protocol/session-types.ts';
import type { Turn } from '../../contract/backend.ts';
import { type HistoryItem, toolItem } from '../../contract/session-log.ts';

/** Maximum number of characters of terminals' output that a result holds. */
const MAX_PRINTED_CHARACTERS = 32 * 1024;

/** A call of the agent's. */
export interface AgentCall {
  /** Made by this host: unique in the turn. */
  readonly callId: string;
  fields: ToolFields;
  /** The round it was sent in; 0 = not sent yet. */
  round: number;
  startedAt: number;
  /** The text sent so far, without the text of terminals. */
  output: string;
  /** The newest output of the terminals it shows. */
  printed: string;
  done: ToolDone | undefined;
}

/** Updates that are about the agent's session rather than about the turn. */
export interface SessionChanges {
  mode(id: string): void;
  options(options: unknown): void;
  /** Notes that the agent named its session. */
  title(title: string): void;
  /** Takes the cost of the whole session so far; returns the increase. */
  cost(totalUsd: number): number;
}

type Update = Readonly<Record<string, unknown>> & { readonly sessionUpdate?: string };

export class TurnUpdates {
  readonly #turn: Turn;
  readonly #session: SessionChanges;
  readonly #now: () => number;
  /** The newest call of each id of the agent. */
  readonly #byId = new Map<string, AgentCall>();
  /** Output of terminals that no call shows yet, by terminal. */
  readonly #unshown = new Map<string, string>();
  #round = 1;
  #text = '';
  #reasoning = '';
  /** The calls of this round that were sent, in order. */
  #calls: AgentCall[] = [];
  #made = 0;

  constructor(turn: Turn, session: SessionChanges, now: () => number = () => performance.now()) {
    this.#turn = turn;
    this.#session = session;
    this.#now = now;
  }

  /** Handles one update. Never throws for any input of an agent. */
  take(value: unknown): void {
    const update = (typeof value === 'object' && value !== null ? value : {}) as Update;
    switch (update.sessionUpdate) {
      case 'agent_message_chunk':
        return this.#answer(update.content as ContentBlock);
      case 'agent_thought_chunk':
        return this.#think(update.content as ContentBlock);
      case 'tool_call':
      case 'tool_call_update':
        return this.#tool(update as ToolFields, update.sessionUpdate === 'tool_call');
      case 'plan':
        return this.#plan(update.entries);
      case 'usage_update':
        return this.#usage(update);
      case 'current_mode_update':
        if (typeof update.currentModeId === 'string') this.#session.mode(update.currentModeId);
        return;
      case 'config_option_update':
        return this.#session.options(update.configOptions);
      case 'session_info_update':
        if (typeof update.title === 'string') this.#session.title(update.title);
        return;
      default:
        this.#turn.debug(`acp.${update.sessionUpdate ?? 'update'}`, update);
    }
  }

  /** Returns the call a permission request is about, sent now if it was not yet. */
  asked(request: ToolFields): AgentCall {
    const fields = readFields(request);
    const call = this.#call(fields, false);
    call.fields = merged(call.fields, { ...fields, status: call.fields.status ?? fields.status });
    this.#start(call);
    return call;
  }

  /** Notes that a terminal of the turn has printed: the call that shows it has output. */
  printed(terminalId: string, text: string): void {
    const call = [...this.#byId.values()].find(
      (each) => each.round !== 0 && terminalsOf(each.fields).includes(terminalId),
    );
    if (call === undefined) this.#unshown.set(terminalId, newest((this.#unshown.get(terminalId) ?? '') + text));
    else if (call.done === undefined) this.#print(call, text);
  }

  /** Ends the turn: calls without a result end with `why`, and the text goes into the history. */
  finish(why: string): void {
    for (const call of this.#byId.values()) {
      if (call.done !== undefined || (call.round === 0 && call.fields.status === 'pending')) continue;
      this.#start(call);
      this.#end(call, why);
    }
    this.#flush();
  }

  #answer(content: ContentBlock | undefined): void {
    const text = wordsOf(content);
    if (text === '') return;
    this.#next();
    this.#text += text;
    this.#turn.answer(text);
  }

  #think(content: ContentBlock | undefined): void {
    const text = wordsOf(content);
    if (text === '') return;
    this.#next();
    this.#reasoning += text;
    this.#turn.thought(text);
  }

  #tool(fields: ToolFields, isNew: boolean): void {
    if (typeof fields.toolCallId !== 'string') return;
    const call = this.#call(fields, isNew);
    if (call.done !== undefined) return;
    call.fields = merged(call.fields, readFields(fields));
    const { status } = call.fields;
    // A pending call's input is often still being written; it is sent when it runs, or when its approval is requested.
    if ((status ?? 'pending') === 'pending' && call.round === 0) return;
    this.#start(call);
    this.#output(call);
    if (status === 'completed') this.#end(call);
    else if (status === 'failed') this.#end(call, textOf(call.fields.content) || 'the tool failed');
  }

  #call({ toolCallId = '' }: ToolFields, isNew: boolean): AgentCall {
    const known = this.#byId.get(toolCallId);
    if (known !== undefined && !(isNew && known.done !== undefined)) return known;
    this.#made++;
    // An agent that uses an id twice still gets two calls.
    const callId = known === undefined && toolCallId !== '' ? toolCallId : `${toolCallId || 'call'}_${this.#made}`;
    const call: AgentCall = { callId, fields: {}, round: 0, startedAt: 0, output: '', printed: '', done: undefined };
    this.#byId.set(toolCallId, call);
    return call;
  }

  #start(call: AgentCall): void {
    if (call.round !== 0) return;
    call.round = this.#round;
    call.startedAt = this.#now();
    this.#calls.push(call);
    const { fields, callId } = call;
    const name = nameOf(fields);
    const started = { name, input: inputOf(fields), providerToolName: fields.title || name, callId };
    this.#turn.toolStarted(this.#round, started, {
      toolKind: fields.kind ?? undefined,
      risks: risksOf(fields.kind ?? undefined),
    });
  }

  /** Contents come whole with each update: the text behind the earlier text is new. */
  #output(call: AgentCall): void {
    for (const terminalId of terminalsOf(call.fields)) {
      const printed = this.#unshown.get(terminalId);
      this.#unshown.delete(terminalId);
      if (printed !== undefined) this.#print(call, printed);
    }
    const text = textOf(call.fields.content);
    if (text === call.output) return;
    const added = text.startsWith(call.output) ? text.slice(call.output.length) : text;
    call.output = text;
    if (added !== '') this.#turn.toolOutput(call.callId, 'output', added);
  }

  #print(call: AgentCall, text: string): void {
    call.printed = newest(call.printed + text);
    this.#turn.toolOutput(call.callId, 'output', text);
  }

  #end(call: AgentCall, error?: string): void {
    const { callId, printed } = call;
    const fields = printed === '' ? call.fields : withText(call.fields, printed);
    const name = nameOf(fields);
    const ok = error === undefined;
    call.done = { name, ok, input: inputOf(fields), result: resultOf(fields), ...(!ok && { error }), callId };
    this.#turn.toolDone(call.round, call.done, Math.round(this.#now() - call.startedAt));
  }

  /** Prepares for text of the agent: if its calls have ended, a new round starts. */
  #next(): void {
    if (this.#calls.length > 0 && this.#calls.every(({ done }) => done !== undefined)) this.#flush();
  }

  /** Remembers the round. Everything in it was streamed before. */
  #flush(): void {
    const { id: turn } = this.#turn;
    const done = this.#calls.flatMap(({ done }) => (done === undefined ? [] : [done]));
    if (this.#text === '' && done.length === 0) return;
    const calls = done.map(({ callId = '', name, input = {} }) => ({ callId, name, input }));
    const items: HistoryItem[] = [
      {
        role: 'assistant',
        turn,
        text: this.#text,
        ...(this.#reasoning !== '' && { reasoning: this.#reasoning }),
        ...(calls.length > 0 && { calls }),
      },
      ...done.map((each) => toolItem(turn, each)),
    ];
    if (done.length > 0) this.#turn.toolResults(this.#round, done);
    this.#turn.log.remember(items);
    if (done.length > 0) this.#round++;
    this.#text = '';
    this.#reasoning = '';
    this.#calls = [];
  }

  #plan(value: unknown): void {
    if (!Array.isArray(value)) return;
    const entries = value.flatMap((entry: { content?: unknown; status?: unknown; priority?: unknown } | null) =>
      typeof entry?.content === 'string'
        ? [
            {
              content: entry.content,
              status: String(entry.status ?? 'pending'),
              ...(typeof entry.priority === 'string' && { priority: entry.priority }),
            },
          ]
        : [],
    );
    this.#turn.log.emit('session.plan', { entries }, this.#turn.id);
  }

  #usage({ used, size, cost }: Update): void {
    if (typeof used === 'number') {
      const breakdown = {
        pinned_tokens: 0,
        conversation_tokens: used,
        tool_schema_tokens: 0,
        provider_overhead_tokens: 0,
      };
      const estimate = { provider: null, source: 'provider', total_tokens_estimate: used, breakdown };
      const window = typeof size === 'number' ? { context_window_tokens: size } : {};
      this.#turn.log.emit('session.context.estimate', { ...estimate, ...window }, this.#turn.id);
    }
    const { amount, currency } = (cost ?? {}) as { amount?: unknown; currency?: unknown };
    if (typeof amount !== 'number' || currency !== 'USD') return;
    const added = this.#session.cost(amount);
    if (added > 0) this.#turn.usage({ ...NO_USAGE, cost_usd: added });
  }
}

/** Returns the terminals a call shows. */
function terminalsOf({ content }: ToolFields): readonly string[] {
  return (content ?? []).flatMap((part) => (part.type === 'terminal' ? [part.terminalId] : []));
}

/** Returns the fields with further text among the contents. */
function withText(fields: ToolFields, text: string): ToolFields {
  return { ...fields, content: [...(fields.content ?? []), { type: 'content', content: { type: 'text', text } }] };
}

const newest = (text: string): string => text.slice(-MAX_PRINTED_CHARACTERS);
