/**
 * A round model that says the texts of the test, and a toolbox of functions.
 */
import type { ModelPart, RoundModel, RoundRequest } from '../../../src/control/rounds/round-model.ts';
import type { Toolbox, ToolOffer } from '../../../src/control/rounds/toolbox.ts';
import type { ToolCall, ToolDone } from '../../../src/protocol/session-types.ts';

/** One round: its parts, or a function that streams them. Without `finish` one is added. */
export type ScriptedRound =
  | readonly ModelPart[]
  | ((request: RoundRequest) => AsyncIterable<ModelPart> | Iterable<ModelPart>);

export interface ScriptedModel extends RoundModel {
  /** Its requests, with the history as it was then. */
  readonly requests: RoundRequest[];
}

export function scriptedModel(...rounds: readonly ScriptedRound[]): ScriptedModel {
  const requests: RoundRequest[] = [];
  return {
    requests,
    async *stream(request) {
      const round = rounds[requests.length];
      requests.push(request);
      if (round === undefined) throw new Error(`round ${requests.length} is not in the script`);
      yield* typeof round === 'function' ? round(request) : round;
    },
  };
}

export const say = (text: string): ModelPart => ({ type: 'answer', text });

export const call = (callId: string, name: string, input: Readonly<Record<string, unknown>> = {}): ModelPart => ({
  type: 'call',
  callId,
  name,
  input,
});

/** Behaviour of a scripted tool; a plain value is its result. */
type Run = (call: ToolCall, signal: AbortSignal, output: (stream: string, text: string) => void) => unknown;

/** Makes a toolbox of tools by name. Their return value is the result; an error they throw fails the call. */
export function toolboxOf(
  tools: Readonly<Record<string, Run>>,
  offers: Partial<ToolOffer> = {},
): Toolbox & { readonly called: string[] } {
  const called: string[] = [];
  const offerOf = (name: string): ToolOffer => ({
    name,
    description: `the tool ${name}`,
    inputSchema: { type: 'object' },
    risks: ['reads'],
    ...offers,
  });
  return {
    called,
    list: async () => Object.keys(tools).sort().map(offerOf),
    find: (name) => (Object.hasOwn(tools, name) ? offerOf(name) : undefined),
    async call(made, signal, output): Promise<ToolDone> {
      called.push(made.callId);
      const { callId, name, input } = made;
      try {
        return { name, ok: true, input, result: await tools[name]?.(made, signal, output), callId };
      } catch (error) {
        return { name, ok: false, input, result: null, error: (error as Error).message, callId };
      }
    },
  };
}
