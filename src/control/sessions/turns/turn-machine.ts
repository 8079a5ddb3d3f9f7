/**
 * The turns of one session as a pure state machine: the running prompt, the waiting ones, the fate of steers. A state and an
 * input give the next state and effects; `session-turns.ts` carries them out.
 *
 * Its rules: a session runs one turn at a time; every issued turn id ends exactly once, as a turn that ran (`end`) or a
 * prompt that never did (`drop`); every steer is injected, becomes a turn, or is returned.
 * `test/control/sessions/turns/turn-machine.test.ts` checks that over random histories.
 * @see docs/protocol/session-rpc.md#turns
 */
import type { StopReason } from '../../../protocol/session-types.ts';
import type { ErrorName } from '../../../wire/errors.ts';
import type { SessionRecord, Steer } from '../../contract/session-log.ts';

/** The input state. All but the last three members are in the session's record and so outlive the process. */
export interface TurnState {
  readonly phase: SessionRecord['phase'];
  /** Id of the running turn. */
  readonly turn: string | null;
  /** Turn ids of the prompts that wait, the next one first. */
  readonly queue: readonly string[];
  /** Steers of the running turn that were not injected yet. */
  readonly steers: readonly Steer[];
  /** Prompts at the head of the queue that are steers which came since the last turn started: the next one goes behind them. */
  readonly steered: number;
  /** Work has the session for itself: no turn starts until it is released. */
  readonly held: boolean;
  /** The session is being closed, or the server is stopping: no input is accepted. */
  readonly closing: 'closed' | 'shutdown' | null;
}

export type TurnInput =
  | { readonly type: 'send'; readonly turnId: string; readonly enqueue: boolean }
  | {
      readonly type: 'steer';
      /** `id` becomes the turn id when the text becomes a separate turn. */
      readonly steer: Steer;
      readonly expectedTurn?: string;
    }
  | { readonly type: 'interrupt'; readonly turnId?: string; readonly stopReason: StopReason }
  | { readonly type: 'remove'; readonly turnId: string; readonly stopReason: StopReason }
  | { readonly type: 'clear_queue'; readonly stopReason: StopReason }
  /** The backend has ended a turn, or was abandoned. */
  | { readonly type: 'ended'; readonly turnId: string }
  | { readonly type: 'hold' }
  | { readonly type: 'release' }
  | { readonly type: 'close'; readonly why: 'closed' | 'shutdown' }
  | { readonly type: 'reopen' }
  /** A new process. `continues`: the turn that ran can continue. */
  | { readonly type: 'restart'; readonly continues: boolean };

export type TurnEffect =
  | { readonly do: 'refuse'; readonly code: ErrorName }
  /** Puts a prompt into the queue; `position` 0 = next. With `steer`, the prompt is the text of the steer. */
  | { readonly do: 'queue'; readonly turnId: string; readonly position: number; readonly steer?: Steer }
  | { readonly do: 'start'; readonly turnId: string; readonly steer?: Steer }
  | { readonly do: 'store_steer'; readonly steer: Steer }
  /** The outcome of a steer. */
  | {
      readonly do: 'settle_steer';
      readonly outcome: 'injected' | 'queued' | 'started' | 'rejected';
      readonly turnId: string | null;
    }
  | { readonly do: 'abort'; readonly turnId: string; readonly stopReason: StopReason }
  /** The running turn has ended: its terminal event, then `ready`. `restart`: its process ended before it did. */
  | { readonly do: 'end'; readonly turnId: string; readonly restart?: true }
  | { readonly do: 'drop'; readonly turnId: string; readonly stopReason: StopReason }
  | { readonly do: 'return_steers'; readonly steers: readonly Steer[]; readonly reason: string }
  | { readonly do: 'continue'; readonly turnId: string }
  /** Work that was not a turn has ended. */
  | { readonly do: 'ready' }
  | { readonly do: 'close' }
  | { readonly do: 'reopen' };

