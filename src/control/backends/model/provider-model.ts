/**
 * The slice of the AI SDK's language model (specification version 4) that this backend uses, in its own words, so that
 * nothing but `sdk.ts` depends on the SDK's packages and their types.
 *
 * A model is asked for one streamed answer at a time and nothing else: tools, rounds, retries and limits are this backend's.
 */

/** JSON as providers attach it to content, below the provider's name. */
export type Json = null | string | number | boolean | readonly Json[] | { readonly [key: string]: Json | undefined };
export type ProviderFields = Readonly<Record<string, { readonly [key: string]: Json | undefined }>>;

interface WithFields {
  readonly providerOptions?: ProviderFields;
}

export type TextPart = WithFields & { readonly type: 'text'; readonly text: string };
export type ReasoningPart = WithFields & { readonly type: 'reasoning'; readonly text: string };
export type ImagePart = WithFields & {
  readonly type: 'file';
  readonly filename?: string;
  readonly mediaType: string;
  /** Base64, without a `data:` prefix. */
  readonly data: { readonly type: 'data'; readonly data: string };
};
export type CallPart = WithFields & {
  readonly type: 'tool-call';
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: unknown;
};
export type ResultPart = WithFields & {
  readonly type: 'tool-result';
  readonly toolCallId: string;
  readonly toolName: string;
  readonly output:
    | { readonly type: 'text' | 'error-text'; readonly value: string }
    | { readonly type: 'content'; readonly value: readonly (TextPart | ImagePart)[] };
};

/** One message of the prompt of a model. */
export type PromptMessage =
  | (WithFields & { readonly role: 'system'; readonly content: string })
  | (WithFields & { readonly role: 'user'; readonly content: readonly (TextPart | ImagePart)[] })
  | (WithFields & { readonly role: 'assistant'; readonly content: readonly (TextPart | ReasoningPart | CallPart)[] })
  | (WithFields & { readonly role: 'tool'; readonly content: readonly ResultPart[] });

export interface FunctionTool {
  readonly type: 'function';
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

/** Amount of thinking of a model, in the SDK's words; the SDK maps them to the setting of each model of each provider. */
export type ReasoningEffort = 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh';

/** One request. */
export interface ModelCall {
  readonly prompt: readonly PromptMessage[];
  readonly tools?: readonly FunctionTool[];
  readonly maxOutputTokens?: number;
  readonly reasoning?: ReasoningEffort;
  readonly providerOptions?: ProviderFields;
  /** Adds the provider's own events to the stream, as `raw` parts. */
  readonly includeRawChunks?: boolean;
  readonly abortSignal: AbortSignal;
}

/** Token counts; undefined = the provider did not report them. */
export interface ReportedUsage {
  readonly inputTokens: { readonly total: number | undefined; readonly cacheRead: number | undefined };
  readonly outputTokens: { readonly total: number | undefined; readonly reasoning: number | undefined };
  /** As the provider sent it. */
  readonly raw?: Readonly<Record<string, unknown>>;
}

interface WithMetadata {
  readonly providerMetadata?: ProviderFields;
}

/** A block of text or reasoning starts or ends. */
export type BlockMark = WithMetadata & {
  readonly type: 'text-start' | 'text-end' | 'reasoning-start' | 'reasoning-end';
  readonly id: string;
};
export type BlockDelta = WithMetadata & {
  readonly type: 'text-delta' | 'reasoning-delta';
  readonly id: string;
  readonly delta: string;
};
export type CallMade = WithMetadata & {
  readonly type: 'tool-call';
  readonly toolCallId: string;
  readonly toolName: string;
  /** JSON, or the text that the model wrote in its place. */
  readonly input: string;
  readonly providerExecuted?: boolean;
};
export type AnswerEnd = WithMetadata & {
  readonly type: 'finish';
  readonly finishReason: {
    readonly unified: 'stop' | 'length' | 'content-filter' | 'tool-calls' | 'error' | 'interrupted' | 'other';
    /** The provider's own word; undefined = it gave none. */
    readonly raw: string | undefined;
  };
  readonly usage: ReportedUsage;
};

/** One piece of an answer. Types that are not listed with members are skipped. */
export type StreamPart =
  | BlockMark
  | BlockDelta
  | CallMade
  | AnswerEnd
  | { readonly type: 'raw'; readonly rawValue: unknown }
  | { readonly type: 'error'; readonly error: unknown }
  | {
      readonly type:
        | 'stream-start'
        | 'response-metadata'
        | 'tool-input-start'
        | 'tool-input-delta'
        | 'tool-input-end'
        | 'tool-result'
        | 'tool-approval-request'
        | 'source'
        | 'file'
        | 'reasoning-file'
        | 'custom'
        | 'ping';
    };

/** A model of a provider, ready to be asked. */
export interface ProviderModel {
  /** Rejects with the SDK's errors; so does reading the stream. */
  doStream(call: ModelCall): PromiseLike<{ readonly stream: ReadableStream<StreamPart> }>;
}
