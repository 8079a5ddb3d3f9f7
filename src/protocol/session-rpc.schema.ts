/**
 * The methods of session RPC 1.0.0 and our additions as schemas: parameters and results. Names, parameter kinds and the
 * order of checks of the first block are the protocol's; the second block is additive and announced in `methods` of the
 * handshake.
 *
 * `session-rpc.ts` has the method values; the pages and `schema/session-rpc.json` are generated from here too.
 * @see docs/protocol/session-rpc.md#methods
 */
import { type TSchema, Type } from '../wire/schema.ts';
import {
  anything,
  flagParam,
  optionalFlag,
  optionalNumber,
  optionalObject,
  optionalText,
  optionalTexts,
  optionalWord,
  rpcMethod,
  textParam,
  wordParam,
} from './rpc-shapes.schema.ts';
import {
  AntigravityProfile,
  Approval,
  ModelOption,
  Provider,
  QueueItem,
  SavedChat,
  SavedChatRecord,
  SessionSettings,
  SessionState,
  SessionSummary,
  Snapshot,
  StopReason,
  Thinking,
  UiMessage,
  Usage,
} from './session-types.schema.ts';
import { PROVIDERS } from './session-words.ts';
import { anyObject, flag, may, number, oneOf, orNull, text } from './shapes.schema.ts';

const list = Type.Array;
const object = Type.Object;
const yes = Type.Literal(true);
const session_id = textParam();
/** The result of what makes or opens a session. */
const opened = object({ session_id: text(), state: SessionState });
/** The result of a method that returns its session and more. */
const ofSession = <P extends Readonly<Record<string, TSchema>>>(members: P) =>
  object({ session_id: text(), ...members });

export const handshake = rpcMethod(
  'rpc.handshake',
  'Agrees on the version, lists what can be called, and identifies the client.',
  'optional',
  {
    protocol_version: optionalText(),
    strict: optionalFlag(),
    client_name: anything(),
    client_version: anything(),
    token: anything('Addition: required where a token is configured and the link is not stdio of a child.'),
    events: anything(
      'Addition: `false` = no events until `events.subscribe`; absent = all events of all sessions, as 1.0.0 has it.',
    ),
    opt_out_events: anything('Addition: event types (exact, or with a final `*`) this client does not want.'),
  },
  object({
    protocol_version: text(),
    server_name: text(),
    capabilities: object({
      events: flag(),
      command_execute: flag(),
      multi_session: flag(),
      image_inputs: list(text()),
      event_replay: flag('Addition, as all that follow.'),
      approvals: flag(),
      cancel_request: flag(),
      parallel_tools: flag(),
      idempotent_send: flag(),
    }),
    methods: list(text()),
    connection_id: text(),
    principal: text(),
  }),
);

export const ping = rpcMethod('system.ping', 'Shows liveness.', 'ignored', {}, object({ ok: yes, time: text() }));
export const shutdown = rpcMethod(
  'system.shutdown',
  'Ends all turns, then the server.',
  'optional',
  { reason: optionalText() },
  object({ accepted: yes, reason: may(text()) }),
);
export const stateGet = rpcMethod('state.get', 'The state of the server.', 'ignored', {}, Snapshot);
export const debugSet = rpcMethod(
  'debug.set',
  'Turns `session.debug` events on or off for this connection.',
  'required',
  { super_debug: flagParam() },
  object({ super_debug: flag() }),
);

