/**
 * What the wire side of the control edge is made from: the handlers of all other parts, where events come from, and how
 * the server ends. `control-server.ts` puts it together; tests bring fakes.
 */
import type { Log } from '../../base/log.ts';
import type { Snapshot } from '../../protocol/session-types.ts';
import type { EventSource, ServerEvents } from '../contract/events.ts';
import type { Handled } from '../contract/handlers.ts';

export interface ControlDeps {
  /** Every method that `rpc/` does not answer itself. Two of one name are a mistake of the caller. */
  readonly handlers: readonly Handled[];
  readonly events: EventSource;
  readonly serverEvents: ServerEvents;
  /** What `state.changed` tells when the server ends. */
  snapshot(): Snapshot | Promise<Snapshot>;
  /**
   * Ends all turns and whatever else runs; their last events are emitted before it resolves. Called once. Bounded by
   * `RpcLimits.shutdownTimeoutMs`; what takes longer is left behind.
   */
  shutdown(reason: string): Promise<void>;
  readonly log: Log;
}
