/**
 * The values that session RPC sends, as schemas: sessions, messages, snapshots, models, approvals. Names are the
 * wire's, whose mixed spelling is part of the contract.
 *
 * `session-types.ts` has their types; `session-rpc.schema.ts` builds methods and events of them.
 * @see docs/protocol/session-rpc.md#types
 */
import { Type } from '../wire/schema.ts';
import { PROVIDERS, STOP_REASONS, THINKING_LEVELS } from './session-words.ts';
import { anyObject, flag, may, number, oneOf, orNull, shape, text } from './shapes.schema.ts';

export const Provider = oneOf(
  PROVIDERS,
  'The first three are those of 1.0.0; the others appear only where they are configured.',
);
export const Thinking = oneOf(THINKING_LEVELS, 'How much a model reasons.');
const list = Type.Array;

export const Image = shape('An image of a prompt, read and checked.', {
  path: text(),
  mimeType: text(),
  dataUrl: text(),
  byteSize: number('Bytes.'),
});

export const ImageReference = shape('An image as a client names it: a data URL wins over a path.', {
  path: text(),
  mime_type: may(text()),
  data_url: may(text()),
});

export const UiMessage = shape('One entry of what a UI shows.', {
  id: number('Grows over all sessions of a data directory.'),
  kind: oneOf(['user', 'assistant', 'system']),
  text: text(),
  images: may(list(Image)),
  unsent: may(
    flag('Addition: true for a prompt whose turn failed before any model was asked. `session.get` leaves those out.'),
  ),
});

export const ChatMessage = shape('One message of what the model is given, without tools.', {
  role: oneOf(['user', 'assistant']),
  text: text(),
  images: may(list(Image)),
});

export const QueueItem = shape('A prompt that waits.', {
  id: text('The turn id that the caller was given.'),
  text: text(),
  images: list(ImageReference),
  enqueuedAt: text('ISO 8601.'),
});

export const ContextBreakdown = shape('The parts of the estimate of a context, in tokens.', {
  pinned_tokens: number(),
  conversation_tokens: number(),
  tool_schema_tokens: number(),
  provider_overhead_tokens: number(),
});

export const Usage = shape('Tokens and cost of a turn or a session, as the provider reported them.', {
  input_tokens: number(),
  output_tokens: number(),
  reasoning_tokens: number(),
  cached_input_tokens: number(),
  total_tokens: number(),
  cost_usd: may(number('Only where the provider reported it.')),
});

export const SessionSettings = shape('The settings of a session; an absent one follows the choice of the server.', {
  model: may(text()),
  provider: may(Provider),
  thinking: may(Thinking),
  openRouterProvider: may(text()),
  backend: may(text('Name of a backend of the server.')),
  parallelTools: may(flag('Tool calls of one round at the same time. Default false, as the protocol has it.')),
  maxRounds: may(number('Most model rounds of a turn.')),
  turnTimeoutMs: may(number('Longest duration of a turn, milliseconds.')),
  approvals: may(
    oneOf(
      ['ask', 'allow', 'deny'],
      '`ask`: the policy decides; `allow`: nothing is asked; `deny`: what would be asked is denied.',
    ),
  ),
  recall: may(flag('False: nothing is recalled from memory at the start of a turn. Default true.')),
  mode: may(text('Mode of the agent behind an ACP session.')),
  agentSession: may(
    shape(
      'The session of the agent behind this one, written by the `acp` backend so that the agent finds its context again after a restart. Holds only where `session` is this session: a fork has its own.',
      { backend: text(), id: text(), session: text() },
    ),
  ),
  mcpServers: may(
    list(anyObject(), {
      description: 'MCP servers of the session, passed to the host once it serves that capability.',
    }),
  ),
});

export const ApprovalAnswer = shape('An answer to an approval.', {
  decision: oneOf(['allow', 'deny']),
  remember: oneOf(
    ['once', 'session', 'directory'],
    'How long the decision holds: this call, this session, or this working directory permanently.',
  ),
  content: may(anyObject('The fields that were filled in, of a question.')),
  reason: may(text('Why it is denied, in the words of the user, for the model.')),
});

export const Approval = shape('A question that waits for an answer, or waited.', {
  id: text(),
  session_id: text(),
  turn_id: text(),
  kind: oneOf(['tool', 'question'], 'The kind of the request: for permission, or for data.'),
  title: text('The request, in one line.'),
  tool: may(shape('Of `tool`: what is to be called.', { name: text(), input: anyObject(), call_id: text() })),
  risks: list(text()),
  reason: text('Why it is asked, e.g. the rule of the policy.'),
  covers: may(text('Of `tool`: what an answer that is remembered would cover, in words, e.g. `shell: npm test …`.')),
  schema: may(anyObject('Of `question`: JSON Schema of the answer’s `content`.')),
  created_at: text(),
  expires_at: text('Without an answer by then, it is denied.'),
  state: oneOf(['pending', 'allowed', 'denied', 'expired', 'cancelled']),
  answer: may(ApprovalAnswer),
  answered_by: may(text('Principal and client name, or the policy.')),
  resolved_at: may(text()),
});

