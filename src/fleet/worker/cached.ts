/** A finding that is expensive to make: cached, renewed when it is too old, never made twice at a time. */

export class Cached<T> {
  readonly #find: () => Promise<T>;
  readonly #monotonic: () => number;
  #value: T;
  #foundAt = Number.NEGATIVE_INFINITY;
  #finding: Promise<T> | undefined;
  /** The one after it. */
  #next: Promise<T> | undefined;
  #again = false;

  /** `find` must not reject. `initial` stands until the first finding. `monotonic` counts milliseconds. */
  constructor(find: () => Promise<T>, initial: T, monotonic: () => number) {
    this.#find = find;
    this.#value = initial;
    this.#monotonic = monotonic;
  }

  /** The last finding, however old. */
  get value(): T {
    return this.#value;
  }

  /** Milliseconds since the last finding; infinite before the first, and after {@link expire}. */
  get ageMs(): number {
    return this.#monotonic() - this.#foundAt;
  }

  /** Expires the last finding, and one that is being made. */
  expire(): void {
    this.#foundAt = Number.NEGATIVE_INFINITY;
    this.#again = this.#finding !== undefined;
  }

  /** Renews the finding, or waits for the one that is being made. */
  renew(): Promise<T> {
    this.#finding ??= this.#run();
    return this.#finding;
  }

  /** Returns a finding that starts after this call. All callers while one is being made share the next. */
  refresh(): Promise<T> {
    if (this.#finding === undefined) return this.renew();
    this.#next ??= this.#finding.then(() => {
      this.#next = undefined;
      return this.renew();
    });
    return this.#next;
  }

  async #run(): Promise<T> {
    try {
      for (;;) {
        this.#again = false;
        const startedAt = this.#monotonic();
        const value = await this.#find();
        if (this.#again) continue;
        this.#foundAt = startedAt;
        this.#value = value;
        return value;
      }
    } finally {
      this.#finding = undefined;
    }
  }
}
