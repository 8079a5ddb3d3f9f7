/**
 * The words and the limits of the fleet handshake 2.0, shared by its schemas (`fleet.schema.ts`) and by the code that
 * handles its messages.
 *
 * `fleet.ts` exports them to the rest of the project.
 * @see docs/protocol/fleet.md
 */

/** The version of this side. */
export const FLEET_VERSION = '2.0';

/**
 * Name of this protocol where A2A peers list the protocols they speak beside A2A: agent cards, headers, metadata. No
 * comma in it.
 */
export const FLEET_EXTENSION = 'https://handfast.dev/fleet-handshake/v2';

/**
 * Features that a peer understands beside the three messages. `ack` TASK_ACK · `progress` TASK_PROGRESS · `cancel`
 * TASK_CANCEL · `lease` renewals by progress and heartbeat · `heartbeat` SESSION_HEARTBEAT and SESSION_BYE · `accept`
 * SESSION_ACCEPT · `announce` ANNOUNCE_REQUEST · `poll` TASK_POLL · `steer` TASK_STEER · `questions` TASK_QUESTION and
 * TASK_ANSWER.
 */
export const FEATURES = [
  'ack',
  'progress',
  'cancel',
  'lease',
  'heartbeat',
  'accept',
  'announce',
  'poll',
  'steer',
  'questions',
] as const;
export type Feature = (typeof FEATURES)[number];

export const PRIORITIES = ['low', 'normal', 'high', 'urgent'] as const;
export type Priority = (typeof PRIORITIES)[number];

/** States of a task at the orchestrator. */
export const TASK_STATES = [
  'queued',
  'reserved',
  'sent',
  'accepted',
  'running',
  'done',
  'partial',
  'blocked',
  'error',
  'lost',
  'canceled',
] as const;

export const REPLY_SCHEMAS = ['prose', 'structured', 'json'] as const;
export type ReplySchema = (typeof REPLY_SCHEMAS)[number];

export const STATUSES = ['done', 'blocked', 'error', 'partial'] as const;
export type Status = (typeof STATUSES)[number];

/** Health of an MCP server. Only `ok` is healthy; other words than these act as not ok. */
export const HEALTHS = ['ok', 'timeout', 'error', 'starting', 'auth_required', 'disabled', 'unknown'] as const;
export type Health = (typeof HEALTHS)[number];

/** The effect of a task on the repository. */
export type Access = 'read' | 'write';

/**
 * Characters that no name or id contains, as the inside of a character class: control, zero-width, bidirectional and
 * line-separating ones. Two texts that look alike must be alike, and no name may tear a line of a log.
 */
export const FORBIDDEN =
  '\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff';

/** The pattern of an agent's id, which occurs in subjects, file names and logs. */
export const AGENT_ID = '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$';

/** Most entries of a list of names. */
export const MAX_NAMES = 256;
