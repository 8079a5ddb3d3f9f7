/**
 * Facts about a session from its events, beside its conversation: model, tokens, the rest of the context, the messages that
 * wait. Feeds the rows around the input of `handfast chat`.
 */
import type { ControlEvent, EventGap } from '../../../control-client/control-event.ts';
import { isTerminal } from '../../../control-client/turn.ts';
import type { SessionState } from '../../../protocol/session-types.ts';
import { oneLine } from '../../output/tool-summary.ts';

/** A message the agent has not received. */
export interface WaitingMessage {
  readonly id: string;
  readonly text: string;
  /** `steer`: for the running turn, before its next step; `queue`: a separate turn, afterwards. */
  readonly kind: 'steer' | 'queue';
}

const THOUSAND = 1000;
const PERCENT = 100;

export class SessionFacts {
  readonly waiting: WaitingMessage[] = [];
  /** Steers that were used or returned before the reply that names them. */
  readonly #settled = new Set<string>();
  #label = '';
  #tokens = 0;
  #contextTokens = 0;
  #contextWindow = 0;
  #turn: { readonly id: string; readonly startedAt: number } | undefined;

  /** Takes the facts of another session. */
  enter(state: SessionState): void {
    this.#label = state.settings.model ?? state.backend;
    this.#tokens = state.usage.total_tokens;
    this.#contextTokens = state.contextTokenEstimate;
    this.#contextWindow = 0;
    this.waiting.length = 0;
    for (const { id, text } of state.queue) this.add({ id, text, kind: 'queue' });
    this.#turn = state.turnId === null ? undefined : { id: state.turnId, startedAt: performance.now() };
  }

  /** Seconds since the running turn was first seen; undefined when none runs. */
  get runningS(): number | undefined {
    return this.#turn && Math.floor((performance.now() - this.#turn.startedAt) / THOUSAND);
  }

  add(message: WaitingMessage): void {
    this.remove(message.id);
    this.waiting.push(message);
  }

  /** Notes that a steer was accepted. The event that it was used may have come before the reply. */
  steered(id: string, text: string): void {
    if (!this.#settled.delete(id)) this.add({ id, text, kind: 'steer' });
  }

  remove(id: string): void {
    const index = this.waiting.findIndex((message) => message.id === id);
    if (index >= 0) this.waiting.splice(index, 1);
  }

  receive(event: ControlEvent | EventGap): void {
    if (event.type === 'gap') return;
    const turn = (event.payload as { turn_id?: string }).turn_id ?? '';
    switch (event.type) {
      case 'session.turn.queued':
        return this.add({ id: turn, text: event.payload.text, kind: 'queue' });
      case 'session.turn.started':
        this.remove(turn);
        this.#turn = { id: turn, startedAt: performance.now() };
        return;
      case 'session.steer.injected':
        return this.#steersSettled(event.payload.steer_ids);
      case 'session.steer.returned':
        return this.#steersSettled(event.payload.steers.map(({ id }) => id));
      case 'session.usage':
        this.#tokens = event.payload.session_usage.total_tokens;
        return;
      case 'session.context.estimate':
        this.#contextTokens = event.payload.total_tokens_estimate;
        this.#contextWindow = event.payload.context_window_tokens ?? 0;
        return;
      case 'session.configured':
        this.#label = event.payload.settings.model ?? this.#label;
        return;
      default:
        if (!isTerminal(event)) return;
        this.remove(turn);
        if (turn !== this.#turn?.id) return;
        this.#turn = undefined;
        this.#settled.clear();
    }
  }

  #steersSettled(ids: readonly string[]): void {
    for (const id of ids) {
      if (!this.waiting.some((message) => message.id === id)) this.#settled.add(id);
      this.remove(id);
    }
  }

  /** Returns the words of the status row, the most important first. */
  status(): string[] {
    const left = this.#contextWindow === 0 ? undefined : 1 - this.#contextTokens / this.#contextWindow;
    return [
      oneLine(this.#label),
      ...(this.#tokens > 0 ? [`${amountOf(this.#tokens)} tokens`] : []),
      ...(left === undefined ? [] : [`${Math.max(0, Math.round(left * PERCENT))} % of the context left`]),
    ];
  }
}

/** `950`, `12.3k`, `1.2M`. */
function amountOf(tokens: number): string {
  if (tokens < THOUSAND) return String(tokens);
  const [value, unit] = tokens < THOUSAND ** 2 ? [tokens / THOUSAND, 'k'] : [tokens / THOUSAND ** 2, 'M'];
  return `${value.toFixed(value < PERCENT ? 1 : 0)}${unit}`;
}
