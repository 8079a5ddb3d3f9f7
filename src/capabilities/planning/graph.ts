/**
 * The tasks of one plan as a graph: their dependencies, the ready tasks, and the detection of cycles before they arise.
 *
 * A task waits for its dependencies, and for its parts (the tasks whose parent it is). In memory only; the owner puts every
 * changed task into it. Ready tasks are in a heap for each assignee, so that a claim costs O(log n), even behind any number of
 * tasks that are assigned to others.
 */
import { Heap, type Placed } from '../../base/heap.ts';
import type { Rules } from './planning.schema.ts';
import type { StoredTask } from './stored.ts';

interface Node extends Placed {
  task: StoredTask;
  /** Tasks that name it as a dependency. */
  readonly dependents: Set<Node>;
  /** Tasks whose parent it is. */
  readonly parts: Set<Node>;
}

export class TaskGraph {
  readonly #nodes = new Map<string, Node>();
  /** The ready tasks by assignee; '': tasks without an assignee. */
  readonly #ready = new Map<string, Heap<Node>>();
  #readySize = 0;
  /** Assignees of tasks that became ready, or that changed while they were ready. */
  #newlyReady = new Set<string>();
  #rules: Rules;
  #claimed = 0;
  #done = 0;
  #archived = 0;

  #deps = 0;

  constructor(rules: Rules) {
    this.#rules = rules;
  }

  /** Adds all tasks to an empty graph, task by task; each may wait for any other. */
  *fill(tasks: readonly StoredTask[]): Generator<void, this> {
    for (const task of tasks) {
      yield;
      this.#add(task);
    }
    for (const node of this.#nodes.values()) {
      yield;
      this.#link(node);
    }
    for (const node of this.#nodes.values()) {
      yield;
      this.#place(node);
    }
    this.#newlyReady.clear();
    return this;
  }

  /** The number of dependencies of all tasks. */
  get deps(): number {
    return this.#deps;
  }

  get size(): number {
    return this.#nodes.size;
  }

  /** The numbers of tasks that are not archived, of done, of claimed, and of ready ones. */
  get counts(): { readonly tasks: number; readonly done: number; readonly claimed: number; readonly ready: number } {
    return {
      tasks: this.#nodes.size - this.#archived,
      done: this.#done,
      claimed: this.#claimed,
      ready: this.#readySize,
    };
  }

  get(taskId: string): StoredTask | undefined {
    return this.#nodes.get(taskId)?.task;
  }

