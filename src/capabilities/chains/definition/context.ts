/**
 * The values that expressions see: the fields of the initial input and, over them, the outputs of nodes by their ids; inside a
 * map also the item. Names are looked up one by one, so that a node of a long chain costs only the values that its expressions
 * use.
 */

export interface ContextParts {
  /** The initial input of the run. */
  readonly input: Readonly<Record<string, unknown>>;
  /** Outputs by node id, as far as nodes have outputs. */
  readonly outputs: ReadonlyMap<string, unknown>;
  /** Inside a map. */
  readonly item?: { readonly value: unknown; readonly index: number };
}

export class Context {
  readonly input: Readonly<Record<string, unknown>>;
  readonly outputs: ReadonlyMap<string, unknown>;
  readonly #item: ContextParts['item'];

  constructor({ input, outputs, item }: ContextParts) {
    this.input = input;
    this.outputs = outputs;
    this.#item = item;
  }

  /** Returns the context for an item of a map: adds `$.item`, and its number from 0, `$.index`. */
  forItem(value: unknown, index: number): Context {
    return new Context({ input: this.input, outputs: this.outputs, item: { value, index } });
  }

  /** Returns the value of a name; null: the context has no such name. Reads own members only. */
  get(name: string): unknown {
    if (this.#item !== undefined) {
      if (name === 'item') return this.#item.value ?? null;
      if (name === 'index') return this.#item.index;
    }
    if (this.outputs.has(name)) return this.outputs.get(name) ?? null;
    if (Object.hasOwn(this.input, name)) return this.input[name] ?? null;
    return name === 'input' ? this.input : null;
  }

  /** An upper bound of the number of names. */
  get size(): number {
    return this.outputs.size + Object.keys(this.input).length + 2;
  }

  /** Returns the whole context as one object. Costs as much as the run has outputs. */
  whole(): Readonly<Record<string, unknown>> {
    const all = Object.assign(Object.create(null) as Record<string, unknown>, this.input);
    for (const [name, output] of this.outputs) all[name] = output;
    if (this.#item !== undefined) {
      all.item = this.#item.value;
      all.index = this.#item.index;
    }
    return all;
  }
}
