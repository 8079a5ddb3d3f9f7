/**
 * The sessions that are not closed, in the order of their creation, with their owners and the count of each owner.
 *
 * Part of `session-pool.ts`. Counting costs nothing per session, because every change of the server's state reports a count.
 */
export class LiveSessions {
  readonly #owners = new Map<string, string>();
  readonly #counts = new Map<string, number>();

  get size(): number {
    return this.#owners.size;
  }

  has(id: string): boolean {
    return this.#owners.has(id);
  }

  ownerOf(id: string): string | undefined {
    return this.#owners.get(id);
  }

  /** Returns the number of sessions; of one owner, or of all. */
  count(owner?: string): number {
    return owner === undefined ? this.#owners.size : (this.#counts.get(owner) ?? 0);
  }

  /** Number of sessions of each owner. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  /** Returns the ids of sessions; of one owner, or of all. */
  ids(owner?: string): string[] {
    const ids = [...this.#owners.keys()];
    return owner === undefined ? ids : ids.filter((id) => this.#owners.get(id) === owner);
  }

  /** Adds a session. Its owner never changes. */
  add(id: string, owner: string): void {
    if (this.#owners.has(id)) return;
    this.#owners.set(id, owner);
    this.#counts.set(owner, this.count(owner) + 1);
  }

  delete(id: string): void {
    const owner = this.#owners.get(id);
    if (owner === undefined) return;
    this.#owners.delete(id);
    const left = this.count(owner) - 1;
    if (left > 0) this.#counts.set(owner, left);
    else this.#counts.delete(owner);
  }
}
