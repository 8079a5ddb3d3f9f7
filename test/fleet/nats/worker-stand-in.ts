/**
 * A worker that does nothing and records its tasks, in memory or in a file: for tests that count, that kill it, or that measure
 * the bus and not the work.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import type { DispatchOutcome, ReplyChannel, WorkerPort } from '../../../src/fleet/bus/reply-channel.ts';
import type { Dispatched } from '../../../src/fleet/messages/decoded.ts';
import { announceMessage, fleetMessage, resultMessage } from '../../../src/fleet/messages/encode.ts';
import {
  FEATURES,
  type Feature,
  type SessionAnnounce,
  type TaskAck,
  type TaskResult,
} from '../../../src/protocol/fleet.ts';

export interface StandInOptions {
  readonly agentId: string;
  readonly maxConcurrent?: number;
  readonly pools?: readonly string[];
  /** Lines `accepted <task>#<attempt>`, `begun …`, `ended …`: the journal, read again by the next process. */
  readonly journal?: string;
  /** Milliseconds the work takes; renews its lease meanwhile. */
  readonly workMs?: number;
  readonly incarnation?: string;
  /** Called when a dispatch is being decided on. */
  readonly deciding?: (taskId: string) => Promise<void> | void;
  /** Called with `<task>#<attempt>`. */
  readonly begun?: (name: string) => void;
}

export class WorkerStandIn implements WorkerPort {
  readonly agentId: string;
  readonly incarnation: string;
  readonly features: readonly Feature[] = FEATURES;
  readonly pools: readonly string[];
  readonly maxConcurrent: number;
  readonly draining = false;
  activeTasks = 0;
  readonly begun: string[] = [];
  readonly lost: string[] = [];
  readonly #options: StandInOptions;
  /** Ended and begun tasks: their result, once they have one. */
  readonly #known = new Map<string, TaskResult | undefined>();
  readonly #outbox = new Map<string, TaskResult>();
  #outlet: ReplyChannel | undefined;
  #seq = 0;

  constructor(options: StandInOptions) {
    this.#options = options;
    this.agentId = options.agentId;
    this.incarnation = options.incarnation ?? crypto.randomUUID();
    this.maxConcurrent = options.maxConcurrent ?? 8;
    this.pools = options.pools ?? [];
    if (options.journal !== undefined && existsSync(options.journal))
      this.#recover(readFileSync(options.journal, 'utf8'));
  }

  async announce(contextId: string | null = null): Promise<SessionAnnounce> {
    const { agentId: agent_id, incarnation, activeTasks: active_tasks, pools, maxConcurrent: max_concurrent } = this;
    return announceMessage({
      worker: { agent_id, features: [...this.features], pools, max_concurrent, protocol_versions: ['2.0'] },
      capabilities: { tools: [], mcp_servers: [] },
      session: { context_id: contextId, active_tasks, incarnation, seq: ++this.#seq },
    });
  }

  attach(outlet: ReplyChannel): () => void {
    this.#outlet = outlet;
    for (const result of this.#outbox.values()) this.#send(result);
    return () => {
      if (this.#outlet === outlet) this.#outlet = undefined;
    };
  }

  async receive(dispatch: Dispatched): Promise<DispatchOutcome> {
    const { task_id, envelope } = dispatch;
    await this.#options.deciding?.(task_id);
    if (this.#known.has(task_id)) {
      const result = this.#known.get(task_id);
      return result === undefined ? { kind: 'busy', retryAfterS: 1, reason: 'in_flight' } : { kind: 'replay', result };
    }
    const attempt = envelope.attempt ?? 1;
    const name = `${task_id}#${attempt}`;
    this.#write('accepted', name);
    this.#known.set(task_id, undefined);
    this.activeTasks++;
    return {
      kind: 'accepted',
      start: (lease) => {
        this.begun.push(name);
        this.#write('begun', name);
        this.#options.begun?.(name);
        const end = (): void =>
          this.#end(task_id, attempt, { status: 'done', tokens_spent: 1, summary: `fence ${lease.fence}` });
        const { workMs = 0 } = this.#options;
        const release = (): void => void lease.release?.();
        if (workMs === 0) {
          end();
          return release();
        }
        const renewing = setInterval(
          () => {
            lease.renew?.().then(
              (held) => {
                if (held) return;
                clearInterval(renewing);
                clearTimeout(working);
                this.lost.push(name);
                this.#end(task_id, attempt, { status: 'error', error_summary: 'lease lost' });
              },
              () => {},
            );
          },
          (lease.ttlS * 1000) / 3,
        );
        const working = setTimeout(() => {
          clearInterval(renewing);
          end();
          release();
        }, workMs);
      },
      abandon: async () => {
        this.#known.delete(task_id);
        this.activeTasks--;
      },
    };
  }

  refuse(taskId: string | undefined): TaskResult | undefined {
    if (taskId === undefined) return undefined;
    return resultMessage({ task_id: taskId, status: 'blocked', tokens_spent: 0, blocked_reason: 'invalid_dispatch' });
  }

  async handle(message: {
    readonly type: string;
    readonly task_id?: string;
  }): Promise<TaskAck | TaskResult | undefined> {
    const { task_id = '' } = message;
    const state = this.#known.has(task_id) ? 'running' : 'unknown';
    return this.#known.get(task_id) ?? fleetMessage('TASK_ACK', { task_id, accepted: state === 'running', state });
  }

  #end(task_id: string, attempt: number, how: Partial<TaskResult>): void {
    const result = resultMessage({ task_id, status: 'done', ...how }, { attempt, sender: this.agentId });
    this.activeTasks--;
    this.#known.set(task_id, result);
    this.#outbox.set(task_id, result);
    this.#write('ended', `${task_id}#${attempt}`);
    this.#send(result);
  }

  #send(result: TaskResult): void {
    const outlet = this.#outlet;
    outlet?.deliverResult(result).then(
      () => this.#outbox.delete(result.task_id),
      () => setTimeout(() => this.#outbox.has(result.task_id) && this.#send(result), 200).unref(),
    );
  }

  #write(what: string, name: string): void {
    if (this.#options.journal !== undefined) appendFileSync(this.#options.journal, `${what} ${name}\n`);
  }

  /** Reports a task that had begun and not ended as such; it is never begun again. */
  #recover(journal: string): void {
    const begun = new Set<string>();
    for (const line of journal.split('\n')) {
      const [what, name] = line.split(' ');
      if (what === 'begun') begun.add(name!);
      if (what === 'ended') begun.delete(name!);
      const [taskId] = (name ?? '').split('#');
      if (what === 'ended')
        this.#known.set(taskId!, resultMessage({ task_id: taskId!, status: 'done', summary: 'from the journal' }));
    }
    for (const name of begun) {
      const [taskId = '', attempt] = name.split('#');
      const how = { status: 'error', error_summary: 'worker restarted during the task' } as const;
      const result = resultMessage({ task_id: taskId, ...how }, { attempt: Number(attempt) });
      this.#known.set(taskId, result);
      this.#outbox.set(taskId, result);
    }
  }
}
