/**
 * The core messages of A2E 1.0 as schemas: handshake, liveness, shutdown, errors and events, and Handfast's extensions
 * (cancel, journal). One definition each: the static types, the validators and `schema/a2e.json` come from here.
 *
 * Readers are tolerant: only fields that a receiver needs are required, unknown fields pass.
 * @see docs/protocol/a2e.md#core-messages
 */
import { type Static, Type } from '../wire/schema.ts';
import { NOTE } from './member.ts';
import { anyObject } from './shapes.schema.ts';

// A pattern, not minLength: for minLength Ajv counts code points with a separate run-time part.
const nonEmpty = (description: string) => Type.String({ pattern: '^[\\s\\S]', description });
const id = nonEmpty('Unique per message; any non-empty text.');
const text = (description: string) => Type.Optional(Type.String({ description }));
const open = (description: string) => Type.Optional(anyObject(description));

/** The sender of a message: hosts check requests of agents, agents check all others. */
export const fromAgent = { [NOTE]: { from: 'agent' } };
export const fromHost = { [NOTE]: { from: 'host' } };

/** The fields every message may carry beside its own. */
export const base = {
  id,
  a2e: Type.Optional(Type.Unknown({ description: 'Protocol version, "1.0". Written always, never required.' })),
  version: Type.Optional(Type.Unknown({ description: 'Protocol version, "1.0". Written always, never required.' })),
  ts: Type.Optional(Type.Number({ description: 'When it was sent, epoch seconds.' })),
};

/** The fields an answer carries: a reader matches it by `req_id`, so its own id may be missing. */
export const answer = {
  ...base,
  id: Type.Optional(Type.String({ description: 'Unique per message.' })),
  req_id: Type.Optional(Type.String({ description: 'The id of the request this belongs to.' })),
  cursor: Type.Optional(Type.Integer({ description: 'Journal cursor; present when handfast/resume was negotiated.' })),
};

/** The fields of every event type; a namespace adds its own `type`. */
export const eventFields = {
  ...answer,
  kind: Type.Optional(Type.String({ description: 'progress, artifact, log or status; other strings occur.' })),
  data: open('Details of the event; their shape depends on the kind.'),
  seq: Type.Optional(Type.Integer({ minimum: 0, description: 'Counts from 0 within one request.' })),
};

export const Capability = Type.Object(
  {
    capability: Type.String({ description: 'One of the standard capability names.' }),
    enabled: Type.Optional(Type.Boolean({ description: 'True when granted.' })),
    metadata: open('name, type, priority, exclusive of the leading plugin; or reason when not granted.'),
  },
  { description: 'One line of the answer to a capability request.' },
);

export const HandshakeReq = Type.Object(
  {
    ...base,
    type: Type.Literal('handshake/req'),
    agent_id: text('Free name of the agent.'),
    agent_caps: Type.Optional(Type.Array(Type.String(), { description: 'Requested capability names.' })),
    auth_token: Type.Optional(Type.Unknown({ description: 'Shared secret, a string; empty for none.' })),
    extensions: open('Requested extensions, by name: handfast/cancel, handfast/resume, handfast/journal.'),
  },
  { ...fromAgent, description: 'Opens a session; the first message of an agent.' },
);

export const HandshakeResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('handshake/resp'),
    session_id: text('The session; empty when refused.'),
    accepted_caps: Type.Optional(Type.Array(Capability, { description: 'One entry for each capability asked for.' })),
    max_parallel: Type.Optional(Type.Integer({ minimum: 0, description: 'Requests that may run at once.' })),
    ok: Type.Optional(Type.Boolean({ description: 'False when refused; the link then closes.' })),
    reason: text('auth_failed, version_mismatch, no_caps or server_error when ok is false.'),
    error: open('The overload error behind server_error, where a share is used up; detail has retry_after_ms.'),
    extensions: open('Extensions granted, by name.'),
  },
  { ...fromHost, description: 'The terms of the session, or the reason for the refusal.' },
);

export const Ping = Type.Object(
  { ...base, type: Type.Literal('ping') },
  { ...fromAgent, description: 'Liveness, at any time.' },
);

