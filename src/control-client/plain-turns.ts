/**
 * Events of plain 1.0.0, assigned to turns: most carry no turn id, and the end of a turn carries no stop reason. Follows which
 * turn runs in each session and fills in the members that a turn's sender waits for.
 *
 * A turn that overflows its context ends without a terminal event and continues under an id that was never issued: its
 * events are given the id that its sender knows.
 * @see docs/protocol/session-rpc.md#servers-without-the-additions
 */
import { NO_USAGE } from '../protocol/session-types.ts';
import { isObject } from '../wire/json.ts';

type Params = Readonly<Record<string, unknown>>;

/** The turn of a session as its events show it. */
interface Running {
  /** The id that its sender was given. */
  readonly id: string;
  /** The id that the server uses for it since its context overflowed. */
  readonly alias?: string;
  readonly label: string;
  /** True when it has ended without a terminal event to make room; its continuation follows. */
  readonly overflowed: boolean;
}

/** The stop reason of each terminal event. */
const STOP_REASONS: Readonly<Record<string, string>> = {
  'session.completed': 'end_turn',
  'session.interrupted': 'interrupted',
  'session.error': 'error',
};

const COMPRESSING = 'compressing context...';

export class PlainTurns {
  readonly #running = new Map<string, Running>();

  /** Returns the id of the turn that runs in a session. */
  running(sessionId: string): string | undefined {
    return this.#running.get(sessionId)?.id;
  }

  /** Returns the event with the members it lacks; an end that the server leaves out comes before or behind it. */
  event(params: Params): Params[] {
    const { type, payload } = params;
    const { session_id, turn_id, status_label } = isObject(payload) ? payload : {};
    // `state.changed` names a new session, and is an event of the server.
    if (typeof session_id !== 'string' || type === 'state.changed') return [params];
    const before = this.#running.get(session_id);
    const started = type === 'session.status' && status_label === 'preparing...' && typeof turn_id === 'string';
    const ends: Params[] = [];
    const isQueued = type === 'session.status' && /^queued \(\d+\)$/.test(String(status_label));
    if (isQueued) return [params];
    if (started && before?.overflowed === true) {
      this.#running.set(session_id, { ...before, alias: turn_id, label: status_label, overflowed: false });
    } else {
      // No continuation followed the overflow, or a terminal event was left out.
      if (before !== undefined && (started || before.overflowed)) ends.push(this.#end(session_id, before, params));
      if (started) this.#running.set(session_id, { id: turn_id, label: status_label, overflowed: false });
    }
    return [...ends, ...this.#completed(params, session_id)];
  }

  #completed(params: Params, session_id: string): Params[] {
    const { type } = params;
    const payload = params.payload as Params;
    const turn = this.#running.get(session_id);
    if (turn === undefined) return [withReason(params, payload)];
    const isOurs = payload.turn_id === undefined || payload.turn_id === turn.alias;
    const event = withReason(params, isOurs ? { ...payload, turn_id: turn.id } : payload);
    if (typeof type === 'string' && type in STOP_REASONS) this.#running.delete(session_id);
    if (type !== 'session.status') return [event];
    const label = String(payload.status_label);
    if (payload.pending !== false) {
      this.#running.set(session_id, { ...turn, label });
      return [event];
    }
    if (turn.label !== COMPRESSING) return [event, this.#end(session_id, turn, params)];
    this.#running.set(session_id, { ...turn, overflowed: true });
    return [event];
  }

  /** Returns the terminal event that the server did not send. */
  #end(session_id: string, { id }: Running, { timestamp }: Params): Params {
    this.#running.delete(session_id);
    const payload = { session_id, turn_id: id, answer_length: 0, stop_reason: 'end_turn', usage: NO_USAGE };
    return { type: 'session.completed', timestamp, payload };
  }
}

function withReason(params: Params, payload: Params): Params {
  const stop_reason = STOP_REASONS[String(params.type)];
  if (stop_reason === undefined) return { ...params, payload };
  // A failure is reported in words alone; whether a second try is safe is not known.
  const failure = stop_reason === 'error' ? { kind: 'runtime_error', retryable: false } : {};
  return { ...params, payload: { stop_reason, usage: NO_USAGE, ...failure, ...payload } };
}
