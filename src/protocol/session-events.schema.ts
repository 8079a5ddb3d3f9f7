/**
 * The events of session RPC as schemas of their payloads, by type.
 *
 * `session-events.ts` has their types. The tables of docs/protocol/session-rpc.md and `schema/session-rpc.json` are
 * generated from here. `session_id` and `turn_id` are added to each payload by the code that emits it.
 * @see docs/protocol/session-rpc.md#events
 */
import { Type } from '../wire/schema.ts';
import {
  Approval,
  Chunk,
  ContextBreakdown,
  ImageReference,
  Provider,
  SessionSettings,
  Snapshot,
  StopReason,
  ToolCall,
  ToolDone,
  UiMessage,
  Usage,
} from './session-types.schema.ts';
import { anyObject, flag, may, number, orNull, shape, text } from './shapes.schema.ts';

const list = Type.Array;
const object = Type.Object;

/** Members that every terminal event of a turn adds to the payload of 1.0.0. Each turn id gets exactly one terminal event. */
export const TurnEnd = shape('Addition: how a turn ended.', {
  stop_reason: StopReason,
  usage: Usage,
  duration_ms: number(),
});
const turnEnd = TurnEnd.properties;

/** Events of a session that 1.0.0 documents. */
export const documented = {
  'session.status': object({
    pending: flag(),
    status_label: text(),
    detail: may(anyObject('Addition, machine readable: e.g. `retrying` with attempt and delay.')),
  }),
  'session.message.appended': object({ message: UiMessage }),
  'session.stream.chunk': object({ chunk: Chunk }),
  'session.tool.call.started': object({
    data: object({ toolRound: number(), call: ToolCall }),
    tool_kind: may(text('Addition.')),
    risks: may(list(text(), { description: 'Addition.' })),
  }),
  'session.tool.call.completed': object({
    data: object({ toolRound: number(), executed: ToolDone }),
    duration_ms: may(number('Addition.')),
  }),
  'session.tool.results': object({
    data: shape('All calls of the round, in the order in which they were made.', {
      toolRound: number(),
      executed: list(ToolDone),
    }),
  }),
  'session.completed': object({ answer_length: number('UTF-16 units.'), ...turnEnd }),
  'session.interrupted': object({ partial_output: flag(), ...turnEnd }),
  'session.error': object({
    message: text(),
    kind: text('Addition.'),
    retryable: flag('Addition.'),
    reason: may(text('Addition: of a `provider_error`, what the provider refused it for: e.g. `auth`.')),
    ...turnEnd,
  }),
};

/** Events of a session that 1.0.0 sends without documenting them; clients must tolerate them. */
export const undocumented = {
  'session.context.estimate': object({
    provider: orNull(Provider),
    source: text('`history`: estimated, `provider`: counted by it, or `compaction`.'),
    total_tokens_estimate: number(),
    breakdown: ContextBreakdown,
    context_window_tokens: may(number()),
  }),
  'compaction.started': anyObject(
    '`turn_id?`, `reason` (`manual`, `auto`, `provider_switch`), `anchor_event_index_before`, `event_count`, `context_window_tokens`',
  ),
  'compaction.anchor_selected': anyObject(
    '`reason`, `anchor_event_index_before`, `anchor_event_index_after`, `delta_event_count`',
  ),
  'compaction.summary_merged': anyObject('`summary_updated_at`, `anchor_event_index_after`'),
  'compaction.completed': anyObject(
    '`compressed`, `reason`, tokens before and after, `model_context_window`, `target_limit`, `high_watermark_limit`, anchors',
  ),
  'compaction.failed': anyObject('`reason`, `message`'),
  'session.debug': shape('Only for connections that called `debug.set`.', { stage: text(), data: Type.Unknown() }),
};

/** Events of a session that are additions. */
export const additional = {
  'session.created': anyObject(
    '`owner`, `title`, `cwd`, `backend`, `settings`, `parent_session_id`; of a subagent `subagent_id`',
  ),
  'session.turn.queued': object({
    text: text(),
    images: list(ImageReference),
    enqueued_at: text(),
    idempotency_key: may(text('The key its client chose.')),
  }),
  'session.turn.started': object({
    text: text(),
    started_at: text(),
    idempotency_key: may(text('The key of a prompt that did not wait.')),
  }),
  'session.tool.output': shape('Output of a running tool.', { call_id: text(), stream: text(), text: text() }),
  'session.steer.injected': object({ steer_ids: list(text()) }),
  'session.steer.returned': shape('They were not used.', {
    steers: list(object({ id: text(), text: text() })),
    reason: text(),
  }),
  'session.renamed': object({ title: text() }),
  'session.configured': object({ settings: SessionSettings }),
  'session.cleared': anyObject('Messages and history start again, empty.'),
  'session.closed': object({ reason: text() }),
  'session.usage': shape('Of the request, and in total.', { usage: Usage, session_usage: Usage }),
  'session.plan': shape('The plan of the agent as it is now.', {
    entries: list(object({ content: text(), status: text(), priority: may(text()) })),
    elsewhere: may(flag('Others changed it: on a board, or by another agent of the user.')),
  }),
  'session.work': shape(
    'Of a subagent, a run of a chain, or a process, that the model began: also after the end of its turn.',
    {
      work: object({
        id: text('Of the task of the subagent, of the run, or of the process.'),
        kind: Type.Union([Type.Literal('subagent'), Type.Literal('chain'), Type.Literal('process')]),
        name: text(),
        about: text('Its work.'),
        subagent_id: may(text()),
        state: text('running, then how it ended.'),
        result: may(text('JSON of its result, where no call waited for it: the model gets it with the next prompt.')),
      }),
      event: text('started, ended, delivered; in between what the host says: progress, message, a phase of a node.'),
      text: may(text('For people.')),
      delivered: may(flag('With ended: the result of a call has it.')),
    },
  ),
  'approval.requested': object({ approval: Approval }),
  'approval.resolved': shape('With its outcome.', { approval: Approval }),
};

/** Events of the server rather than of one session. */
export const server = {
  'state.changed': object({
    reason: text(),
    snapshot: Snapshot,
    session_id: may(text('Where it is about one session.')),
  }),
  'auth.flow.started': shape(
    'As the others of a sign-in, it goes to the principal that started it and to administrators.',
    { provider: text() },
  ),
  'auth.flow.url': object({ provider: text(), url: text() }),
  'auth.flow.device_code': object({
    provider: text(),
    verification_url: text(),
    user_code: text(),
    interval_seconds: number(),
    expires_in_seconds: number(),
  }),
  'auth.flow.completed': anyObject('The result of the call.'),
  'auth.flow.failed': object({ provider: text(), message: text() }),
};

const ofSubscription = { session_id: orNull(text('Null: of the server.')), subscription_id: may(text()) };

/** Events about the events of one connection: additions that only subscribers get. */
export const connection = {
  'events.gap': shape('Events that are no longer stored. Numbers are inclusive; its `seq` is `to_seq`.', {
    ...ofSubscription,
    from_seq: number(),
    to_seq: number(),
  }),
  'events.ended': shape('The subscription cannot continue. It has no `seq`.', {
    ...ofSubscription,
    kind: text('The name of the error.'),
    message: text(),
  }),
};
