/**
 * What a task may spend, of one unit. Counted live from what the one who does it reports; a task whose parent runs here uses a
 * part of what the parent has left, so that a job that hands out work does not spend more by it.
 *
 * Used by workers of the fleet for their tasks, and by the capability multi_agent for subagents: tokens and cost.
 */

/** Share of the budget at which notice is given, in percent. */
const NOTICE_PERCENT = 80;

/** Called once each, and again for a limit that has changed. */
export interface BudgetEvents {
  /** 80 % are spent. */
  notice(spent: number, limit: number): void;
  /** All of it is spent, its own or that of a task it is part of. */
  spent(spent: number, limit: number): void;
}

export class Budget {
  readonly #limit: () => number | null;
  /** The limit when it was last asked for. */
  #known: number | null;
  readonly #parent: Budget | undefined;
  readonly #children = new Set<Budget>();
  readonly #events: BudgetEvents;
  #own = 0;
  /** What children that have ended have spent. */
  #ofEnded = 0;
  #noticed = false;
  #reachedLimit = false;
  #ended = false;

  /** @param limit in the unit of the budget, as all amounts are; null = none. A function for one that may change */
  constructor(limit: number | null | (() => number | null), events: BudgetEvents, parent?: Budget) {
    this.#limit = typeof limit === 'function' ? limit : () => limit;
    this.#known = this.#limit();
    this.#events = events;
    this.#parent = parent;
    if (parent !== undefined) parent.#children.add(this);
  }

  /** As it is now; null = none. */
  get limit(): number | null {
    const limit = this.#limit();
    if (limit !== this.#known) {
      this.#known = limit;
      this.#renew();
    }
    return limit;
  }

  /** Spent by this task alone. */
  get own(): number {
    return this.#own;
  }

  /** Spent by this task and by all that took from it. */
  get total(): number {
    let sum = this.#own + this.#ofEnded;
    for (const child of this.#children) sum += child.total;
    return sum;
  }

  /** What is neither spent nor promised to a child that runs, here and in what this is part of; null = no limit. */
  get left(): number | null {
    const above = this.#parent?.left ?? null;
    const { limit } = this;
    if (limit === null) return above;
    let promised = 0;
    for (const child of this.#children) promised += Math.max(0, (child.limit ?? 0) - child.total);
    const here = Math.max(0, limit - this.total - promised);
    // The parent has subtracted this slice already.
    return here;
  }

  /** True once all of it is spent, its own or that of a task it is part of. */
  get isSpent(): boolean {
    const { limit } = this;
    return (limit !== null && this.total >= limit) || this.#parent?.isSpent === true;
  }

  /** The task's own total so far; never falls. */
  spend(own: number): void {
    if (this.#ended || own <= this.#own) return;
    this.#own = own;
    for (let budget: Budget | undefined = this; budget !== undefined; budget = budget.#parent) budget.#check();
  }

  /** The task has ended: what it spent stays spent, what it had left goes back. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#parent === undefined) return;
    this.#parent.#children.delete(this);
    this.#parent.#ofEnded += this.total;
  }

  #check(): void {
    const { limit } = this;
    if (limit === null || this.#reachedLimit) return;
    const total = this.total;
    if (total >= limit) this.#exhausted(total, limit);
    else if (!this.#noticed && total * 100 >= limit * NOTICE_PERCENT) {
      this.#noticed = true;
      this.#events.notice(total, limit);
    }
  }

  /** The limit is another one, for its children too. */
  #renew(): void {
    this.#noticed = false;
    this.#reachedLimit = false;
    for (const child of this.#children) child.#renew();
  }

  #exhausted(total: number, limit: number): void {
    if (this.#reachedLimit) return;
    this.#reachedLimit = true;
    this.#events.spent(total, limit);
    // Its children have nothing left either.
    for (const child of this.#children) child.#exhausted(total, limit);
  }
}
