/**
 * A pair as the orchestrator sees it: starts the client process of one contender on one transport (which starts its
 * server process), asks it for measurements, ends both. Every wait is bounded; a pair that hangs is ended by its pid.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { PROCESS_FLAGS } from './bench.ts';
import type { PairAnswer, PairRequest } from './client-process.ts';
import type { TransportName } from './contenders/contender.ts';
import type { Entry } from './contenders/registry.ts';
import { bounded } from './control.ts';
import type { Measurement, RunSettings } from './workloads/workload.ts';

const START_WAIT_MS = 30_000;
/** On top of the measured time: opening 10,000 sessions, and slow peers that finish a call late. */
const RUN_WAIT_MS = 90_000;
const CLOSE_WAIT_MS = 10_000;

export class Pair {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** Starts a pair. The benchmark of another build's checkout measures it, so that each build is used as its users use it. */
  static async start({ checkout, contender }: Entry, transport: TransportName): Promise<Pair> {
    const child = fork(join(checkout, 'bench', 'client-process.ts'), [contender, transport], {
      execArgv: [...PROCESS_FLAGS],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const pair = new Pair(child);
    try {
      await pair.#answer(START_WAIT_MS);
    } catch (thrown) {
      await pair.#end();
      throw thrown;
    }
    return pair;
  }

  async run(workload: string, settings: RunSettings): Promise<Measurement> {
    const answer = await this.#ask({ run: workload, settings }, settings.durationMs + RUN_WAIT_MS);
    if (!('measurement' in answer)) throw new Error('the client process answered something else');
    return answer.measurement;
  }

  async close(): Promise<void> {
    try {
      await this.#ask({ close: true }, CLOSE_WAIT_MS);
    } catch {
      // The server is ended below in any case; the server process ends with it, because its control socket closes.
    }
    await this.#end();
  }

  async #ask(request: PairRequest, timeoutMs: number): Promise<PairAnswer> {
    if (!this.#child.connected) throw new Error('the client process has ended');
    this.#child.send(request);
    return this.#answer(timeoutMs);
  }

  async #answer(timeoutMs: number): Promise<PairAnswer> {
    const stop = new AbortController();
    const gone = once(this.#child, 'exit', { signal: stop.signal }).then(([code]) => {
      throw new Error(`the client process ended with code ${code}`);
    });
    const answered = once(this.#child, 'message', { signal: stop.signal });
    try {
      const [answer] = (await bounded(
        Promise.race([answered, gone]),
        'no response from the client process',
        timeoutMs,
      )) as [PairAnswer];
      if ('error' in answer) throw new Error(answer.error);
      return answer;
    } finally {
      gone.catch(() => {});
      answered.catch(() => {});
      stop.abort();
    }
  }

  async #end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    // Cut off from here it exits in good order and takes its temporary files with it; by force only when it does not.
    if (this.#child.connected) this.#child.disconnect();
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 2000);
    await exited;
    clearTimeout(timer);
  }
}