export const SessionState = shape('A session as `session.get` returns it.', {
  id: text(),
  createdAt: text(),
  updatedAt: text(),
  pending: flag(),
  statusLabel: text(),
  messages: list(UiMessage),
  history: list(ChatMessage),
  queue: list(QueueItem),
  pendingSteerCount: number(),
  conversationProvider: orNull(Provider),
  activeSessionId: orNull(text()),
  contextTokenEstimate: number(),
  contextTokenSource: oneOf(['compaction', 'history', 'provider']),
  contextTokenProvider: orNull(Provider),
  contextTokenBreakdown: ContextBreakdown,
  title: text('Addition, as all that follow.'),
  cwd: text(),
  backend: text(),
  turnId: orNull(text('The running turn, or null.')),
  seq: number('Sequence number of the newest event of the session.'),
  closed: flag(),
  settings: SessionSettings,
  usage: Usage,
  approvals: list(Approval),
  message_count: may(number('With `messages` of the request: how many messages there are.')),
  messages_cursor: may(
    orNull(
      text(
        'With `messages` of the request: where the older ones begin, for `session.messages` with the order `newest`.',
      ),
    ),
  ),
  messages_after_seq: may(number('With `messages` of the request: the events after this number have these messages.')),
});

export const SessionSummary = shape('One row of `session.list`.', {
  session_id: text(),
  title: text(),
  owner: text(),
  cwd: text(),
  backend: text(),
  created_at: text(),
  updated_at: text(),
  message_count: number(),
  pending: flag(),
  closed: flag(),
  queue_length: number(),
  approvals_pending: number(),
  parent_session_id: orNull(text('The session this one was forked from, or whose agent made its subagent; or null.')),
  subagent_id: may(text('The subagent whose turns it has.')),
  seq: number(),
});

export const AntigravityProfile = Type.Object({ email: text(), name: text(), picture: may(text()) });

/** Writes of a database of the server that are lost. */
export const Loss = shape(
  'A database of the server that lost its newest writes, until an operator has acknowledged it.',
  {
    code: text('`journal_damaged`.'),
    message: text(),
    acknowledged: flag('True when a write is missing that was acknowledged from the disk.'),
    found_at: text('When it was noticed.'),
  },
);

export const Snapshot = shape('The state of the server.', {
  auth: Type.Object({
    enabledProviders: list(Provider),
    hasOpenAiToken: flag(),
    hasOpenRouterKey: flag(),
    hasAntigravityToken: flag(),
    antigravityProfile: orNull(AntigravityProfile),
  }),
  onboarding: Type.Object({ completed: flag() }),
  model: Type.Object({
    selectedModel: text(),
    selectedThinking: Thinking,
    selectedOpenRouterProvider: text(),
    selectedProvider: orNull(Provider),
  }),
  sessions: Type.Object({ count: number(), ids: list(text()) }),
  skills: Type.Object({ count: number(), directories: list(text()) }),
  losses: may(list(Loss, { description: 'Addition: where databases of the server lost writes.' })),
});

export const ModelOption = Type.Object({
  id: text(),
  provider: Provider,
  displayProvider: may(text()),
  label: text(),
  description: text(),
  supportedThinkingLevels: may(list(Thinking)),
  defaultThinkingLevel: may(Thinking),
  routingProviders: may(list(text())),
  contextWindowTokens: may(number()),
});

export const SavedChat = Type.Object({
  id: text(),
  title: text(),
  provider: Provider,
  model: text(),
  thinkingLevel: Thinking,
  openRouterProvider: may(text()),
  createdAt: text(),
  updatedAt: text(),
  messageCount: number(),
  rolloutPath: text(),
});

export const SavedChatRecord = Type.Object({ ...SavedChat.properties, messages: list(ChatMessage) });

export const Chunk = shape('The new piece: thoughts, or text of the answer.', {
  thoughts: list(text()),
  answerText: text(),
  segments: may(list(Type.Object({ kind: oneOf(['thought', 'answer']), text: text() }))),
});

export const ToolCall = shape('A call the model made.', {
  name: text(),
  input: anyObject(),
  providerToolName: text(),
  callId: text(),
});

export const ToolDone = shape('The outcome of a call.', {
  name: text(),
  ok: flag(),
  input: may(anyObject()),
  result: Type.Unknown(),
  error: may(text()),
  callId: may(text('Addition.')),
});

export const StopReason = oneOf(
  STOP_REASONS,
  'Why a turn ended. `interrupted`: by `session.interrupt` or a cancel; `timeout`: the duration of the turn; `cleared`: the prompt was removed from the queue before it ran; `restart`: the server was killed while it ran or waited; `closed`: the session was closed or deleted.',
);
