/** A running request as plugins see it: the connection's request plus session, log and workspace. */

import type { Log } from '../base/log.ts';
import { type Route, RunningRequest } from '../connection/running-request.ts';
import type { Session } from '../session/session.ts';
import type { Incoming } from '../wire/codec.ts';
import type { CallContext } from './context.ts';

/** What every call of a host shares. */
export interface CallDeps {
  readonly log: Log;
  readonly workspace: string;
}

export class HostCall extends RunningRequest implements CallContext {
  readonly session: Session;
  readonly #deps: CallDeps;

  constructor(session: Session, incoming: Incoming, route: Route, deps: CallDeps) {
    super(session.connection, incoming, route);
    this.session = session;
    this.#deps = deps;
  }

  get log(): Log {
    return this.#deps.log;
  }

  get workspace(): string {
    return this.#deps.workspace;
  }
}
