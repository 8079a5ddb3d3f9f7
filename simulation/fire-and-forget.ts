/**
 * The baseline: a message bus that tells nobody anything. Tasks go to the next worker in turn, whatever it is and however it
 * is; workers take them in the order they come and find out on the way what is missing; results are sent three times and
 * then dropped; who hears nothing for fifteen minutes sends the task to the next worker.
 *
 * It is kinder than what it stands for: prose is always understood, failures are always noticed, a connection that is
 * refused costs nothing, and a failure is answered by another try at once.
 */
import type { Measures } from './measures.ts';
import type { Network } from './network.ts';
import { Run } from './run.ts';
import type { Site } from './site.ts';
import type { Plan, VirtualTime } from './virtual-time.ts';
import { EPOCH_MS, type SimTask } from './workload.ts';

export interface FireAndForgetOptions {
  readonly time: VirtualTime;
  readonly network: Network;
  readonly measures: Measures;
  readonly sites: readonly Site[];
}

const TIMEOUT_MS = 900_000;
const MAX_SENDS = 4;
const POSTS_MS = [1000, 2000];
/** Missing tools and servers are noticed after this share of a run. */
const NOTICED_AT = 0.3;

interface Sent {
  readonly task: SimTask;
  sends: number;
  timeout: Plan | undefined;
  ended: boolean;
}

interface Waiting {
  readonly task: SimTask;
  readonly send: number;
}

export class FireAndForget {
  readonly #options: FireAndForgetOptions;
  readonly #tasks = new Map<number, Sent>();
  /** Worker → what waits there. */
  readonly #inboxes = new Map<Site, Waiting[]>();
  #next = 0;
  open = 0;

  constructor(options: FireAndForgetOptions) {
    this.#options = options;
    for (const site of options.sites) this.#inboxes.set(site, []);
  }

  submit(task: SimTask): void {
    this.open += 1;
    const sent: Sent = { task, sends: 0, timeout: undefined, ended: false };
    this.#tasks.set(task.number, sent);
    if (task.cancelAfterMs !== null) {
      // There is no way to stop it: the user just stops waiting.
      this.#options.time.after(task.cancelAfterMs, () => this.#end(sent, 'canceled'));
    }
    this.#send(sent);
  }

  /** Its process is dead, with its inbox. */
  crashed(site: Site): void {
    this.#inboxes.set(site, []);
  }

  #send(sent: Sent): void {
    const { time, network, measures, sites } = this.#options;
    if (sent.ended) return;
    if (sent.sends >= MAX_SENDS) return this.#end(sent, 'given up');
    sent.sends += 1;
    const send = sent.sends;
    let site = sites[this.#next++ % sites.length]!;
    for (let tried = 1; !site.up && tried < sites.length; tried += 1) site = sites[this.#next++ % sites.length]!;
    measures.dispatched();
    network.toWorker(site, () => {
      this.#inboxes.get(site)!.push({ task: sent.task, send });
      this.#work(site);
    });
    time.cancel(sent.timeout);
    sent.timeout = time.after(TIMEOUT_MS, () => this.#send(sent));
  }

  #work(site: Site): void {
    const { time, measures } = this.#options;
    const inbox = this.#inboxes.get(site)!;
    while (site.up && site.runs.size < site.capacity && inbox.length > 0) {
      const { task, send } = inbox.shift()!;
      const { route } = task;
      const small = route.min_context_window !== null && (site.window ?? 0) < route.min_context_window;
      if (site.unmet(route.required_mcp, route.required_capabilities) || small) measures.deadOnArrival(true);
      const limits = { budget: null, deadlineMs: null, noticesAt: NOTICED_AT };
      new Run(site, task, send, time, limits, (run) => {
        measures.ranTo(run);
        if (run.end === 'killed') return;
        this.#report(site, run, 0);
        this.#work(site);
      });
    }
  }

  #report(site: Site, run: Run, posts: number): void {
    const { time, network } = this.#options;
    let arrived = false;
    network.toOrchestrator(site, () => {
      if (arrived) return;
      arrived = true;
      this.#hear(run);
    });
    const again = POSTS_MS[posts];
    if (again === undefined) return;
    time.after(again, () => {
      if (!arrived && site.up) this.#report(site, run, posts + 1);
    });
  }

  #hear(run: Run): void {
    const { time, measures } = this.#options;
    const sent = this.#tasks.get(run.task.number);
    if (sent === undefined || sent.ended) return;
    if (run.end === 'done') {
      const result = {
        type: 'TASK_RESULT',
        protocol_version: '2.0',
        task_id: run.task.task_id,
        status: 'done',
      } as const;
      measures.accepted(run.task, result, run, time.nowMs);
      this.#end(sent, 'done');
    } else if (run.end === 'failed') this.#end(sent, 'error');
    // Something was missing there: somebody reads that and tries the next one.
    else this.#send(sent);
  }

  #end(sent: Sent, state: 'done' | 'error' | 'canceled' | 'given up'): void {
    const { time, measures } = this.#options;
    if (sent.ended) return;
    sent.ended = true;
    this.open -= 1;
    time.cancel(sent.timeout);
    this.#tasks.delete(sent.task.number);
    const ended_at = EPOCH_MS + time.nowMs;
    measures.ended(sent.task, {
      state: state === 'given up' ? 'lost' : state,
      ended_at,
      late_results: [],
      dead_letter: null,
    });
  }
}
