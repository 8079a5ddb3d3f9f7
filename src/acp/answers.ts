/**
 * Replies to an agent, and the facts in the agent's replies. Pure; the control edge and the fleet's executor each
 * decide by themselves which reply to send.
 */
import type {
  CreateElicitationRequest,
  CreateElicitationResponse,
  PermissionOptionKind,
  PromptResponse,
  RequestPermissionRequest,
  RequestPermissionResponse,
} from './sdk.ts';

/** Nothing was decided; nothing is run. */
export const CANCELLED: RequestPermissionResponse = { outcome: { outcome: 'cancelled' } };

/** Selects the agent's option of the first offered kind; cancelled if it offers none of them. */
export function optionOf(
  options: RequestPermissionRequest['options'],
  kinds: readonly PermissionOptionKind[],
): RequestPermissionResponse {
  const [chosen] = kinds.flatMap((kind) => options.filter((option) => option.kind === kind));
  return chosen === undefined ? CANCELLED : { outcome: { outcome: 'selected', optionId: chosen.optionId } };
}

/**
 * Returns the JSON Schema of a form that an agent wants filled in; undefined for a request of another mode, or without
 * a schema.
 */
export function formSchema(request: CreateElicitationRequest): Readonly<Record<string, unknown>> | undefined {
  const { requestedSchema: schema } = request as { requestedSchema?: unknown };
  if (request.mode !== 'form' || typeof schema !== 'object' || schema === null) return undefined;
  return { type: 'object', ...schema };
}

/** Returns the reply that carries a filled-in form. */
export function filledIn(content: Readonly<Record<string, unknown>> | undefined): CreateElicitationResponse {
  type Content = Extract<CreateElicitationResponse, { action: 'accept' }>['content'];
  return { action: 'accept', content: (content ?? {}) as Content };
}

/** Tokens of a prompt. */
export interface PromptTokens {
  readonly input: number;
  readonly output: number;
  readonly thought: number;
  readonly cachedRead: number;
  readonly cachedWrite: number;
  readonly total: number;
}

/**
 * Returns the token counts of a prompt; undefined if there are none. Some agents add them to their reply ahead of the
 * protocol.
 */
export function promptTokens(response: PromptResponse): PromptTokens | undefined {
  const { usage } = response as { usage?: Readonly<Record<string, unknown>> | null };
  if (typeof usage !== 'object' || usage === null) return undefined;
  const count = (name: string): number => {
    const value = usage[name];
    return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;
  };
  const [input, output] = [count('inputTokens'), count('outputTokens')];
  return {
    input,
    output,
    thought: count('thoughtTokens'),
    cachedRead: count('cachedReadTokens'),
    cachedWrite: count('cachedWriteTokens'),
    total: count('totalTokens') || input + output,
  };
}
