/**
 * The methods of session RPC 1.0.0 and Handfast's additions as schemas: parameters and results. Names, parameter kinds
 * and the order of checks of the first block are the protocol's; the second block is additive and announced in
 * `methods` of the handshake.
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
  optionalProse,
  optionalText,
  optionalTexts,
  optionalWord,
  proseParam,
  rpcMethod,
  textParam,
  wordParam,
} from './rpc-shapes.schema.ts';
import {
  AntigravityProfile,
  Approval,
  Loss,
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
import { CHOICE_SOURCES, CREDENTIAL_SOURCES, PROVIDERS } from './session-words.ts';
import { anyObject, flag, may, number, oneOf, orNull, shape, text } from './shapes.schema.ts';

const list = Type.Array;
const object = Type.Object;
const yes = Type.Literal(true);
const session_id = textParam();
/** The result of methods that create or open a session. */
const opened = object({ session_id: text(), state: SessionState });
/** Returns the result of a method that returns its session and more. */
const ofSession = <P extends Readonly<Record<string, TSchema>>>(members: P) =>
  object({ session_id: text(), ...members });

export const handshake = rpcMethod(
  'rpc.handshake',
  'Agrees on the version, lists what can be called, and identifies the client.',
)
  .optionalParams({
    protocol_version: optionalText(),
    strict: optionalFlag(),
    client_name: anything(),
    client_version: anything(),
    token: anything('Addition: required where a token is configured and the link is not stdio of a child.'),
    events: anything(
      'Addition: `false` = no events until `events.subscribe`; absent = all events of all sessions, as 1.0.0 has it.',
    ),
    opt_out_events: anything('Addition: event types (exact, or with a final `*`) this client does not want.'),
    answers_pings: anything(
      'Addition: `true` = the client answers a `system.ping` notification with a `system.ping` request, so that the server notices a silent link.',
    ),
  })
  .returns(
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
      losses: may(list(Loss)),
    }),
  );

export const ping = rpcMethod('system.ping', 'Shows liveness.')
  .anyParams()
  .returns(object({ ok: yes, time: text() }));
export const shutdown = rpcMethod('system.shutdown', 'Ends all turns, then the server.')
  .optionalParams({ reason: optionalText() })
  .returns(object({ accepted: yes, reason: may(text()) }));
export const stateGet = rpcMethod('state.get', 'The state of the server.').anyParams().returns(Snapshot);
export const debugSet = rpcMethod('debug.set', 'Turns `session.debug` events on or off for this connection.')
  .params({ super_debug: flagParam() })
  .returns(object({ super_debug: flag() }));

/** Asks for a bounded state. */
const newestMessages = () =>
  optionalNumber(
    'Addition: at most this many of the newest messages in the state, and no history: it has a bounded size, and `messages_cursor` where there are older ones.',
  );

export const sessionCreate = rpcMethod('session.create', 'Opens a session.')
  .optionalParams({
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
    recall: optionalFlag(),
    mcp_servers: anything(),
  })
  .returns(opened);
export const sessionGet = rpcMethod('session.get', 'All that is known of a session.')
  .params({ session_id, messages: newestMessages() })
  .returns(SessionState);
export const sessionSend = rpcMethod('session.send', 'Starts a turn, or queues its prompt.')
  .params({
    session_id,
    text: optionalProse(),
    enqueue: optionalFlag(),
    images: anything(),
    idempotency_key: optionalText(
      'Addition: names this prompt. The same key again gets the first reply and starts no second turn.',
    ),
  })
  .returns(ofSession({ turn_id: text(), accepted: yes, queued: flag() }));