export interface TurnStep {
  readonly state: TurnState;
  readonly effects: readonly TurnEffect[];
}

export interface TurnLimits {
  /** Maximum number of prompts that wait in a session. */
  readonly queueLength: number;
}

/** Returns the next state and its effects. */
export function step(state: TurnState, input: TurnInput, limits: TurnLimits): TurnStep {
  switch (input.type) {
    case 'send':
      return send(state, input, limits);
    case 'steer':
      return steer(state, input, limits);
    case 'interrupt':
      return interrupt(state, input.stopReason, input.turnId);
    case 'remove':
      return drop(state, (turnId) => turnId === input.turnId, input.stopReason);
    case 'clear_queue':
      return drop(state, () => true, input.stopReason);
    case 'ended':
      return ended(state, input.turnId, limits);
    case 'hold':
      return { state: { ...state, held: true }, effects: [] };
    case 'release':
      return next({ ...state, held: false }, []);
    case 'close':
      return close(state, input.why);
    case 'reopen':
      if (state.phase !== 'closed') return refuse(state);
      return next({ ...state, phase: 'idle', closing: null }, [{ do: 'reopen' }]);
    case 'restart':
      return restart(state, input.continues, limits);
  }
}

function refuse(state: TurnState, code?: ErrorName): TurnStep {
  return { state, effects: code === undefined ? [] : [{ do: 'refuse', code }] };
}

/** Returns the reason why no input is accepted, or undefined. */
function closedTo({ phase, closing }: TurnState): ErrorName | undefined {
  if (closing === 'shutdown') return 'interrupted';
  return phase === 'closed' || closing !== null ? 'session_closed' : undefined;
}

const isFree = ({ phase, held, closing }: TurnState): boolean => phase === 'idle' && !held && closing === null;

function send(state: TurnState, input: TurnInput & { type: 'send' }, { queueLength }: TurnLimits): TurnStep {
  const { turnId, enqueue } = input;
  const closed = closedTo(state);
  if (closed !== undefined) return refuse(state, closed);
  if (isFree(state)) return { state: { ...state, phase: 'running', turn: turnId }, effects: [{ do: 'start', turnId }] };
  if (!enqueue) return refuse(state, 'session_busy');
  if (state.queue.length >= queueLength) return refuse(state, 'over_capacity');
  const position = state.queue.length;
  return { state: { ...state, queue: [...state.queue, turnId] }, effects: [{ do: 'queue', turnId, position }] };
}

function steer(state: TurnState, input: TurnInput & { type: 'steer' }, { queueLength }: TurnLimits): TurnStep {
  const { steer: added, expectedTurn } = input;
  const rejected: TurnStep = { state, effects: [{ do: 'settle_steer', outcome: 'rejected', turnId: null }] };
  if (closedTo(state) !== undefined || (expectedTurn !== undefined && expectedTurn !== state.turn)) return rejected;
  if (state.phase === 'running' && state.turn !== null) {
    // A steer that is late may become a prompt, so no more are stored than the queue has room for.
    if (state.steers.length >= queueLength) return rejected;
    return {
      state: { ...state, steers: [...state.steers, added] },
      effects: [
        { do: 'store_steer', steer: added },
        { do: 'settle_steer', outcome: 'injected', turnId: state.turn },
      ],
    };
  }
  if (added.whenLate !== 'queue' || state.queue.length >= queueLength) return rejected;
  if (isFree(state)) {
    return {
      state: { ...state, phase: 'running', turn: added.id },
      effects: [
        { do: 'start', turnId: added.id, steer: added },
        { do: 'settle_steer', outcome: 'started', turnId: added.id },
      ],
    };
  }
  // Its turn is ending: the steer runs next, behind earlier ones and before the prompts that wait.
  const { steered: position } = state;
  return {
    state: { ...state, queue: state.queue.toSpliced(position, 0, added.id), steered: position + 1 },
    effects: [
      { do: 'queue', turnId: added.id, position, steer: added },
      { do: 'settle_steer', outcome: 'queued', turnId: added.id },
    ],
  };
}

