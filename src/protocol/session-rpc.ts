/**
 * The methods of session RPC 1.0.0 and our additions, as values. Names, parameter kinds and the order of checks of the
 * first block are the protocol's; the second block is additive and announced in `methods` of the handshake.
 *
 * Imported by the server (`control/`) and by the client (`control-client/`).
 * @see docs/protocol/session-rpc.md#methods
 */
import { fail } from '../wire/errors.ts';
import {
  anything,
  flag,
  optionalChoice,
  optionalFlag,
  optionalNumber,
  optionalObject,
  optionalText,
  optionalTexts,
  type Param,
  rpcMethod,
  text,
} from './rpc-params.ts';
import type {
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
} from './session-types.ts';
import { PROVIDERS } from './session-types.ts';

/** Version this server speaks; strict handshakes compare it exactly. */
export const SESSION_RPC_VERSION = '1.0.0';

export interface HandshakeResult {
  readonly protocol_version: string;
  readonly server_name: string;
  readonly capabilities: {
    readonly events: boolean;
    readonly command_execute: boolean;
    readonly multi_session: boolean;
    readonly image_inputs: readonly string[];
    // Additions.
    readonly event_replay: boolean;
    readonly approvals: boolean;
    readonly cancel_request: boolean;
    readonly parallel_tools: boolean;
    readonly idempotent_send: boolean;
  };
  readonly methods: readonly string[];
  readonly connection_id: string;
  readonly principal: string;
}

export const handshake = rpcMethod<HandshakeResult>()(
  'rpc.handshake',
  'optional',
  {
    protocol_version: optionalText,
    strict: optionalFlag,
    client_name: anything,
    client_version: anything,
    /** Addition: required where a token is configured and the link is not this process's own stdio. */
    token: anything,
    /** Addition: `false` = no events until `events.subscribe`; absent = all events of all sessions, as 1.0.0 has it. */
    events: anything,
    /** Addition: event types (exact, or with a final `*`) this client does not want. */
    opt_out_events: anything,
  },
  'Agrees on the version, tells what can be called, and says who the client is.',
);

export const ping = rpcMethod<{ ok: true; time: string }>()('system.ping', 'ignored', {}, 'A sign of life.');
export const shutdown = rpcMethod<{ accepted: true; reason?: string }>()(
  'system.shutdown',
  'optional',
  { reason: optionalText },
  'Ends all turns, then the server.',
);
export const stateGet = rpcMethod<Snapshot>()('state.get', 'ignored', {}, "The server's state.");
export const debugSet = rpcMethod<{ super_debug: boolean }>()(
  'debug.set',
  'required',
  { super_debug: flag },
  'Turns `session.debug` events on or off for this connection.',
);

export const sessionCreate = rpcMethod<{ session_id: string; state: SessionState }>()(
  'session.create',
  'optional',
  {
    title: optionalText,
    cwd: optionalText,
    model: optionalText,
    provider: optionalText,
    thinking_level: optionalText,
    backend: optionalText,
    approvals: optionalChoice('ask', 'allow', 'deny'),
    parallel_tools: optionalFlag,
    max_rounds: optionalNumber,
    turn_timeout_ms: optionalNumber,
    mcp_servers: anything,
  },
  'Opens a session.',
);
export const sessionGet = rpcMethod<SessionState>()(
  'session.get',
  'required',
  { session_id: text },
  'All that is known of a session.',
);
export const sessionSend = rpcMethod<{ session_id: string; turn_id: string; accepted: true; queued: boolean }>()(
  'session.send',
  'required',
  {
    session_id: text,
    text: optionalText,
    enqueue: optionalFlag,
    images: anything,
    /** Addition: names this prompt. Sent again under the same key, it is answered as the first time and begins no second turn. */
    idempotency_key: optionalText,
  },
  'Starts a turn, or queues its prompt.',
);
export interface SteerResult {
  readonly session_id: string;
  /** As 1.0.0 has it: the text was taken in (injected, queued or started). */
  readonly accepted: boolean;
  /** `injected`: it waits for the running turn's next round. `rejected`: nothing was kept. */
  readonly outcome: 'injected' | 'queued' | 'started' | 'rejected';
  /** The turn it goes to; null when rejected. */
  readonly turn_id: string | null;
  /** Names the text in later `session.steer.*` events. */
  readonly steer_id?: string;
}
export const sessionSteer = rpcMethod<SteerResult>()(
  'session.steer',
  'required',
  {
    session_id: text,
    text,
    /** The turn it is meant for; another one running = rejected. */
    expected_turn_id: optionalText,
    /** What becomes of it when no round follows: `report` (default, as 1.0.0), or `queue`: it becomes a turn of its own. */
    when_late: optionalChoice('report', 'queue'),
  },
  'Says something to the running turn.',
);
export const sessionInterrupt = rpcMethod<{ session_id: string; interrupted: boolean; turn_id?: string }>()(
  'session.interrupt',
  'required',
  { session_id: text, turn_id: optionalText },
  'Ends the running turn; the queue goes on.',
);
export const queueList = rpcMethod<{ session_id: string; queue: readonly QueueItem[] }>()(
  'session.queue.list',
  'required',
  { session_id: text },
  'The prompts that wait, oldest first.',
);
export const queueClear = rpcMethod<{ session_id: string; cleared_count: number }>()(
  'session.queue.clear',
  'required',
  { session_id: text },
  'Drops the prompts that wait.',
);
export const commandExecute = rpcMethod<{ handled: boolean; output?: unknown }>()(
  'command.execute',
  'required',
  { session_id: text, raw_command: text },
  'Runs a slash command.',
);