export const Pong = Type.Object(
  {
    ...answer,
    type: Type.Literal('pong'),
    uptime_seconds: Type.Optional(Type.Number({ description: 'Age of the session in seconds.' })),
    host_uptime_seconds: Type.Optional(
      Type.Number({
        description: 'How long the host has been running, in seconds; only where an extension was negotiated.',
      }),
    ),
  },
  { ...fromHost, description: 'Answers ping.' },
);

export const Shutdown = Type.Object(
  {
    ...base,
    type: Type.Literal('shutdown'),
    timeout: Type.Optional(Type.Number({ minimum: 0, description: 'Seconds granted to running work, default 10.' })),
  },
  {
    ...fromAgent,
    description: 'Ends the session: running work may finish and its answers are delivered. Has no answer.',
  },
);

export const ErrorMessage = Type.Object(
  {
    ...answer,
    type: Type.Literal('error'),
    code: Type.String({ description: 'Machine-readable; an open set, see docs/errors.md.' }),
    message: text('For people.'),
    detail: open('More facts; reason distinguishes errors that share a code.'),
    retryable: Type.Optional(Type.Boolean({ description: 'True when the same request may succeed later.' })),
    capability_name: text('The capability the failure belongs to.'),
  },
  { ...fromHost, description: 'The answer to a request that failed, or a protocol error (empty req_id).' },
);

export const Event = Type.Object(
  { ...eventFields, type: Type.Literal('invoke/event') },
  { ...fromHost, description: 'Something that happened while a request runs; always before its answer.' },
);

export const Cancel = Type.Object(
  { ...base, type: Type.Literal('cancel'), req_id: nonEmpty('The request to cancel.') },
  {
    ...fromAgent,
    description:
      'Extension handfast/cancel: cancels the request. Its one reply is then `error` runtime_error with detail.reason "cancelled", unless it was done already.',
  },
);

export const JournalFollowReq = Type.Object(
  {
    ...base,
    type: Type.Literal('journal/follow/req'),
    session_id: text('The session of the journal; empty: the session of the request.'),
    after: Type.Optional(Type.Integer({ minimum: 0, description: 'Entries with a higher cursor, default 0.' })),
    follow: Type.Optional(Type.Boolean({ description: 'Stay and send what arrives, default false.' })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100000, description: 'Entries at most without follow.' })),
  },
  { ...fromAgent, description: 'Extension handfast/journal: reads a session journal as journal/event messages.' },
);

export const JournalEvent = Type.Object(
  { ...eventFields, type: Type.Literal('journal/event') },
  {
    ...fromHost,
    description: 'One journal entry: data is {cursor, ts, kind, request, body} or {kind: "gap", from, to}.',
  },
);

export const JournalFollowResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('journal/follow/resp'),
    last: Type.Integer({ description: 'The last cursor of the session when reading ended.' }),
  },
  { ...fromHost, description: 'Ends journal/follow/req.' },
);

export const CapabilitiesChanged = Type.Object(
  {
    ...answer,
    type: Type.Literal('capabilities/changed/push'),
    capability: Type.String({ description: 'The capability whose offer or lists changed.' }),
    enabled: Type.Optional(Type.Boolean({ description: 'False while the host cannot serve it; default true.' })),
    metadata: open('Its metadata, as a handshake would report them now.'),
  },
  { ...fromHost, description: 'Extension handfast/capabilities: read its lists again. Belongs to no request.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const a2eSchemas = {
  HandshakeReq,
  HandshakeResp,
  Capability,
  Ping,
  Pong,
  ErrorMessage,
  Event,
  Shutdown,
  CapabilitiesChanged,
  Cancel,
  JournalFollowReq,
  JournalEvent,
  JournalFollowResp,
};

export type CapabilitiesChanged = Static<typeof CapabilitiesChanged>;
export type CapabilityGrant = Static<typeof Capability>;
export type HandshakeReq = Static<typeof HandshakeReq>;
export type HandshakeResp = Static<typeof HandshakeResp>;
export type Ping = Static<typeof Ping>;
export type Pong = Static<typeof Pong>;
export type Shutdown = Static<typeof Shutdown>;
export type ErrorMessage = Static<typeof ErrorMessage>;
export type Event = Static<typeof Event>;
export type JournalFollowReq = Static<typeof JournalFollowReq>;
export type JournalFollowResp = Static<typeof JournalFollowResp>;