function interrupt(state: TurnState, stopReason: StopReason, turnId?: string): TurnStep {
  const { phase, turn } = state;
  if (phase !== 'running' || turn === null || (turnId !== undefined && turnId !== turn)) return refuse(state);
  return { state: { ...state, phase: 'interrupting' }, effects: [{ do: 'abort', turnId: turn, stopReason }] };
}

function drop(state: TurnState, isDropped: (turnId: string) => boolean, stopReason: StopReason): TurnStep {
  const dropped = state.queue.filter(isDropped);
  const queue = state.queue.filter((turnId) => !isDropped(turnId));
  const steered = state.queue.slice(0, state.steered).filter((turnId) => !isDropped(turnId)).length;
  return {
    state: { ...state, queue, steered },
    effects: dropped.map((turnId) => ({ do: 'drop', turnId, stopReason })),
  };
}

function ended(state: TurnState, turnId: string, limits: TurnLimits): TurnStep {
  // An abandoned backend may end at any time.
  if (state.turn !== turnId) return refuse(state);
  return afterTurn(state, [{ do: 'end', turnId }], state.closing === null ? 'late' : state.closing, limits);
}

/** Ends the running turn: settles its steers and starts the next prompt. */
function afterTurn(state: TurnState, effects: TurnEffect[], reason: string, { queueLength }: TurnLimits): TurnStep {
  const { steers, closing } = state;
  const isQueued = ({ whenLate }: Steer, room: number) => closing === null && whenLate === 'queue' && room > 0;
  const queued: Steer[] = [];
  const returned: Steer[] = [];
  for (const late of steers) {
    (isQueued(late, queueLength - state.queue.length - queued.length) ? queued : returned).push(late);
  }
  if (returned.length > 0) effects.push({ do: 'return_steers', steers: returned, reason });
  for (const [position, late] of queued.entries())
    effects.push({ do: 'queue', turnId: late.id, position, steer: late });
  const queue = [...queued.map(({ id }) => id), ...state.queue];
  const steered = queued.length + state.steered;
  return next({ ...state, phase: 'idle', turn: null, steers: [], queue, steered }, effects);
}

/** Starts the next prompt, or closes the session, when no turn runs. */
function next(state: TurnState, effects: readonly TurnEffect[]): TurnStep {
  if (state.closing === 'closed' && state.phase === 'idle' && !state.held) {
    return { state: { ...state, phase: 'closed', closing: null }, effects: [...effects, { do: 'close' }] };
  }
  const [turnId, ...queue] = state.queue;
  if (turnId === undefined || !isFree(state)) return { state, effects };
  const started = { ...state, phase: 'running' as const, turn: turnId, queue, steered: 0 };
  return { state: started, effects: [...effects, { do: 'start', turnId }] };
}

function close(state: TurnState, why: 'closed' | 'shutdown'): TurnStep {
  if (state.phase === 'closed') return refuse(state);
  const { state: emptied, effects } = drop({ ...state, closing: why }, () => true, why);
  const { state: aborted, effects: abort } = interrupt(emptied, why);
  return next(aborted, [...effects, ...abort]);
}

function restart(before: TurnState, continues: boolean, limits: TurnLimits): TurnStep {
  const state: TurnState = { ...before, held: false, closing: null };
  if (state.phase === 'closed') return refuse(state);
  const { turn } = state;
  if (turn !== null && continues && state.phase === 'running') {
    return { state, effects: [{ do: 'continue', turnId: turn }] };
  }
  if (turn !== null) return afterTurn(state, [{ do: 'end', turnId: turn, restart: true }], 'restart', limits);
  if (state.phase !== 'idle') return next({ ...state, phase: 'idle' }, [{ do: 'ready' }]);
  return next(state, []);
}
