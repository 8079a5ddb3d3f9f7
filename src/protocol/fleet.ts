/**
 * The messages of the fleet handshake 2.0 as they are on the wire: the types of the schemas in `fleet.schema.ts`, and
 * their words.
 *
 * Three messages carry the protocol (`SESSION_ANNOUNCE`, `TASK_DISPATCH`, `TASK_RESULT`); the others are additive and
 * go only to peers whose announce, or whose `SESSION_ACCEPT`, lists the feature. Messages that are written fit
 * `schema/fleet.json`; messages that arrive are read by `fleet/messages/`.
 * @see docs/protocol/fleet.md
 */
import type { Wire } from '../wire/schema.ts';
import type * as schemas from './fleet.schema.ts';

export { FEATURE_OF } from './fleet.generated.ts';
export {
  type Access,
  FEATURES,
  type Feature,
  FLEET_EXTENSION,
  FLEET_VERSION,
  HEALTHS,
  type Health,
  PRIORITIES,
  type Priority,
  REPLY_SCHEMAS,
  type ReplySchema,
  STATUSES,
  type Status,
  TASK_STATES,
} from './fleet-words.ts';

/** Sender, time and attempt of a message. */
export type Envelope = Wire<typeof schemas.Envelope>;
/** Worker → orchestrator: its identity, its abilities, and its state. */
export type SessionAnnounce = Wire<typeof schemas.SessionAnnounce>;
/** Orchestrator → worker: a task and its requirements. */
export type TaskDispatch = Wire<typeof schemas.TaskDispatch>;
/** Usage of a turn of an executor. */
export type Usage = Wire<typeof schemas.Usage>;
/** Reason why a task did not start, for machines. */
export type Blocked = Wire<typeof schemas.Blocked>;
/** Worker → orchestrator: how a task ended. */
export type TaskResult = Wire<typeof schemas.TaskResult>;
/** Both ways: confirms that a dispatch is accepted, the outcome of a poll, or that a result is durably stored. */
export type TaskAck = Wire<typeof schemas.TaskAck>;
/** Worker → orchestrator: a task continues. Renews its lease. */
export type TaskProgress = Wire<typeof schemas.TaskProgress>;
/** Orchestrator → worker: stops a task. */
export type TaskCancel = Wire<typeof schemas.TaskCancel>;
/** Orchestrator → worker: more input for a running task. */
export type TaskSteer = Wire<typeof schemas.TaskSteer>;
/** Orchestrator → worker: asks for the state of a task. */
export type TaskPoll = Wire<typeof schemas.TaskPoll>;
/** Worker → orchestrator: the executor asks something and waits. */
export type TaskQuestion = Wire<typeof schemas.TaskQuestion>;
/** Orchestrator → worker: the answer to a question. */
export type TaskAnswer = Wire<typeof schemas.TaskAnswer>;
/** Either way: shows liveness. */
export type SessionHeartbeat = Wire<typeof schemas.SessionHeartbeat>;
/** Either way: the session ends in order. */
export type SessionBye = Wire<typeof schemas.SessionBye>;
/** Orchestrator → worker: the announce is accepted under these terms. */
export type SessionAccept = Wire<typeof schemas.SessionAccept>;
/** Orchestrator → worker: asks it to describe itself now. */
export type AnnounceRequest = Wire<typeof schemas.AnnounceRequest>;

export type FleetMessage = Wire<(typeof schemas.fleetSchemas)[number]>;