  /** Yields all tasks, in the order in which they were added. */
  *tasks(): Generator<StoredTask> {
    for (const { task } of this.#nodes.values()) yield task;
  }

  /** Replaces the rules, which changes the set of done tasks. */
  setRules(rules: Rules): void {
    this.#rules = rules;
    this.#done = 0;
    for (const node of this.#nodes.values()) {
      this.#done += Number(this.#counted(node.task));
      this.#place(node);
    }
  }

  isDone({ status }: Pick<StoredTask, 'status'>): boolean {
    return this.#rules.done.includes(status);
  }

  isReady(taskId: string): boolean {
    const node = this.#nodes.get(taskId);
    return node !== undefined && isPlaced(node);
  }

  /** Returns the dependencies and parts of a task that are not done, each once. */
  blockers(taskId: string): string[] {
    const node = this.#nodes.get(taskId);
    if (node === undefined) return [];
    return [...new Set(this.#waitsFor(node))].filter((one) => !this.isDone(one.task)).map(idOf);
  }

  /** Returns the tasks that depend on this one, and its parts. */
  attached(taskId: string): { readonly dependents: readonly StoredTask[]; readonly parts: readonly StoredTask[] } {
    const node = this.#nodes.get(taskId);
    const tasksOf = (nodes: ReadonlySet<Node> = new Set()) => [...nodes].map(({ task }) => task);
    return { dependents: tasksOf(node?.dependents), parts: tasksOf(node?.parts) };
  }

  /** Returns the first ready task of those that are assigned to this name or to none. */
  next(name: string): StoredTask | undefined {
    const [own, free] = [this.#ready.get(name)?.peek()?.task, this.#ready.get('')?.peek()?.task];
    if (own === undefined || free === undefined) return own ?? free;
    return isBefore(free, own) ? free : own;
  }

  /** Returns the number of ready tasks that are assigned to this name; '': to none. */
  readyFor(assignee: string): number {
    return this.#ready.get(assignee)?.size ?? 0;
  }

  /** Returns the assignees of all ready tasks. */
  readyAssignees(): Iterable<string> {
    return this.#ready.keys();
  }

  /** Returns the assignees of tasks that became ready since the last call. */
  takeNewlyReady(): ReadonlySet<string> {
    const taken = this.#newlyReady;
    this.#newlyReady = new Set();
    return taken;
  }

  /**
   * Returns the ready tasks that are assigned to this name or to none, first by priority, then by age; with `after` only those
   * behind it.
   */
  ready(name: string, after?: StoredTask): StoredTask[] {
    return [...this.#nodes.values()]
      .filter((node) => isPlaced(node) && (node.task.assignee === '' || node.task.assignee === name))
      .map(({ task }) => task)
      .filter((task) => after === undefined || isBefore(after, task))
      .sort((left, right) => (isBefore(left, right) ? -1 : 1));
  }

  /**
   * Returns the cycle that would arise if the task waited for these tasks and were part of that one: ids from the task back to
   * it. Undefined: no cycle.
   */
  cycleWith(taskId: string, deps: readonly string[], parent: string): string[] | undefined {
    const waitsFor = (id: string): string[] => {
      const node = this.#nodes.get(id);
      const parts = [...(node?.parts ?? [])].map(idOf).filter((part) => part !== taskId || parent === id);
      if (id === parent && !parts.includes(taskId)) parts.push(taskId);
      return [...(id === taskId ? deps : (node?.task.deps ?? [])), ...parts];
    };
    // A task that nothing waits for is in no cycle.
    const waitedFor = parent !== '' || (this.#nodes.get(taskId)?.dependents.size ?? 0) > 0;
    if (!waitedFor && !deps.includes(taskId)) return undefined;
    // Every new edge touches the task, so a new cycle passes through it. Without recursion: a chain may be long.
    const cameFrom = new Map<string, string>();
    const open = [taskId];
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      for (const next of waitsFor(id)) {
        if (next === taskId) return pathTo(id, taskId, cameFrom);
        if (cameFrom.has(next)) continue;
        cameFrom.set(next, id);
        open.push(next);
      }
    }
    return undefined;
  }

  /** Adds a task, or replaces it. */
  put(task: StoredTask): void {
    const node = this.#nodes.get(task.task_id);
    if (node === undefined) {
      const added = this.#add(task);
      this.#link(added);
      this.#place(added);
      this.#placeWaiting(added);
      return;
    }
    const before = node.task;
    const relinked = before.deps !== task.deps || before.parent !== task.parent;
    const wasDone = this.isDone(before);
    this.#count(before, -1);
    if (relinked) this.#unlink(node);
    // Its heap compares by the task: removed before the change, added afterwards.
    this.#displace(node);
    node.task = task;
    this.#count(task, 1);
    if (relinked) this.#link(node);
    this.#place(node);
    if (relinked) this.#placeId(before.parent);
    if (relinked || wasDone !== this.isDone(task)) this.#placeWaiting(node);
  }

  remove(taskId: string): void {
    const node = this.#nodes.get(taskId);
    if (node === undefined) return;
    this.#count(node.task, -1);
    this.#displace(node);
    this.#unlink(node);
    this.#nodes.delete(taskId);
    this.#placeWaiting(node);
  }

  #add(task: StoredTask): Node {
    const node: Node = { task, dependents: new Set(), parts: new Set(), heapIndex: -1 };
    this.#nodes.set(task.task_id, node);
    this.#count(task, 1);
    return node;
  }

  #link(node: Node): void {
    for (const id of node.task.deps) this.#nodes.get(id)?.dependents.add(node);
    this.#nodes.get(node.task.parent)?.parts.add(node);
  }

  #unlink(node: Node): void {
    for (const id of node.task.deps) this.#nodes.get(id)?.dependents.delete(node);
    this.#nodes.get(node.task.parent)?.parts.delete(node);
  }

  *#waitsFor(node: Node): Generator<Node> {
    for (const id of node.task.deps) {
      const dependency = this.#nodes.get(id);
      if (dependency !== undefined) yield dependency;
    }
    yield* node.parts;
  }

  #isReady(node: Node): boolean {
    const { task } = node;
    if (task.archived || task.claim !== null || this.isDone(task) || task.status === this.#rules.active) return false;
    for (const other of this.#waitsFor(node)) if (!this.isDone(other.task)) return false;
    return true;
  }

  /** Puts a task into the heap of its assignee or removes it. */
  #place(node: Node): void {
    const ready = this.#isReady(node);
    if (ready === isPlaced(node)) return;
    if (!ready) return this.#displace(node);
    const { assignee } = node.task;
    let heap = this.#ready.get(assignee);
    if (heap === undefined) {
      heap = new Heap<Node>(({ task: left }, { task: right }) => isBefore(left, right));
      this.#ready.set(assignee, heap);
    }
    heap.push(node);
    this.#readySize += 1;
    this.#newlyReady.add(assignee);
  }

  #displace(node: Node): void {
    const { assignee } = node.task;
    const heap = this.#ready.get(assignee);
    if (heap?.remove(node) !== true) return;
    this.#readySize -= 1;
    if (heap.size === 0) this.#ready.delete(assignee);
  }

  /** Places the tasks that wait for a task. */
  #placeWaiting({ task, dependents }: Node): void {
    for (const dependent of dependents) this.#place(dependent);
    this.#placeId(task.parent);
  }

  #placeId(taskId: string): void {
    const node = this.#nodes.get(taskId);
    if (node !== undefined) this.#place(node);
  }

  #counted(task: StoredTask): boolean {
    return this.isDone(task) && !task.archived;
  }

  #count(task: StoredTask, by: 1 | -1): void {
    if (task.claim !== null) this.#claimed += by;
    this.#deps += by * task.deps.length;
    if (task.archived) this.#archived += by;
    if (this.#counted(task)) this.#done += by;
  }
}

const isPlaced = ({ heapIndex }: Node): boolean => heapIndex >= 0;

/** Compares by the order of claims: by priority, then by age. */
const isBefore = (left: StoredTask, right: StoredTask): boolean =>
  left.priority > right.priority || (left.priority === right.priority && left.first < right.first);

const idOf = ({ task }: Node): string => task.task_id;

/** Returns the path from the task to the last one before the task is reached again. */
function pathTo(last: string, taskId: string, cameFrom: ReadonlyMap<string, string>): string[] {
  const path = [taskId];
  for (let id = last; id !== taskId; id = cameFrom.get(id) as string) path.push(id);
  return [...path, taskId].reverse();
}
