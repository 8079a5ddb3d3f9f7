/**
 * Results of the reading side of the fleet protocol: messages in their normalised form (names canonical, absent = null,
 * defaults filled in), and the errors and warnings found on the way.
 *
 * Names of members follow the wire.
 */

import type * as schemas from '../../protocol/fleet.schema.ts';
import type { Full } from '../../protocol/fleet.schema.ts';
import type { Finding } from '../../wire/findings.ts';

export type { Finding };

import type { Access, Envelope, Feature, FleetMessage } from '../../protocol/fleet.ts';

/** Result of decoding one message. Errors of one message are all there, not only the first. */
export type Decoded =
  | {
      readonly valid: true;
      readonly message: Incoming;
      readonly errors: readonly [];
      readonly warnings: readonly Finding[];
    }
  | {
      readonly valid: false;
      /** The message's type, where it was read and known. */
      readonly type: string | null;
      /** The id of its task, where that much could be read: its orchestrator waits for a reply. */
      readonly taskId?: string;
      readonly errors: readonly Finding[];
      readonly warnings: readonly Finding[];
    };

/** Members of every message. */
interface Root<Type extends string> {
  readonly type: Type;
  readonly protocol_version: string;
  /** Empty where the message had none. */
  readonly envelope: Envelope;
}

/** Repository of a worker. */
export type RepoState = Omit<Full<typeof schemas.RepoState>, 'head'>;

/** SESSION_ANNOUNCE, normalised. */
export type Announced = Root<'SESSION_ANNOUNCE'> &
  Omit<Full<typeof schemas.Worker>, 'features' | 'protocol_versions'> &
  Full<typeof schemas.Capabilities> &
  Omit<Full<typeof schemas.Session>, 'repo_state'> & {
    readonly features: readonly Feature[];
    readonly protocol_versions: readonly string[];
    /** One entry per listed server. */
    readonly mcp_health: ReadonlyMap<string, string>;
    readonly repo_state: RepoState | null;
  };

/** TASK_DISPATCH, normalised. */
export type Dispatched = Root<'TASK_DISPATCH'> &
  Full<typeof schemas.Task> &
  Omit<Full<typeof schemas.Requirements>, 'access'> &
  Pick<Full<typeof schemas.TaskDispatch>, 'brief' | 'deadline'> & {
    /** As stated, else worked out from the required capabilities. */
    readonly access: Access;
    /** SHA-256 (hex) of the dispatch without its envelope, keys sorted. */
    readonly digest: string;
  };

/** TASK_RESULT, normalised. */
export type Reported = Root<'TASK_RESULT'> &
  Omit<Full<typeof schemas.TaskResult>, keyof Root<string> | 'error_summary' | 'error' | 'artifacts'> & {
    /** Set with status `error` only. */
    readonly error_summary?: string;
    readonly artifacts: { readonly pr: string | null; readonly files_changed: readonly string[] };
    /** All members of `artifacts` as they came, the two above included only where they are usable. */
    readonly more_artifacts: ReadonlyMap<string, unknown>;
  };

/** The additive messages, which stay in their wire form. */
export type Addition = Exclude<FleetMessage, { readonly type: 'SESSION_ANNOUNCE' | 'TASK_DISPATCH' | 'TASK_RESULT' }>;

/** A message as the rest of `fleet/` gets it. */
export type Incoming = Announced | Dispatched | Reported | Addition;
