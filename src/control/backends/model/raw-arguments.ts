/**
 * Arguments of tool calls as an OpenAI-style stream has them, before a package has looked at them. OpenRouter's package
 * puts `{}` in the place of arguments that are not JSON, and a tool must not be called with other arguments than the model's.
 *
 * For that provider only.
 */

interface RawCall {
  id: string;
  text: string;
}

export class RawArguments {
  readonly #calls = new Map<number, RawCall>();

  /** Handles an event of the stream. */
  take(event: unknown): void {
    const deltas = (event as RawEvent | null)?.choices?.[0]?.delta?.tool_calls;
    if (!Array.isArray(deltas)) return;
    for (const { index, id, function: called } of deltas as readonly RawDelta[]) {
      const at = typeof index === 'number' ? index : Math.max(0, this.#calls.size - 1);
      let call = this.#calls.get(at);
      if (call === undefined) {
        call = { id: '', text: '' };
        this.#calls.set(at, call);
      }
      if (call.id === '' && typeof id === 'string') call.id = id;
      if (typeof called?.arguments === 'string') call.text += called.arguments;
    }
  }

  /** Returns the arguments of a call as the model wrote them; undefined when the stream does not show them. */
  of(callId: string): string | undefined {
    const calls = [...this.#calls.values()];
    // A provider that names no call has most likely made one.
    return (calls.find(({ id }) => id === callId) ?? calls.find(({ id }) => id === ''))?.text;
  }
}

interface RawEvent {
  readonly choices?: readonly { readonly delta?: { readonly tool_calls?: unknown } }[];
}
interface RawDelta {
  readonly index?: unknown;
  readonly id?: unknown;
  readonly function?: { readonly arguments?: unknown };
}
