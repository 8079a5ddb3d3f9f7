/**
 * The state of the server as clients see it, `state.get` and the snapshot of every `state.changed`: put together from the
 * settings, the sessions and the skills.
 *
 * Made by `control-server.ts`; handlers of every part call `changed`.
 */
import { stateGet } from '../protocol/session-rpc.ts';
import type { Snapshot } from '../protocol/session-types.ts';
import type { Principal } from '../session/principal.ts';
import type { ServerEvents } from './contract/events.ts';
import { type Handled, handles } from './contract/handlers.ts';
import type { Settings } from './providers/settings.ts';
import type { Sessions } from './sessions/sessions.ts';
import type { Skills } from './skills/skills.ts';

export interface ServerStateDeps {
  readonly settings: Pick<Settings, 'snapshotParts'>;
  readonly sessions: Pick<Sessions, 'liveIds'>;
  readonly skills: Pick<Skills, 'summary'>;
  readonly serverEvents: ServerEvents;
}

export class ServerState {
  readonly #deps: ServerStateDeps;

  constructor(deps: ServerStateDeps) {
    this.#deps = deps;
  }

  /** What every client may see; with `viewer` what this principal may see, their account's profile included. */
  snapshot(viewer?: Principal): Snapshot {
    const { settings, sessions, skills } = this.#deps;
    const ids = sessions.liveIds(viewer === undefined || viewer.admin ? undefined : viewer.name);
    return { ...settings.snapshotParts(viewer), sessions: { count: ids.length, ids }, skills: skills.summary };
  }

  /** Emits `state.changed`. */
  changed(reason: string, session_id?: string): void {
    this.#deps.serverEvents.emit('state.changed', { reason, snapshot: this.snapshot(), session_id });
  }

  /** `state.get`. */
  handler(): Handled {
    return handles(stateGet, (_params, { caller }) => this.snapshot(caller.principal));
  }
}
