/**
 * The types of the values that session RPC sends, from their schemas in `session-types.schema.ts`.
 *
 * The server and the client share them.
 * @see docs/protocol/session-rpc.md#types
 */
import type { Wire } from '../wire/schema.ts';
import type * as schemas from './session-types.schema.ts';

export {
  CHOICE_SOURCES,
  type ChoiceSource,
  CREDENTIAL_SOURCES,
  type CredentialSource,
  PROVIDERS,
  type Provider,
  type StopReason,
  THINKING_LEVELS,
  type Thinking,
} from './session-words.ts';

/** An image of a prompt, read and checked. `byteSize` in bytes. */
export type Image = Wire<typeof schemas.Image>;
/** An image as a client names it: a data URL wins over a path. */
export type ImageReference = Wire<typeof schemas.ImageReference>;
/** One entry of a UI. */
export type UiMessage = Wire<typeof schemas.UiMessage>;
/** One message of a model's input, without tools. */
export type ChatMessage = Wire<typeof schemas.ChatMessage>;
/** A prompt that waits. `id` is the turn id that its caller was given. */
export type QueueItem = Wire<typeof schemas.QueueItem>;
/** The parts of the estimate of a context, tokens. */
export type ContextBreakdown = Wire<typeof schemas.ContextBreakdown>;
/** A session as `session.get` returns it. */
export type SessionState = Wire<typeof schemas.SessionState>;
/** Settings that a session decides for itself; absent ones follow the choice of the server. */
export type SessionSettings = Wire<typeof schemas.SessionSettings>;
/** Tokens and cost of a turn or a session. Counts are as the provider reported; `cost_usd` only if it did. */
export type Usage = Wire<typeof schemas.Usage>;
/** One row of `session.list`. */
export type SessionSummary = Wire<typeof schemas.SessionSummary>;
/** The state of the server. */
export type Snapshot = Wire<typeof schemas.Snapshot>;
export type AntigravityProfile = Wire<typeof schemas.AntigravityProfile>;
export type ModelOption = Wire<typeof schemas.ModelOption>;
export type SavedChat = Wire<typeof schemas.SavedChat>;
export type SavedChatRecord = Wire<typeof schemas.SavedChatRecord>;
/** A new piece of a running turn: thoughts, or a part of the answer. */
export type Chunk = Wire<typeof schemas.Chunk>;
/** A call the model made. */
export type ToolCall = Wire<typeof schemas.ToolCall>;
/** The outcome of a call. `callId` is an addition. */
export type ToolDone = Wire<typeof schemas.ToolDone>;
/** An answer to an approval. */
export type ApprovalAnswer = Wire<typeof schemas.ApprovalAnswer>;
/** A question that waits for an answer, or waited. */
export type Approval = Wire<typeof schemas.Approval>;
/** The subject of a question to the user. */
export type ApprovalKind = Approval['kind'];

export const NO_USAGE: Usage = {
  input_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  cached_input_tokens: 0,
  total_tokens: 0,
};
