/**
 * The latest events in a simulation, for the report of a broken rule.
 */
import type { VirtualTime } from './virtual-time.ts';

interface Note {
  readonly atMs: number;
  readonly taskId: string;
  readonly what: string;
  readonly more: object | undefined;
}

const REMEMBERED = 4096;
/** Notes about anything that are shown beside those of the task. */
const LAST = 25;

export class Trace {
  readonly #time: VirtualTime;
  readonly #notes: Note[] = [];
  #count = 0;

  constructor(time: VirtualTime) {
    this.#time = time;
  }

  /** Records an event. `taskId` empty: it concerns all tasks. */
  note(taskId: string, what: string, more?: object): void {
    this.#notes[this.#count++ % REMEMBERED] = { atMs: this.#time.nowMs, taskId, what, more };
  }

  /** Returns all stored events of a task, and the latest of all tasks, oldest first. */
  of(taskId: string): readonly string[] {
    const from = Math.max(0, this.#count - REMEMBERED);
    const notes = Array.from({ length: this.#count - from }, (_, at) => this.#notes[(from + at) % REMEMBERED] as Note);
    return notes
      .filter(
        (note, at) => (taskId !== '' && note.taskId === taskId) || note.taskId === '' || at >= notes.length - LAST,
      )
      .map(({ atMs, taskId: id, what, more }) => {
        const seconds = (atMs / 1000).toFixed(3).padStart(10);
        return `${seconds} s  ${id.padEnd(8)} ${what} ${more === undefined ? '' : JSON.stringify(more)}`;
      });
  }
}
