/**
 * Replies to an agent, and the facts in its own replies. Pure; called by the `acp` backend of the control edge and
 * the `acp` executor of the fleet, each of which decides by itself.
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

/** The JSON Schema of a form an agent wants filled in; undefined for what we offered nothing for. */
export function formSchema(request: CreateElicitationRequest): Readonly<Record<string, unknown>> | undefined {
  const { requestedSchema: schema } = request as { requestedSchema?: unknown };
  if (request.mode !== 'form' || typeof schema !== 'object' || schema === null) return undefined;
  return { type: 'object', ...schema };
}

/** A form that was filled in. */
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

/** Token counts of a prompt, which agents add to its answer ahead of the protocol; undefined where they do not. */
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
