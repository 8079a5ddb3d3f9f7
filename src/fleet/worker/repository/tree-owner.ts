/**
 * The owner of the uncommitted work in the shared folder. A task of the same context may continue it; to any other it is dirt
 * that would be mixed up with its own changes.
 *
 * Stored in the journal, since the dirt outlives the process.
 */

export interface TreeOwnerOptions {
  /** The stored owner; undefined: none. */
  readonly kept: string | undefined;
  readonly keep: (owner: string) => void;
}

export class TreeOwner {
  readonly #keep: (owner: string) => void;
  /** Contexts that write now, and the number of tasks of each. */
  readonly #writing = new Map<string, number>();
  #owner: string | null;

  constructor({ kept, keep }: TreeOwnerOptions) {
    this.#keep = keep;
    this.#owner = kept === undefined || kept === '' ? null : kept;
  }

  /** The context all of the dirt belongs to; null: none, or several. */
  get contextId(): string | null {
    return this.#owner;
  }

  /** Notes that a task starts to write. `clean`: the tree was. `context` null: it belongs to no context. */
  begin(context: string | null, clean: boolean): void {
    const alone = this.#writing.size === 0 || (this.#writing.size === 1 && this.#writing.has(context ?? ''));
    this.#writing.set(context ?? '', (this.#writing.get(context ?? '') ?? 0) + 1);
    this.#set(alone && (clean || this.#owner === context) ? context : null);
  }

  /** Notes that it has ended. */
  end(context: string | null, clean: boolean): void {
    const left = (this.#writing.get(context ?? '') ?? 1) - 1;
    if (left > 0) this.#writing.set(context ?? '', left);
    else this.#writing.delete(context ?? '');
    if (clean && this.#writing.size === 0) this.#set(null);
  }

  #set(owner: string | null): void {
    if (owner === this.#owner) return;
    this.#owner = owner;
    this.#keep(owner ?? '');
  }
}
