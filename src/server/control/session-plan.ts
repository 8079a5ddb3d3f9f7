/**
 * The task list of a control session as a plan of the planning capability, so that boards, `handfast plan` and other
 * agents of the user see it and change it.
 *
 * The list of the session is the last list of its model, with later changes by others. When the model writes a new list, the
 * plan is brought to it; its comments and history stay.
 */
import type { PlanningClient, TaskLine } from '../../capabilities/planning/client.ts';
import type { CallOptions } from '../../connection/call.ts';
import type { PlanEntry } from '../../control/contract/session-log.ts';
import type { SessionPlan } from '../../control/rounds/environment.ts';

const COLUMNS = ['pending', 'in_progress', 'completed'] as const;
const PRIORITY = { high: 1, medium: 0, low: -1 };

/** The plan of one control session. */
export class StoredPlan implements SessionPlan {
  readonly #planning: PlanningClient;
  readonly #session: string;
  /** The list is being written: a read in the meantime sees half of it. */
  #writing: Promise<void> = Promise.resolve();

  /** False: only a part of the last list was stored, and a read does not show what others made of it. */
  #isWhole = true;

  /** @param session id of the control session */
  constructor(planning: PlanningClient, session: string) {
    this.#planning = planning;
    this.#session = session;
  }

  put(entries: readonly PlanEntry[], call: CallOptions): Promise<void> {
    const writing = this.#put(entries, call);
    this.#writing = writing.then(
      () => {
        this.#isWhole = true;
      },
      () => {
        this.#isWhole = false;
      },
    );
    return writing;
  }

  /** Makes the plan equal to the entries: tasks are known by their text. Tasks that are no longer in the list are archived. */
  async #put(entries: readonly PlanEntry[], call: CallOptions): Promise<void> {
    const { plan_id } = await this.#plan(call);
    const planning = this.#planning;
    const waiting = new Map<string, string[]>();
    for (const { title, task_id } of await planning.tasks(plan_id, {}, call)) {
      waiting.set(title, [...(waiting.get(title) ?? []), task_id]);
    }
    // One after the other: the board has the order of the list.
    for (const { content, status, priority = 'medium' } of entries) {
      const change = { status, priority: PRIORITY[priority] };
      const known = waiting.get(content)?.shift();
      if (known === undefined) await planning.add(plan_id, content, change, call);
      else await planning.update(plan_id, known, { ...change, force: true }, call);
    }
    for (const left of [...waiting.values()].flat()) await planning.archive(plan_id, left, call);
  }

  async *follow(current: () => readonly PlanEntry[]): AsyncGenerator<readonly PlanEntry[] | undefined> {
    const { plan_id, seq } = (await this.#plan({})) as { plan_id: string; seq?: number };
    const changes = this.#planning.watch(plan_id, seq === undefined ? {} : { after: seq });
    try {
      for (;;) {
        await this.#writing;
        const [written, before] = [this.#writing, current()];
        const tasks = await this.#planning.tasks(plan_id, {});
        // The model said a new list while this one was read.
        if (written !== this.#writing || before !== current()) continue;
        if (this.#isWhole) {
          const found = entriesOf(tasks, before);
          yield isSame(found, before) ? undefined : found;
        }
        if ((await changes.next()).done === true) return;
      }
    } finally {
      await changes.return(undefined);
    }
  }

  /** Returns the plan, which is made where it does not exist. */
  #plan(call: CallOptions) {
    return this.#planning.createPlan(
      `session ${this.#session}`,
      {
        columns: COLUMNS,
        description: `Task list of the session ${this.#session}`,
        rules: { done: ['completed'], active: 'in_progress' },
        key: `session:${this.#session}`,
      },
      call,
    );
  }
}

/** Returns the tasks of a plan as entries: in the order of the list as far as it has them, further ones behind. */
function entriesOf(tasks: readonly TaskLine[], current: readonly PlanEntry[]): PlanEntry[] {
  const left = [...tasks];
  const known = current.flatMap((entry) => {
    const at = left.findIndex(({ title }) => title === entry.content);
    return at === -1 ? [] : left.splice(at, 1).map((task) => entryOf(task, entry));
  });
  return [...known, ...left.map((task) => entryOf(task, undefined))];
}

function entryOf({ title, status, priority }: TaskLine, known: PlanEntry | undefined): PlanEntry {
  // An entry without a priority is a task of the usual one.
  const words = priority > 0 ? 'high' : priority < 0 ? 'low' : known?.priority === undefined ? undefined : 'medium';
  return {
    content: title,
    status: COLUMNS.find((column) => column === status) ?? 'pending',
    ...(words !== undefined && { priority: words }),
  };
}

const isSame = (one: readonly PlanEntry[], other: readonly PlanEntry[]): boolean =>
  one.length === other.length &&
  one.every(
    ({ content, status, priority }, at) =>
      content === other[at]?.content && status === other[at]?.status && priority === other[at]?.priority,
  );
