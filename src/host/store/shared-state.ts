/**
 * What a host needs where several hosts of one user have the same state. `server/shared-state.ts` has it over a socket;
 * `plugin-runtime.ts` asks it.
 */
import type { Method } from '../../protocol/method.ts';
import type { CallContext } from '../context.ts';

/**
 * The state of plugins where several hosts of one user have the same: one has it open, the others make their requests there.
 */
export interface SharedState {
  /** This host has opened the state; others may ask it from now on. */
  opened(): void;
  /**
   * Makes a request at the host that has the state. Rejects with `unreachable` when that cannot be reached, with
   * `journal_locked` for a session whose principal is not the user, and with the errors of the request.
   */
  forward(method: Method, request: object, context: CallContext): Promise<object>;
}