export const sessionCreate = rpcMethod(
  'session.create',
  'Opens a session.',
  'optional',
  {
    title: optionalText(),
    cwd: optionalText(),
    model: optionalText(),
    provider: optionalText(),
    thinking_level: optionalText(),
    backend: optionalText(),
    approvals: optionalWord(['ask', 'allow', 'deny']),
    parallel_tools: optionalFlag(),
    max_rounds: optionalNumber(),
    turn_timeout_ms: optionalNumber(),
    mcp_servers: anything(),
  },
  opened,
);
export const sessionGet = rpcMethod(
  'session.get',
  'All that is known of a session.',
  'required',
  { session_id },
  SessionState,
);
export const sessionSend = rpcMethod(
  'session.send',
  'Starts a turn, or queues its prompt.',
  'required',
  {
    session_id,
    text: optionalText(),
    enqueue: optionalFlag(),
    images: anything(),
    idempotency_key: optionalText(
      'Addition: names this prompt. The same key again gets the first reply and starts no second turn.',
    ),
  },
  ofSession({ turn_id: text(), accepted: yes, queued: flag() }),
);
export const sessionSteer = rpcMethod(
  'session.steer',
  'Adds input to the running turn.',
  'required',
  {
    session_id,
    text: textParam(),
    expected_turn_id: optionalText('The turn it is meant for; where another one runs, it is rejected.'),
    when_late: optionalWord(
      ['report', 'queue'],
      'What becomes of it when no round follows: `report` (default, as 1.0.0), or `queue`: it becomes a turn.',
    ),
  },
  ofSession({
    accepted: flag('As 1.0.0 has it: the text was accepted (injected, queued or started).'),
    outcome: oneOf(
      ['injected', 'queued', 'started', 'rejected'],
      '`injected`: it waits for the next round of the running turn. `rejected`: nothing was stored.',
    ),
    turn_id: orNull(text('The turn it goes to; null when rejected.')),
    steer_id: may(text('Names the text in later `session.steer.*` events.')),
  }),
);
export const sessionInterrupt = rpcMethod(
  'session.interrupt',
  'Ends the running turn; the queue continues.',
  'required',
  { session_id, turn_id: optionalText() },
  ofSession({ interrupted: flag(), turn_id: may(text()) }),
);
export const queueList = rpcMethod(
  'session.queue.list',
  'The prompts that wait, oldest first.',
  'required',
  { session_id },
  ofSession({ queue: list(QueueItem) }),
);
export const queueClear = rpcMethod(
  'session.queue.clear',
  'Drops the prompts that wait.',
  'required',
  { session_id },
  ofSession({ cleared_count: number() }),
);
export const commandExecute = rpcMethod(
  'command.execute',
  'Runs a slash command.',
  'required',
  { session_id, raw_command: textParam() },
  object({ handled: flag(), output: may(Type.Unknown()) }),
);

export const authStatus = rpcMethod(
  'auth.status',
  'Which credentials are configured.',
  'ignored',
  {},
  object({
    enabled_providers: list(Provider),
    has_openai_token: flag(),
    has_openrouter_key: flag(),
    has_antigravity_token: flag(),
    antigravity_profile: orNull(AntigravityProfile),
  }),
);
export const connectOpenai = rpcMethod(
  'auth.connect.openai',
  'Signs in to OpenAI; completes when the sign-in has ended.',
  'optional',
  { mode: optionalText(), originator: optionalText() },
  object({
    provider: Type.Literal('openai'),
    login_method: oneOf(['browser', 'device_code']),
    account_id: orNull(text()),
  }),
);
export const connectAntigravity = rpcMethod(
  'auth.connect.antigravity',
  'Signs in to Antigravity; completes when the sign-in has ended.',
  'ignored',
  {},
  object({ provider: Type.Literal('antigravity'), profile: orNull(AntigravityProfile) }),
);
export const setOpenrouterKey = rpcMethod(
  'auth.set.openrouter_key',
  'Stores and checks an OpenRouter key.',
  'required',
  { api_key: textParam() },
  object({
    configured: flag(),
    model_count: number(),
    source: oneOf(['remote', 'cache', 'fallback']),
    verified: orNull(flag('Addition: whether the provider accepted the key; null = it could not be asked.')),
    message: may(text('Addition: why it was not accepted, or could not be checked.')),
  }),
);
export const setExaKey = rpcMethod(
  'auth.set.exa_key',
  'Stores an Exa key; `skip` removes it.',
  'required',
  { api_key: textParam() },
  object({ configured: flag(), skipped: flag() }),
);
export const onboardingStatus = rpcMethod(
  'onboarding.status',
  'Whether the set-up is done.',
  'ignored',
  {},
  object({ completed: flag() }),
);
export const onboardingComplete = rpcMethod(
  'onboarding.complete',
  'Records that the set-up is done.',
  'ignored',
  {},
  object({ completed: yes }),
);

