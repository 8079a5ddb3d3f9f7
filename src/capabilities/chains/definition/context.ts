/**
 * What expressions see: the fields of the initial input and, over them, the outputs of nodes by their ids; inside a map also
 * the item. Looked up one by one, so that a node of a long chain costs what its expressions use.
 *
 * Made by the engine and by the dry run for each node.
 */

export interface ContextParts {
  /** The initial input of the run. */
  readonly input: Readonly<Record<string, unknown>>;
  /** Outputs by node id, as far as there are any. */
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

  /** The same for an item of a map: `$.item`, and its number from 0, `$.index`. */
  forItem(value: unknown, index: number): Context {
    return new Context({ input: this.input, outputs: this.outputs, item: { value, index } });
  }

  /** The value of a name; null: there is none. Own members only. */
  get(name: string): unknown {
    if (this.#item !== undefined) {
      if (name === 'item') return this.#item.value ?? null;
      if (name === 'index') return this.#item.index;
    }
    if (this.outputs.has(name)) return this.outputs.get(name) ?? null;
    if (Object.hasOwn(this.input, name)) return this.input[name] ?? null;
    return name === 'input' ? this.input : null;
  }

  /** How many names it has at most. */
  get size(): number {
    return this.outputs.size + Object.keys(this.input).length + 2;
  }

  /** All of it as one object. Costs as much as the run has outputs. */
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