export interface AuthStatus {
  readonly enabled_providers: readonly Provider[];
  readonly has_openai_token: boolean;
  readonly has_openrouter_key: boolean;
  readonly has_antigravity_token: boolean;
  readonly antigravity_profile: AntigravityProfile | null;
}
export const authStatus = rpcMethod<AuthStatus>()('auth.status', 'ignored', {}, 'Which credentials are there.');
export const connectOpenai = rpcMethod<{
  provider: 'openai';
  login_method: 'browser' | 'device_code';
  account_id: string | null;
}>()(
  'auth.connect.openai',
  'optional',
  { mode: optionalText, originator: optionalText },
  'Signs in to OpenAI; answers when the sign-in has ended.',
);
export const connectAntigravity = rpcMethod<{ provider: 'antigravity'; profile: AntigravityProfile | null }>()(
  'auth.connect.antigravity',
  'ignored',
  {},
  'Signs in to Antigravity; answers when the sign-in has ended.',
);
export const setOpenrouterKey = rpcMethod<{
  configured: boolean;
  model_count: number;
  source: 'remote' | 'cache' | 'fallback';
  /** Addition: whether the provider took the key; null = it could not be asked. */
  verified: boolean | null;
  /** Addition: why it was not taken, or could not be asked. */
  message?: string;
}>()('auth.set.openrouter_key', 'required', { api_key: text }, 'Stores and checks an OpenRouter key.');
export const setExaKey = rpcMethod<{ configured: boolean; skipped: boolean }>()(
  'auth.set.exa_key',
  'required',
  { api_key: text },
  'Stores an Exa key; `skip` removes it.',
);
export const onboardingStatus = rpcMethod<{ completed: boolean }>()('onboarding.status', 'ignored', {}, 'Set up?');
export const onboardingComplete = rpcMethod<{ completed: true }>()(
  'onboarding.complete',
  'ignored',
  {},
  'Remembers that the set-up is done.',
);

export interface ModelListResult {
  readonly providers: readonly Provider[];
  readonly models: readonly ModelOption[];
  readonly selected_model: string;
  readonly selected_thinking: Thinking;
  readonly selected_provider: Provider | null;
  readonly selected_openrouter_provider: string;
}
export const modelList = rpcMethod<ModelListResult>()(
  'model.list',
  'optional',
  { provider: optionalText },
  'The models that can be chosen; asks no network.',
);
/** A provider, refused with the protocol's own words before the fields behind it are looked at. */
const providerName: Param<Provider> = {
  schema: { enum: PROVIDERS },
  required: true,
  read(value, field, method) {
    const name = text.read(value, field, method);
    if (PROVIDERS.includes(name as Provider)) return name as Provider;
    throw fail('schema_violation', 'provider must be openai, openrouter, or antigravity', { field });
  },
};

export const modelSelect = rpcMethod<{
  selected_model: string;
  selected_provider: Provider;
  selected_thinking: Thinking;
  selected_openrouter_provider: string;
  compression?: Readonly<Record<string, unknown>>;
  /** Addition: what was asked for, where the model has no such level and another one is used. */
  replaced_thinking?: string;
}>()(
  'model.select',
  'required',
  {
    model_id: text,
    provider: providerName,
    thinking_level: text,
    openrouter_provider: optionalText,
    session_id: optionalText,
    compress_immediately: optionalFlag,
  },
  'Chooses the model of every session that has none of its own; `session_id` only says what to compress.',
);
export const openrouterProviders = rpcMethod<{ model_id: string; providers: readonly string[] }>()(
  'model.openrouter.providers',
  'required',
  { model_id: text },
  'Who serves a model on OpenRouter.',
);
export const limitsGet = rpcMethod<Readonly<Record<string, unknown>>>()(
  'limits.get',
  'ignored',
  {},
  "What is left of the providers' limits.",
);

