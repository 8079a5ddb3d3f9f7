/**
 * The state of the server as clients see it, `state.get` and the snapshot of every `state.changed`: put together from the
 * settings, the sessions and the skills.
 *
 * An event lists no ids of sessions, and one about a session goes to its owner alone: a list would make the journal of events
 * grow with the square of the sessions, and would name those of others. `state.get` has the list.
 */
import { openLosses, toldLosses } from '../base/sqlite/losses.ts';
import { stateGet } from '../protocol/session-rpc.ts';
import type { Snapshot } from '../protocol/session-types.ts';
import type { Principal } from '../session/principal.ts';
import type { ServerEvents } from './contract/events.ts';
import { type Handled, handles } from './contract/handlers.ts';
import type { Settings } from './providers/settings.ts';
import { ownerSeenBy } from './sessions/methods/history-handlers.ts';
import type { Sessions } from './sessions/sessions.ts';
import type { Skills } from './skills/skills.ts';

export interface ServerStateDeps {
  readonly settings: Pick<Settings, 'snapshotParts'>;
  readonly sessions: Pick<Sessions, 'liveIds' | 'liveCount'>;
  readonly skills: Pick<Skills, 'summary'>;
  readonly serverEvents: ServerEvents;
}

/** The session that an event is about. */
interface ChangedSession {
  readonly id: string;
  readonly owner: string;
}

export class ServerState {
  readonly #deps: ServerStateDeps;

  constructor(deps: ServerStateDeps) {
    this.#deps = deps;
  }

  /** Returns the state that this principal may see, their account's profile included. */
  #seenBy(viewer: Principal): Snapshot {
    const { settings, sessions, skills } = this.#deps;
    const ids = sessions.liveIds(ownerSeenBy(viewer) ?? undefined);
    return {
      ...settings.snapshotParts(viewer),
      sessions: { count: ids.length, ids },
      skills: skills.summary,
      ...lossesPart(),
    };
  }

  /**
   * Returns the state that every client may see, for an event: a count of the sessions, of their owner or of all, and no ids.
   */
  broadcast(about?: ChangedSession): Snapshot {
    const { settings, sessions, skills } = this.#deps;
    const count = sessions.liveCount(about?.owner);
    return { ...settings.snapshotParts(), sessions: { count, ids: [] }, skills: skills.summary, ...lossesPart() };
  }

  /** Emits `state.changed`; one about a session is for its owner and for administrators. */
  changed(reason: string, about?: ChangedSession): void {
    const payload = { reason, snapshot: this.broadcast(about), session_id: about?.id };
    this.#deps.serverEvents.emit('state.changed', payload, about?.owner);
  }

  /** `state.get`. */
  handler(): Handled {
    return handles(stateGet, (_params, { caller }) => this.#seenBy(caller.principal));
  }
}

/** Returns the losses; absent while nothing is lost, which is the snapshot of 1.0.0. */
function lossesPart(): Pick<Snapshot, 'losses'> {
  const losses = toldLosses(openLosses());
  return losses.length === 0 ? {} : { losses };
}
