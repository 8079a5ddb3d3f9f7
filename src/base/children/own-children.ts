/**
 * The running children of this process, and their end with it: killed when it exits, ended by the watcher when it is
 * killed, swept at the next start when the watcher has ended too.
 *
 * Costs nothing until the first child.
 */
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { handfastHome } from '../handfast-home.ts';
import { refuseDebuggerSignal } from '../node-program.ts';
import { isShortage } from '../not-started.ts';
import { killNow, type Leader } from './descendants.ts';
import { markerName, startOf } from './process-table.ts';
import { ChildRecord, sweep } from './record.ts';
import { startWatcher } from './watcher.ts';

/** Handfast below Handfast: as many markers as a process carries. */
const MAX_MARKERS = 16;

/** The recognition of a child. */
export interface ChildMark {
  /** Its environment, with the marker. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Text that only this child and its descendants carry. */
  readonly marker: string;
}

class OwnChildren {
  /** Text that all descendants of this process carry. */
  readonly marker = `${randomBytes(16).toString('hex')}.`;
  readonly #running = new Map<number, Leader>();
  #count = 0;
  #record: ChildRecord | undefined;
  #watcher: ChildProcess | undefined;
  /** False before the first child, and where no watcher can be started. */
  #canWatch = process.platform !== 'win32';
  #started = false;

  /** Prepares the start of a child: returns its environment and its marker. */
  mark(env: Readonly<Record<string, string | undefined>>): ChildMark {
    refuseDebuggerSignal();
    if (!this.#started) this.#start();
    if (this.#watcher === undefined && this.#canWatch) this.#watch();
    const marker = `${this.marker}${this.#count++};`;
    // The process that started this one finds these children as well.
    const above = process.env[markerName]?.split(' ').slice(1 - MAX_MARKERS) ?? [];
    return { env: { ...env, [markerName]: [...above, marker].join(' ') }, marker };
  }

  /** Records a running child: if this process exits first, the child is killed. Returns its start time. */
  add(pid: number): number {
    const started = startOf(pid);
    this.#running.set(pid, { pid, started });
    this.#record?.add({ pid, started });
    return started;
  }

  /** Forgets a child that has exited. */
  remove(pid: number): void {
    this.#running.delete(pid);
    this.#record?.remove(pid);
  }

  #start(): void {
    this.#started = true;
    process.on('exit', () => this.#exit());
    if (process.platform === 'win32') return;
    const home = handfastHome(process.env);
    try {
      this.#record = new ChildRecord(home, this.marker);
    } catch {
      // The folder cannot be written to: the marker has to be enough.
    }
    void sweep(home);
  }

  #watch(): void {
    const record = this.#record?.file ?? '';
    const failed = (error: unknown): void => {
      // For want of descriptors or processes it is tried again with the next child.
      if (!isShortage(error)) this.#canWatch = false;
    };
    try {
      this.#watcher = startWatcher({ record, marker: this.marker, since: startOf(process.pid) }, (error) => {
        this.#watcher = undefined;
        if (error !== undefined) failed(error);
      });
    } catch (thrown) {
      failed(thrown);
    }
  }

  #exit(): void {
    if (this.#running.size > 0) killNow([...this.#running.values()]);
    // The watcher looks for those that have left their group. Without it, the next start does by the record.
    if (this.#watcher !== undefined) this.#record?.close();
  }
}

/** The children of this process. */
export const ownChildren = new OwnChildren();
