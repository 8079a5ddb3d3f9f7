/**
 * The amount of one unit that a task may spend. Spending is counted live from the reports of the one that does the
 * task. A task whose parent runs here spends part of its parent's remainder, so that a job that hands out work does not
 * spend more by it.
 */

/** Share of the budget at which notice is given, in percent. */
const NOTICE_PERCENT = 80;

/** Called once each, and again for a limit that has changed. */
export interface BudgetEvents {
  /** Called when 80 % are spent. */
  notice(spent: number, limit: number): void;
  /** Called when all of it is spent: the task's own budget, or that of a task it is part of. */
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
  /** Amount that ended children have spent. */
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

  /** The current limit; null = none. */
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

  /** Spent by this task and by all tasks that took from its budget. */
  get total(): number {
    let sum = this.#own + this.#ofEnded;
    for (const child of this.#children) sum += child.total;
    return sum;
  }

  /**
   * The amount that is neither spent nor promised to a running child, of this budget and those it is part of; null = no
   * limit.
   */
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

  /** True once the budget of this task, or of a task it is part of, is spent. */
  get isSpent(): boolean {
    const { limit } = this;
    return (limit !== null && this.total >= limit) || this.#parent?.isSpent === true;
  }

  /** Sets the total that the task itself has spent so far; it never falls. */
  spend(own: number): void {
    if (this.#ended || own <= this.#own) return;
    this.#own = own;
    for (let budget: Budget | undefined = this; budget !== undefined; budget = budget.#parent) budget.#check();
  }

  /** Ends the task: its spent amount stays spent, its remainder goes back to the parent. */
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

  /** Handles a changed limit, for the children too. */
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
