/**
 * The disk of the processes of one worker, and the worker's journal over it: the contract of `fleet/worker/journal.ts`
 * in memory, with commits that take a moment.
 */
import {
  type JournaledTask,
  MAX_STORED,
  type NewTask,
  type StoredDeclinedAttempt,
  type TaskAbout,
  type WorkerJournal,
} from '../src/fleet/worker/journal.ts';
import type { DiskWriter } from './disk.ts';

/** Checks of a journal. */
export interface JournalObserver {
  accepted(task: NewTask): void;
  declined(declined: StoredDeclinedAttempt): void;
}

export class WorkerDisk {
  /** Task → its attempts, in order. */
  readonly tasks = new Map<string, JournaledTask[]>();
  /** Task and attempt → which row of the journal it is. */
  readonly numbers = new Map<string, number>();
  readonly declined = new Map<string, StoredDeclinedAttempt>();
  readonly values = new Map<string, string>();

  /** Returns the stored state of the latest attempt at a task. */
  latest(taskId: string): JournaledTask | undefined {
    return this.tasks.get(taskId)?.at(-1);
  }

  /** Removes attempts whose result was delivered, of tasks that are `over`. */
  prune(over: (taskId: string) => boolean): void {
    for (const [taskId, attempts] of this.tasks) {
      if (attempts.every(({ delivered }) => delivered) && over(taskId)) this.tasks.delete(taskId);
    }
    for (const taskId of this.declined.keys()) if (over(taskId)) this.declined.delete(taskId);
  }

  /** Returns every attempt, in the order in which they were accepted. */
  all(): readonly JournaledTask[] {
    const numberOf = ({ taskId, attempt }: JournaledTask): number => this.numbers.get(`${taskId} ${attempt}`) ?? 0;
    return [...this.tasks.values()].flat().sort((one, other) => numberOf(one) - numberOf(other));
  }
}

/** Returns the journal of one process of the worker. */
export function memoryWorkerJournal(
  disk: WorkerDisk,
  writer: DiskWriter,
  observer: JournalObserver | undefined,
): WorkerJournal {
  const change = (taskId: string, attempt: number, to: (task: JournaledTask) => JournaledTask | undefined): void => {
    const attempts = disk.tasks.get(taskId) ?? [];
    const changed = attempts.map((one) => (one.attempt === attempt ? to(one) : one)).filter((one) => one !== undefined);
    if (changed.length === 0) disk.tasks.delete(taskId);
    else disk.tasks.set(taskId, changed);
  };
  let rows = disk.numbers.size;
  const later = (apply: () => void): void => void writer.write(apply);
  return {
    find: (taskId) => disk.latest(taskId),
    result: (taskId, attempt) => disk.tasks.get(taskId)?.find((one) => one.attempt === attempt)?.result ?? null,
    unfinished: () => disk.all().filter(({ state }) => state !== 'ended'),
    undelivered: () => disk.all().filter(({ state, delivered }) => state === 'ended' && !delivered),
    accept: (task) =>
      writer.write(() => {
        const stored: JournaledTask = { ...task, state: 'accepted', processes: [], result: null, delivered: false };
        const others = (disk.tasks.get(task.taskId) ?? []).filter(({ attempt }) => attempt !== task.attempt);
        disk.numbers.set(`${task.taskId} ${task.attempt}`, ++rows);
        disk.tasks.set(
          task.taskId,
          [...others, stored].sort((one, other) => one.attempt - other.attempt),
        );
        observer?.accepted(task);
      }),
    start: (taskId, attempt, about: TaskAbout) =>
      writer.write(() =>
        change(taskId, attempt, (task) => (task.state === 'ended' ? task : { ...task, state: 'started', about })),
      ),
    processes: (taskId, attempt, processes) => later(() => change(taskId, attempt, (task) => ({ ...task, processes }))),
    end: (taskId, attempt, result, crashes = 0) =>
      writer.write(() => {
        const ended = { state: 'ended', result, crashes, delivered: false } as const;
        change(taskId, attempt, (task) => (task.state === 'ended' ? task : { ...task, ...ended }));
      }),
    forget: (taskId, attempt) => writer.write(() => change(taskId, attempt, () => undefined)),
    delivered: (taskId, attempt) =>
      later(() => change(taskId, attempt, (task) => ({ ...task, delivered: task.state === 'ended' }))),
    decline: (declined) =>
      writer.write(() => {
        disk.declined.delete(declined.taskId);
        disk.declined.set(declined.taskId, declined);
        if (disk.declined.size > MAX_STORED) disk.declined.delete(disk.declined.keys().next().value as string);
        observer?.declined(declined);
      }),
    declined: () => [...disk.declined.values()],
    worktrees: () =>
      disk
        .all()
        .flatMap(({ state, delivered, about }) =>
          about.worktree === true && about.cwd !== undefined && (state !== 'ended' || !delivered) ? [about.cwd] : [],
        ),
    value: (key) => disk.values.get(key),
    storeValue: (key, value) => later(() => void disk.values.set(key, value)),
    close: () => {},
  };
}