export interface HistoryListResult {
  readonly total: number;
  readonly cursor: number;
  readonly limit: number;
  readonly sessions: readonly SavedChat[];
  readonly next_cursor: number | null;
  /** Addition: opaque, stays true while chats are written. Pass it as `page_cursor`. */
  readonly next_page_cursor: string | null;
}
export const historyList = rpcMethod<HistoryListResult>()(
  'history.list',
  'optional',
  { limit: optionalNumber, cursor: optionalNumber, page_cursor: optionalText },
  'Saved chats, newest first.',
);
export const historyGet = rpcMethod<SavedChatRecord>()(
  'history.get',
  'optional',
  { id: optionalText, last: optionalFlag, rollout_path: optionalText },
  'One saved chat with its messages.',
);
export const historyClear = rpcMethod<{ session_id: string; cleared: true }>()(
  'history.clear_session',
  'required',
  { session_id: text },
  'Empties a session; a running turn is ended first. The saved chat stays.',
);

export const skillsList = rpcMethod<{
  directories: readonly string[];
  errors: readonly string[];
  skills: readonly { name: string; description: string; description_preview: string; source_path: string }[];
}>()('skills.list', 'ignored', {}, 'The skills on disk.');
export const toolsList = rpcMethod<{
  tools: readonly { name: string; description: string; input_schema?: Readonly<Record<string, unknown>> }[];
}>()('tools.list', 'ignored', {}, 'The tools a model is given.');

// Additions.

export const eventsSubscribe = rpcMethod<{
  subscription_id: string;
  session_id: string | null;
  /** Replay starts above this. */
  after_seq: number;
  /** The newest sequence number when the subscription began; replay is complete with it. */
  last_seq: number;
  /** Set when events after `after_seq` are gone. */
  gap: { from_seq: number; to_seq: number } | null;
}>()(
  'events.subscribe',
  'optional',
  {
    session_id: optionalText,
    after_seq: optionalNumber,
    /** Exact types, or prefixes ending in `*`. */
    types: optionalTexts,
    /** What this client is to the session; shown to others. */
    role: optionalChoice('driver', 'observer', 'approver'),
  },
  'Replays and follows the events of a session, or of the server. From the first call on, only what is subscribed comes.',
);
export const eventsUnsubscribe = rpcMethod<{ removed: boolean }>()(
  'events.unsubscribe',
  'required',
  { subscription_id: text },
  'Ends a subscription.',
);

export const sessionList = rpcMethod<{
  sessions: readonly SessionSummary[];
  next_cursor: string | null;
  total: number;
}>()(
  'session.list',
  'optional',
  {
    cursor: optionalText,
    limit: optionalNumber,
    cwd: optionalText,
    include_closed: optionalFlag,
    query: optionalText,
  },
  'Sessions, the latest changed first; those of earlier runs too.',
);
export const sessionLoad = rpcMethod<{ session_id: string; state: SessionState; replayed_to_seq: number }>()(
  'session.load',
  'required',
  { session_id: text },
  'Opens a stored session again and replays its events to this client.',
);
export const sessionResume = rpcMethod<{ session_id: string; state: SessionState }>()(
  'session.resume',
  'required',
  { session_id: text },
  'Opens a stored session again without replay.',
);
export const sessionFork = rpcMethod<{ session_id: string; state: SessionState }>()(
  'session.fork',
  'required',
  {
    session_id: text,
    /** Keeps the conversation up to and with this turn; absent = all of it. */
    through_turn_id: optionalText,
    title: optionalText,
  },
  'A new session that starts with the conversation of another.',
);
export const sessionClose = rpcMethod<{ session_id: string; closed: true }>()(
  'session.close',
  'required',
  { session_id: text },
  'Ends its turns and frees it; it can be loaded again.',
);
export const sessionDelete = rpcMethod<{ session_id: string; deleted: true }>()(
  'session.delete',
  'required',
  { session_id: text },
  'Forgets a session and its events.',
);
export const sessionRename = rpcMethod<{ session_id: string; title: string }>()(
  'session.rename',
  'required',
  { session_id: text, title: text },
  'Gives a session a title.',
);
export const sessionConfigure = rpcMethod<{ session_id: string; settings: SessionSettings }>()(
  'session.configure',
  'required',
  {
    session_id: text,
    model: optionalText,
    provider: optionalText,
    thinking_level: optionalText,
    openrouter_provider: optionalText,
    approvals: optionalChoice('ask', 'allow', 'deny'),
    parallel_tools: optionalFlag,
    max_rounds: optionalNumber,
    turn_timeout_ms: optionalNumber,
    mode: optionalText,
  },
  'Changes what a session decides for itself, from its next turn on.',
);
export const sessionMessages = rpcMethod<{
  session_id: string;
  messages: readonly UiMessage[];
  /** Opaque; null at the end. */
  next_cursor: string | null;
  total: number;
}>()(
  'session.messages',
  'required',
  { session_id: text, cursor: optionalText, limit: optionalNumber, order: optionalChoice('oldest', 'newest') },
  'The messages of a session in pages.',
);
export const sessionTurns = rpcMethod<{
  session_id: string;
  turns: readonly {
    turn_id: string;
    prompt: string;
    started_at: string | null;
    ended_at: string | null;
    stop_reason: StopReason | null;
    usage: Usage;
  }[];
  next_cursor: string | null;
}>()(
  'session.turns',
  'required',
  { session_id: text, cursor: optionalText, limit: optionalNumber },
  'The turns of a session and how each ended, newest first.',
);
export const sessionExport = rpcMethod<{
  session_id: string;
  format: string;
  lines: readonly string[];
  next_after_seq: number | null;
}>()(
  'session.export',
  'required',
  { session_id: text, after_seq: optionalNumber, limit: optionalNumber },
  'The whole session as JSON lines, in pages.',
);
export const sessionImport = rpcMethod<{ session_id: string; state: SessionState }>()(
  'session.import',
  'required',
  { lines: optionalTexts, title: optionalText, cwd: optionalText },
  'A new session out of an export.',
);
export const queueRemove = rpcMethod<{ session_id: string; removed: boolean }>()(
  'session.queue.remove',
  'required',
  { session_id: text, turn_id: text },
  'Drops one prompt that waits.',
);