export const modelList = rpcMethod(
  'model.list',
  'The models that can be chosen; uses no network.',
  'optional',
  { provider: optionalText() },
  object({
    providers: list(Provider),
    models: list(ModelOption),
    selected_model: text(),
    selected_thinking: Thinking,
    selected_provider: orNull(Provider),
    selected_openrouter_provider: text(),
  }),
);
export const modelSelect = rpcMethod(
  'model.select',
  'Chooses the model of every session that has none of its own; `session_id` only says what to compress.',
  'required',
  {
    model_id: textParam(),
    provider: wordParam(PROVIDERS, 'provider must be openai, openrouter, or antigravity'),
    thinking_level: textParam(),
    openrouter_provider: optionalText(),
    session_id: optionalText(),
    compress_immediately: optionalFlag(),
  },
  object({
    selected_model: text(),
    selected_provider: Provider,
    selected_thinking: Thinking,
    selected_openrouter_provider: text(),
    compression: may(anyObject()),
    replaced_thinking: may(
      text('Addition: what was asked for, where the model has no such level and another one is used.'),
    ),
  }),
);
export const openrouterProviders = rpcMethod(
  'model.openrouter.providers',
  'Who serves a model on OpenRouter.',
  'required',
  { model_id: textParam() },
  object({ model_id: text(), providers: list(text()) }),
);
export const limitsGet = rpcMethod(
  'limits.get',
  'What remains of the limits of the providers.',
  'ignored',
  {},
  anyObject(),
);

export const historyList = rpcMethod(
  'history.list',
  'Saved chats, newest first.',
  'optional',
  { limit: optionalNumber(), cursor: optionalNumber(), page_cursor: optionalText() },
  object({
    total: number(),
    cursor: number(),
    limit: number(),
    sessions: list(SavedChat),
    next_cursor: orNull(number()),
    next_page_cursor: orNull(text('Addition: opaque, stays valid while chats are written. Pass it as `page_cursor`.')),
  }),
);
export const historyGet = rpcMethod(
  'history.get',
  'One saved chat with its messages.',
  'optional',
  { id: optionalText(), last: optionalFlag(), rollout_path: optionalText() },
  SavedChatRecord,
);
export const historyClear = rpcMethod(
  'history.clear_session',
  'Empties a session; a running turn is ended first. The saved chat stays.',
  'required',
  { session_id },
  ofSession({ cleared: yes }),
);

export const skillsList = rpcMethod(
  'skills.list',
  'The skills on disk.',
  'ignored',
  {},
  object({
    directories: list(text()),
    errors: list(text()),
    skills: list(object({ name: text(), description: text(), description_preview: text(), source_path: text() })),
  }),
);
export const toolsList = rpcMethod(
  'tools.list',
  'The tools a model is given.',
  'ignored',
  {},
  object({ tools: list(object({ name: text(), description: text(), input_schema: may(anyObject()) })) }),
);

// Additions.

export const eventsSubscribe = rpcMethod(
  'events.subscribe',
  'Replays and follows the events of a session, or of the server. From the first call on, only what is subscribed comes.',
  'optional',
  {
    session_id: optionalText(),
    after_seq: optionalNumber(),
    types: optionalTexts('Exact types, or prefixes that end in `*`.'),
    role: optionalWord(['driver', 'observer', 'approver'], 'What this client is to the session; shown to others.'),
  },
  object({
    subscription_id: text(),
    session_id: orNull(text()),
    after_seq: number('Replay starts above this.'),
    last_seq: number('The newest sequence number when the subscription started; replay is complete with it.'),
    gap: orNull(object({ from_seq: number(), to_seq: number() }, { description: 'Events that are no longer stored.' })),
  }),
);
export const eventsUnsubscribe = rpcMethod(
  'events.unsubscribe',
  'Ends a subscription.',
  'required',
  { subscription_id: textParam() },
  object({ removed: flag() }),
);

