/** A running request as plugins see it: the connection's request plus session, log and workspace. */

import type { Log } from '../base/log.ts';
import type { Connection, Message } from '../connection/connection.ts';
import { type Route, RunningRequest } from '../connection/running-request.ts';
import type { Session } from '../session/session.ts';
import type { CallContext } from './context.ts';

/** What every call of a host shares. */
export interface CallDeps {
  readonly log: Log;
  readonly workspace: string;
}

export class HostCall extends RunningRequest implements CallContext {
  readonly session: Session;
  readonly #surroundings: CallDeps;

  constructor(
    connection: Connection,
    message: Message,
    route: Route,
    size: number,
    session: Session,
    surroundings: CallDeps,
  ) {
    super(connection, message, route, size);
    this.session = session;
    this.#surroundings = surroundings;
  }

  get log(): Log {
    return this.#surroundings.log;
  }

  get workspace(): string {
    return this.#surroundings.workspace;
  }
}
