/**
 * The context that a worker gives an executor, controlled by a test: it records every event and answers questions as the test
 * wants.
 */

import type { Log } from '../../../src/base/log.ts';
import type {
  ExecutorAnswer,
  ExecutorContext,
  ExecutorQuestion,
  ExecutorTask,
} from '../../../src/fleet/executors/executor.ts';
import type { Usage } from '../../../src/protocol/fleet.ts';
import { within } from '../../contract/recorder.ts';

export interface FakeContext extends ExecutorContext {
  readonly progressed: { phase: string; note?: string; percent?: number }[];
  readonly used: Usage[];
  readonly pids: number[];
  readonly health: Map<string, string>;
  readonly asked: ExecutorQuestion[];
  /** Stops the turn, as a worker does. */
  stop(reason?: unknown): void;
  /** Resolves once this holds, looked at with every event. */
  until(holds: (context: FakeContext) => boolean): Promise<void>;
}

export interface FakeContextOptions {
  readonly answer?: (question: ExecutorQuestion) => ExecutorAnswer | Promise<ExecutorAnswer>;
  readonly onUsage?: (usage: Usage, context: FakeContext) => void;
  readonly onHealth?: (found: ReadonlyMap<string, string>, context: FakeContext) => void;
}

export function fakeContext(cwd: string, options: FakeContextOptions = {}): FakeContext {
  const controller = new AbortController();
  const waiting = new Set<() => void>();
  const told = (): void => {
    for (const look of waiting) look();
  };
  const context: FakeContext = {
    cwd,
    signal: controller.signal,
    progressed: [],
    used: [],
    pids: [],
    health: new Map(),
    asked: [],
    stop: (reason) => controller.abort(reason),
    until: (holds) => {
      const met = new Promise<void>((resolve) => {
        const look = (): void => {
          if (!holds(context)) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      });
      return within(met, `${holds}`);
    },
    events: {
      progress(phase, note, percent) {
        context.progressed.push({
          phase,
          ...(note !== undefined && { note }),
          ...(percent !== undefined && { percent }),
        });
        told();
      },
      usage(total) {
        context.used.push(total);
        options.onUsage?.(total, context);
        told();
      },
      started(pid) {
        context.pids.push(pid);
        told();
      },
      mcpHealth(found) {
        for (const [name, health] of found) context.health.set(name, health);
        options.onHealth?.(found, context);
        told();
      },
      async ask(question) {
        context.asked.push(question);
        told();
        return (await options.answer?.(question)) ?? { allowed: false, reason: 'nobody can be asked' };
      },
    },
  };
  return context;
}

/** Returns a task; members that the test does not give are filled in. */
export const taskOf = (prompt: string, fields: Partial<ExecutorTask> = {}): ExecutorTask => ({
  taskId: 't-1',
  contextId: 'c-1',
  prompt,
  tokenBudget: null,
  access: 'write',
  ...fields,
});

/** Makes a log that stores its lines. */
export function fakeLog(): Log & { readonly lines: string[] } {
  const lines: string[] = [];
  const to =
    (level: string) =>
    (message: string, fields?: Record<string, unknown>): void =>
      void lines.push(`${level} ${message}${fields === undefined ? '' : ` ${JSON.stringify(fields)}`}`);
  return { lines, debug: to('debug'), info: to('info'), warn: to('warn'), error: to('error') };
}

/** True while a process exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