export const sessionList = rpcMethod(
  'session.list',
  'Sessions, the latest changed first; those of earlier runs too.',
  'optional',
  {
    cursor: optionalText(),
    limit: optionalNumber(),
    cwd: optionalText(),
    include_closed: optionalFlag(),
    query: optionalText(),
  },
  object({ sessions: list(SessionSummary), next_cursor: orNull(text()), total: number() }),
);
export const sessionLoad = rpcMethod(
  'session.load',
  'Opens a stored session again and replays its events to this client.',
  'required',
  { session_id },
  ofSession({ state: SessionState, replayed_to_seq: number() }),
);
export const sessionResume = rpcMethod(
  'session.resume',
  'Opens a stored session again without replay.',
  'required',
  { session_id },
  opened,
);
export const sessionFork = rpcMethod(
  'session.fork',
  'A new session that starts with the conversation of another.',
  'required',
  {
    session_id,
    through_turn_id: optionalText('The last turn that is copied; absent = all of them.'),
    title: optionalText(),
  },
  opened,
);
export const sessionClose = rpcMethod(
  'session.close',
  'Ends its turns and frees it; it can be loaded again.',
  'required',
  { session_id },
  ofSession({ closed: yes }),
);
export const sessionDelete = rpcMethod(
  'session.delete',
  'Removes a session and its events.',
  'required',
  { session_id },
  ofSession({ deleted: yes }),
);
export const sessionRename = rpcMethod(
  'session.rename',
  'Gives a session a title.',
  'required',
  { session_id, title: textParam() },
  ofSession({ title: text() }),
);
export const sessionConfigure = rpcMethod(
  'session.configure',
  'Changes what a session decides for itself, from its next turn on.',
  'required',
  {
    session_id,
    model: optionalText(),
    provider: optionalText(),
    thinking_level: optionalText(),
    openrouter_provider: optionalText(),
    approvals: optionalWord(['ask', 'allow', 'deny']),
    parallel_tools: optionalFlag(),
    max_rounds: optionalNumber(),
    turn_timeout_ms: optionalNumber(),
    mode: optionalText(),
  },
  ofSession({ settings: SessionSettings }),
);
export const sessionMessages = rpcMethod(
  'session.messages',
  'The messages of a session in pages.',
  'required',
  { session_id, cursor: optionalText(), limit: optionalNumber(), order: optionalWord(['oldest', 'newest']) },
  ofSession({ messages: list(UiMessage), next_cursor: orNull(text('Opaque; null at the end.')), total: number() }),
);
export const sessionTurns = rpcMethod(
  'session.turns',
  'The turns of a session and how each ended, newest first.',
  'required',
  { session_id, cursor: optionalText(), limit: optionalNumber() },
  ofSession({
    turns: list(
      object({
        turn_id: text(),
        prompt: text(),
        started_at: orNull(text()),
        ended_at: orNull(text()),
        stop_reason: orNull(StopReason),
        usage: Usage,
      }),
    ),
    next_cursor: orNull(text()),
  }),
);
export const sessionExport = rpcMethod(
  'session.export',
  'The whole session as JSON lines, in pages.',
  'required',
  { session_id, after_seq: optionalNumber(), limit: optionalNumber() },
  ofSession({ format: text(), lines: list(text()), next_after_seq: orNull(number()) }),
);
export const sessionImport = rpcMethod(
  'session.import',
  'A new session out of an export.',
  'required',
  { lines: optionalTexts(), title: optionalText(), cwd: optionalText() },
  opened,
);
export const queueRemove = rpcMethod(
  'session.queue.remove',
  'Drops one prompt that waits.',
  'required',
  { session_id, turn_id: textParam() },
  ofSession({ removed: flag() }),
);

export const approvalList = rpcMethod(
  'approval.list',
  'Pending approvals; `all` also those with an answer.',
  'optional',
  { session_id: optionalText(), all: optionalFlag() },
  object({ approvals: list(Approval) }),
);
export const approvalAnswer = rpcMethod(
  'approval.answer',
  'Answers an approval. The first answer wins; a later one gets the outcome.',
  'required',
  {
    approval_id: textParam(),
    decision: optionalWord(['allow', 'deny']),
    remember: optionalWord(['once', 'session', 'directory']),
    content: optionalObject(),
  },
  object({ approval: Approval, accepted: flag() }),
);

export const authCancel = rpcMethod(
  'auth.cancel',
  'Cancels a running sign-in.',
  'optional',
  { provider: optionalText() },
  object({ cancelled: flag() }),
);
export const authLogout = rpcMethod(
  'auth.logout',
  'Removes the credentials of a provider.',
  'required',
  { provider: textParam() },
  object({ provider: text(), removed: flag() }),
);
export const authSetKey = rpcMethod(
  'auth.set.api_key',
  'Stores and checks an API key of any provider.',
  'required',
  { provider: textParam(), api_key: textParam(), base_url: optionalText() },
  object({
    provider: text(),
    configured: yes,
    verified: orNull(flag()),
    model_count: number(),
    message: may(text()),
  }),
);
export const systemClients = rpcMethod(
  'system.clients',
  'The connected clients.',
  'ignored',
  {},
  object({
    clients: list(
      object({
        connection_id: text(),
        client_name: orNull(text()),
        client_version: orNull(text()),
        principal: text(),
        transport: text(),
        connected_at: text(),
        subscriptions: list(object({ session_id: orNull(text()), role: text() })),
      }),
    ),
  }),
);