export const approvalList = rpcMethod<{ approvals: readonly Approval[] }>()(
  'approval.list',
  'optional',
  { session_id: optionalText, all: optionalFlag },
  'Questions that wait for an answer; `all` also those answered.',
);
export const approvalAnswer = rpcMethod<{ approval: Approval; accepted: boolean }>()(
  'approval.answer',
  'required',
  {
    approval_id: text,
    decision: optionalChoice('allow', 'deny'),
    remember: optionalChoice('once', 'session', 'directory'),
    content: optionalObject,
  },
  'Answers a question. The first answer wins; a later one is told what it was.',
);

export const authCancel = rpcMethod<{ cancelled: boolean }>()(
  'auth.cancel',
  'optional',
  { provider: optionalText },
  'Gives up a sign-in that is under way.',
);
export const authLogout = rpcMethod<{ provider: string; removed: boolean }>()(
  'auth.logout',
  'required',
  { provider: text },
  'Removes the credentials of a provider.',
);
export const authSetKey = rpcMethod<{
  provider: string;
  configured: true;
  verified: boolean | null;
  model_count: number;
  message?: string;
}>()(
  'auth.set.api_key',
  'required',
  { provider: text, api_key: text, base_url: optionalText },
  'Stores and checks an API key of any provider.',
);
export const systemClients = rpcMethod<{
  clients: readonly {
    connection_id: string;
    client_name: string | null;
    client_version: string | null;
    principal: string;
    transport: string;
    connected_at: string;
    subscriptions: readonly { session_id: string | null; role: string }[];
  }[];
}>()('system.clients', 'ignored', {}, 'Who is connected.');

/** Every method, by name. */
export const sessionRpcMethods = Object.freeze({
  handshake,
  ping,
  shutdown,
  stateGet,
  debugSet,
  sessionCreate,
  sessionGet,
  sessionSend,
  sessionSteer,
  sessionInterrupt,
  queueList,
  queueClear,
  commandExecute,
  authStatus,
  connectOpenai,
  connectAntigravity,
  setOpenrouterKey,
  setExaKey,
  onboardingStatus,
  onboardingComplete,
  modelList,
  modelSelect,
  openrouterProviders,
  limitsGet,
  historyList,
  historyGet,
  historyClear,
  skillsList,
  toolsList,
  eventsSubscribe,
  eventsUnsubscribe,
  sessionList,
  sessionLoad,
  sessionResume,
  sessionFork,
  sessionClose,
  sessionDelete,
  sessionRename,
  sessionConfigure,
  sessionMessages,
  sessionTurns,
  sessionExport,
  sessionImport,
  queueRemove,
  approvalList,
  approvalAnswer,
  authCancel,
  authLogout,
  authSetKey,
  systemClients,
});