export const sessionSteer = rpcMethod('session.steer', 'Adds input to the running turn.')
  .params({
    session_id,
    text: proseParam(),
    expected_turn_id: optionalText('The turn it is meant for; where another one runs, it is rejected.'),
    when_late: optionalWord(
      ['report', 'queue'],
      'Its treatment when no round follows: `report` (default, as 1.0.0), or `queue`: it becomes a turn.',
    ),
  })
  .returns(
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
export const sessionInterrupt = rpcMethod('session.interrupt', 'Ends the running turn; the queue continues.')
  .params({ session_id, turn_id: optionalText() })
  .returns(ofSession({ interrupted: flag(), turn_id: may(text()) }));
export const queueList = rpcMethod('session.queue.list', 'The prompts that wait, oldest first.')
  .params({ session_id })
  .returns(ofSession({ queue: list(QueueItem) }));
export const queueClear = rpcMethod('session.queue.clear', 'Drops the prompts that wait.')
  .params({ session_id })
  .returns(ofSession({ cleared_count: number() }));
export const commandExecute = rpcMethod('command.execute', 'Runs a slash command.')
  .params({ session_id, raw_command: proseParam() })
  .returns(object({ handled: flag(), output: may(Type.Unknown()) }));

export const authStatus = rpcMethod('auth.status', 'Which credentials are configured.')
  .anyParams()
  .returns(
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
)
  .optionalParams({ mode: optionalText(), originator: optionalText() })
  .returns(
    object({
      provider: Type.Literal('openai'),
      login_method: oneOf(['browser', 'device_code']),
      account_id: orNull(text()),
    }),
  );
export const connectAntigravity = rpcMethod(
  'auth.connect.antigravity',
  'Signs in to Antigravity; completes when the sign-in has ended.',
)
  .anyParams()
  .returns(object({ provider: Type.Literal('antigravity'), profile: orNull(AntigravityProfile) }));
export const setOpenrouterKey = rpcMethod('auth.set.openrouter_key', 'Stores and checks an OpenRouter key.')
  .params({ api_key: textParam() })
  .returns(
    object({
      configured: flag(),
      model_count: number(),
      source: oneOf(['remote', 'cache', 'fallback']),
      verified: orNull(flag('Addition: whether the provider accepted the key; null = it could not be asked.')),
      message: may(text('Addition: why it was not accepted, or could not be checked.')),
    }),
  );
export const setExaKey = rpcMethod('auth.set.exa_key', 'Stores an Exa key; `skip` removes it.')
  .params({ api_key: textParam() })
  .returns(object({ configured: flag(), skipped: flag() }));
export const onboardingStatus = rpcMethod('onboarding.status', 'Whether the set-up is done.')
  .anyParams()
  .returns(object({ completed: flag() }));
export const onboardingComplete = rpcMethod('onboarding.complete', 'Records that the set-up is done.')
  .anyParams()
  .returns(object({ completed: yes }));

export const modelList = rpcMethod('model.list', 'The models that can be chosen; uses no network.')
  .optionalParams({ provider: optionalText() })
  .returns(
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
)
  .params({
    model_id: textParam(),
    provider: wordParam(PROVIDERS, 'provider must be openai, openrouter, or antigravity'),
    thinking_level: textParam(),
    openrouter_provider: optionalText(),
    session_id: optionalText(),
    compress_immediately: optionalFlag(),
  })
  .returns(
    object({
      selected_model: text(),
      selected_provider: Provider,
      selected_thinking: Thinking,
      selected_openrouter_provider: text(),
      compression: may(anyObject()),
      replaced_thinking: may(
        text('Addition: the requested level, where the model has no such level and another one is used.'),
      ),
    }),
  );
export const openrouterProviders = rpcMethod(
  'model.openrouter.providers',
  'Lists the providers that serve a model on OpenRouter.',
)
  .params({ model_id: textParam() })
  .returns(object({ model_id: text(), providers: list(text()) }));
export const limitsGet = rpcMethod('limits.get', 'Returns the remaining limits of the providers.')
  .anyParams()
  .returns(anyObject());

export const historyList = rpcMethod('history.list', 'Saved chats, newest first.')
  .optionalParams({ limit: optionalNumber(), cursor: optionalNumber(), page_cursor: optionalText() })
  .returns(
    object({
      total: number(),
      cursor: number(),
      limit: number(),
      sessions: list(SavedChat),
      next_cursor: orNull(number()),
      next_page_cursor: orNull(
        text('Addition: opaque, stays valid while chats are written. Pass it as `page_cursor`.'),
      ),
    }),
  );
export const historyGet = rpcMethod('history.get', 'One saved chat with its messages.')
  .optionalParams({ id: optionalText(), last: optionalFlag(), rollout_path: optionalText() })
  .returns(SavedChatRecord);
export const historyClear = rpcMethod(
  'history.clear_session',
  'Empties a session; a running turn is ended first. The saved chat stays.',
)
  .params({ session_id })
  .returns(ofSession({ cleared: yes }));

export const skillsList = rpcMethod('skills.list', 'The skills on disk.')
  .anyParams()
  .returns(
    object({
      directories: list(text()),
      errors: list(text()),
      skills: list(object({ name: text(), description: text(), description_preview: text(), source_path: text() })),
    }),
  );
export const toolsList = rpcMethod('tools.list', 'The tools a model is given.')
  .anyParams()
  .returns(
    object({
      tools: list(
        object({
          name: text(),
          description: text(),
          input_schema: may(anyObject()),
          tokens: may(number('Addition: what its definition costs a model, estimated.')),
        }),
      ),
    }),
  );

// Additions.

export const eventsSubscribe = rpcMethod(
  'events.subscribe',
  'Replays and follows the events of a session, or of the server. From the first call on, only what is subscribed comes.',
)
  .optionalParams({
    session_id: optionalText(),
    after_seq: optionalNumber(),
    types: optionalTexts('Exact types, or prefixes that end in `*`.'),
    role: optionalWord(['driver', 'observer', 'approver'], 'The role of this client in the session; shown to others.'),
  })
  .returns(
    object({
      subscription_id: text(),
      session_id: orNull(text()),
      after_seq: number('Replay starts above this.'),
      last_seq: number('The newest sequence number when the subscription started; replay is complete with it.'),
      gap: orNull(shape('Events that are no longer stored.', { from_seq: number(), to_seq: number() })),
    }),
  );
export const eventsUnsubscribe = rpcMethod('events.unsubscribe', 'Ends a subscription.')
  .params({ subscription_id: textParam() })
  .returns(object({ removed: flag() }));

export const sessionList = rpcMethod('session.list', 'Sessions, the latest changed first; those of earlier runs too.')
  .optionalParams({
    cursor: optionalText(),
    limit: optionalNumber(),
    cwd: optionalText(),
    include_closed: optionalFlag(),
    query: optionalText(),
  })
  .returns(object({ sessions: list(SessionSummary), next_cursor: orNull(text()), total: number() }));
export const sessionLoad = rpcMethod(
  'session.load',
  'Opens a stored session again and replays its events to this client.',
)
  .params({
    session_id,
    messages: newestMessages(),
    after_seq: optionalNumber('Addition: only the events after this number are replayed. Default 0.'),
  })
  .returns(ofSession({ state: SessionState, replayed_to_seq: number() }));
export const sessionResume = rpcMethod('session.resume', 'Opens a stored session again without replay.')
  .params({ session_id, messages: newestMessages() })
  .returns(opened);
export const sessionFork = rpcMethod('session.fork', 'A new session that starts with the conversation of another.')
  .params({
    session_id,
    through_turn_id: optionalText('The last turn that is copied; absent = all of them.'),
    title: optionalText(),
    messages: newestMessages(),
  })
  .returns(opened);
export const sessionClose = rpcMethod('session.close', 'Ends its turns and frees it; it can be loaded again.')
  .params({ session_id })
  .returns(ofSession({ closed: yes }));
export const sessionDelete = rpcMethod('session.delete', 'Removes a session and its events.')
  .params({ session_id })
  .returns(ofSession({ deleted: yes }));
export const sessionRename = rpcMethod('session.rename', 'Gives a session a title.')
  .params({ session_id, title: textParam() })
  .returns(ofSession({ title: text() }));
export const sessionConfigure = rpcMethod(
  'session.configure',
  'Changes what a session decides for itself, from its next turn on.',
)
  .params({
    session_id,
    model: optionalText(),
    provider: optionalText(),
    thinking_level: optionalText(),
    openrouter_provider: optionalText(),
    approvals: optionalWord(['ask', 'allow', 'deny']),
    parallel_tools: optionalFlag(),
    max_rounds: optionalNumber(),
    turn_timeout_ms: optionalNumber(),
    recall: optionalFlag(),
    mode: optionalText(),
  })
  .returns(ofSession({ settings: SessionSettings }));
export const sessionMessages = rpcMethod('session.messages', 'The messages of a session in pages.')
  .params({ session_id, cursor: optionalText(), limit: optionalNumber(), order: optionalWord(['oldest', 'newest']) })
  .returns(
    ofSession({
      messages: list(UiMessage),
      next_cursor: orNull(text('Opaque; null at the end.')),
      total: number(),
      after_seq: may(number('The events after this number have these messages; 0 = unknown, or from the start.')),
    }),
  );
export const sessionTurns = rpcMethod('session.turns', 'The turns of a session and how each ended, newest first.')
  .params({ session_id, cursor: optionalText(), limit: optionalNumber() })
  .returns(
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
export const sessionExport = rpcMethod('session.export', 'The whole session as JSON lines, in pages.')
  .params({ session_id, after_seq: optionalNumber(), limit: optionalNumber() })
  .returns(ofSession({ format: text(), lines: list(text()), next_after_seq: orNull(number()) }));
export const sessionImport = rpcMethod('session.import', 'A new session out of an export.')
  .params({ lines: optionalTexts(), title: optionalText(), cwd: optionalText() })
  .returns(opened);
export const queueRemove = rpcMethod('session.queue.remove', 'Drops one prompt that waits.')
  .params({ session_id, turn_id: textParam() })
  .returns(ofSession({ removed: flag() }));

export const approvalList = rpcMethod('approval.list', 'Pending approvals; `all` also those with an answer.')
  .optionalParams({ session_id: optionalText(), all: optionalFlag() })
  .returns(object({ approvals: list(Approval) }));
export const approvalAnswer = rpcMethod(
  'approval.answer',
  'Answers an approval. The first answer wins; a later one gets the outcome.',
)
  .params({
    approval_id: textParam(),
    decision: optionalWord(['allow', 'deny']),
    remember: optionalWord(['once', 'session', 'directory']),
    content: optionalObject(),
    reason: optionalText('Why it is denied, for the model. At most 2,000 characters.'),
  })
  .returns(object({ approval: Approval, accepted: flag() }));

export const editorNext = rpcMethod(
  'editor.next',
  'Attaches the editor behind this connection to a session of its own, and waits for the next request to it.',
)
  .params({
    session_id,
    reads: optionalFlag('It serves `fs/read_text_file`.'),
    writes: optionalFlag('It serves `fs/write_text_file`.'),
    terminals: optionalFlag('It serves `terminal/*`.'),
  })
  .returns(
    object({
      request_id: text(),
      method: text('As the Agent Client Protocol names it.'),
      params: anyObject('As that protocol has them, without `sessionId`; paths start at the folder of the session.'),
    }),
  );
export const editorReply = rpcMethod('editor.reply', 'Answers a request to an editor.')
  .params({
    session_id,
    request_id: textParam(),
    result: optionalObject('The reply of the editor.'),
    error: optionalText('Why it refused.'),
  })
  .returns(object({ accepted: flag() }));

export const authCancel = rpcMethod('auth.cancel', 'Cancels a running sign-in.')
  .optionalParams({ provider: optionalText() })
  .returns(object({ cancelled: flag() }));
export const authLogout = rpcMethod('auth.logout', 'Removes the credentials of a provider.')
  .params({ provider: textParam() })
  .returns(object({ provider: text(), removed: flag() }));
export const authSetKey = rpcMethod('auth.set.api_key', 'Stores and checks an API key of any provider.')
  .params({ provider: textParam(), api_key: textParam(), base_url: optionalText() })
  .returns(
    object({
      provider: text(),
      configured: yes,
      verified: orNull(flag()),
      model_count: number(),
      message: may(text()),
    }),
  );
export const modelStatus = rpcMethod(
  'model.status',
  'Returns the model that a turn would use, and the providers and backends can be used. Waits a moment for lists that are being read. Holds no key.',
)
  .optionalParams({ session_id: optionalText() })
  .returns(
    object({
      backend: text('The backend of the session; without one, that of new sessions.'),
      choice: orNull(
        object({
          provider: Provider,
          model: text(),
          thinking: Thinking,
          source: oneOf(CHOICE_SOURCES),
          usable: flag('False: its provider has no credential.'),
        }),
      ),
      providers: list(
        object({
          provider: Provider,
          usable: flag(),
          credential: orNull(oneOf(CREDENTIAL_SOURCES)),
          variables: list(text(), {
            description: 'The variables its key is read from; the one that has it comes first.',
          }),
          signs_in: flag('True: it can be signed in to with `auth.connect.*`.'),
          allowed: flag('False: sessions of the caller may not use it.'),
          default_model: orNull(text()),
          model_count: number(),
          audio: may(flag('Prompts to its models may have audio.')),
        }),
      ),
      backends: list(object({ name: text(), label: text(), allowed: flag() })),
      stored_in: oneOf(['keyring', 'file'], 'Where credentials are stored.'),
    }),
  );
export const systemClients = rpcMethod('system.clients', 'The connected clients.')
  .anyParams()
  .returns(
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
