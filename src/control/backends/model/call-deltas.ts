/**
 * Brings the calls in a stream of chat completions into the form that the SDK reads: a number as the index of each call,
 * arguments as a text, names without white space. Several servers leave the index out, send the arguments as an object, send a
 * whole message in the place of deltas, or name a `function_call`; the SDK refuses such a chunk or loses the call. A line in
 * the right form is not changed.
 */
import { isObject, type JsonObject } from '../../../wire/json.ts';

/** A line with a call, or with a message. */
const OF_INTEREST = /"(?:tool_calls|function_call)"\s*:\s*[[{]|"message"\s*:\s*\{/;

export class CallDeltas {
  /** Index → id, as far as it is known. */
  readonly #calls = new Map<number, string>();
  #hasDeltas = false;

  /** Returns a line of the stream in the right form. */
  repaired(line: string): string {
    if (!OF_INTEREST.test(line)) {
      this.#hasDeltas ||= line.includes('"delta"');
      return line;
    }
    let chunk: unknown;
    try {
      chunk = JSON.parse(line.slice('data:'.length));
    } catch {
      return line;
    }
    const choice = (chunk as { choices?: readonly unknown[] } | null)?.choices?.[0];
    return isObject(choice) && this.#repair(choice) ? `data: ${JSON.stringify(chunk)}` : line;
  }

  /** True when the choice was changed. */
  #repair(choice: JsonObject): boolean {
    let isChanged = false;
    if (isObject(choice.delta)) this.#hasDeltas = true;
    else if (isObject(choice.message) && !this.#hasDeltas) {
      choice.delta = choice.message;
      delete choice.message;
      isChanged = true;
    }
    const { delta } = choice;
    if (!isObject(delta)) return isChanged;
    if (isObject(delta.function_call) && !Array.isArray(delta.tool_calls)) {
      delta.tool_calls = [{ index: 0, type: 'function', function: delta.function_call }];
      delete delta.function_call;
      isChanged = true;
    }
    if (!Array.isArray(delta.tool_calls)) return isChanged;
    for (const call of delta.tool_calls) if (isObject(call) && this.#repairCall(call)) isChanged = true;
    return isChanged;
  }

  #repairCall(call: JsonObject): boolean {
    const id = typeof call.id === 'string' ? call.id : '';
    const made = isObject(call.function) ? call.function : {};
    let isChanged = false;
    if (typeof call.index !== 'number') {
      const isNumber = typeof call.index === 'string' && /^\d{1,4}$/.test(call.index);
      call.index = isNumber ? Number(call.index) : this.#indexOf(id, made.name);
      isChanged = true;
    }
    const index = call.index as number;
    if (id !== '' || !this.#calls.has(index)) this.#calls.set(index, id);
    if (isObject(made.arguments)) {
      made.arguments = JSON.stringify(made.arguments);
      isChanged = true;
    }
    if (typeof made.name === 'string' && made.name !== made.name.trim()) {
      made.name = made.name.trim();
      isChanged = true;
    }
    return isChanged;
  }

  /** Returns the index of a delta that has none: of the call with this id, of a new call, or of the last one. */
  #indexOf(id: string, name: unknown): number {
    const known = id === '' ? undefined : [...this.#calls].find(([, each]) => each === id)?.[0];
    if (known !== undefined) return known;
    const last = Math.max(-1, ...this.#calls.keys());
    const isNew = id !== '' || last === -1 || (typeof name === 'string' && name !== '');
    return isNew ? last + 1 : last;
  }
}
