/**
 * The contract for several hosts of one user that share one state. `server/shared-state.ts` implements it over a
 * socket.
 */
import type { Method } from '../../protocol/method.ts';
import type { CallContext } from '../context.ts';

/**
 * The state of plugins where several hosts of one user have the same: one has it open, the others make their requests there.
 */
export interface SharedState {
  /** Called when this host has opened the state; other hosts may send requests from now on. */
  opened(): void;
  /**
   * Forwards a request to the host that has the state. Rejects with `unreachable` when that host cannot be reached,
   * with `journal_locked` for a session whose principal is not the user, and with the errors of the request.
   */
  forward(method: Method, request: object, context: CallContext): Promise<object>;
}
