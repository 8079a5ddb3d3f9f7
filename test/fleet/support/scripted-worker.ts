/**
 * A worker whose work is done by the test: it keeps a journal and an outbox in memory as a real one keeps them on disk, and
 * a task ends when the test says so, or at once.
 */
import type { DispatchOutcome, Lease, ReplyChannel, WorkerPort } from '../../../src/fleet/bus/reply-channel.ts';
import type { Dispatched, Finding, Incoming } from '../../../src/fleet/messages/decoded.ts';
import { announceMessage, fleetMessage, resultMessage } from '../../../src/fleet/messages/encode.ts';
import {
  FEATURES,
  type Feature,
  type FleetMessage,
  type TaskAck,
  type TaskResult,
} from '../../../src/protocol/fleet.ts';
import { within } from '../../contract/recorder.ts';

export interface ScriptedOptions {
  readonly agentId?: string;
  readonly incarnation?: string;
  readonly features?: readonly Feature[];
  readonly maxConcurrent?: number;
  readonly tools?: readonly string[];
  /** Results by the work of the test, by `finish`; default: each task is done as soon as it begins. */
  readonly byHand?: boolean;
  /** Milliseconds before a result that was not taken is offered again. Default 5. */
  readonly retryMs?: number;
  /** Decides before anything else; undefined: as usual. */
  readonly decide?: (dispatch: Dispatched) => Promise<DispatchOutcome | undefined> | DispatchOutcome | undefined;
  /** Result of an `ended` task. */
  readonly resultOf?: (dispatch: Dispatched) => Partial<TaskResult>;
}

interface Entry {
  readonly dispatch: Dispatched;
  readonly outlet: string;
  state: 'accepted' | 'running' | 'finished';
  result?: TaskResult;
  delivered: boolean;
}

export class ScriptedWorker implements WorkerPort {
  readonly agentId: string;
  readonly incarnation: string;
  readonly features: readonly Feature[];
  readonly pools: readonly string[] = [];
  readonly maxConcurrent: number;
  draining = false;
  /** Every dispatch whose work was begun, in order. */
  readonly begun: string[] = [];
  /** Everything else the orchestrator sent, in order. */
  readonly handled: Incoming[] = [];
  readonly leases: Lease[] = [];
  readonly journal = new Map<string, Entry>();
  announces = 0;
  readonly #options: ScriptedOptions;
  readonly #outlets = new Map<string, ReplyChannel>();
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #watchers = new Set<() => void>();
  #seq = 0;

  constructor(options: ScriptedOptions = {}) {
    this.#options = options;
    this.agentId = options.agentId ?? 'worker-1';
    this.incarnation = options.incarnation ?? 'life-1';
    this.features = options.features ?? FEATURES;
    this.maxConcurrent = options.maxConcurrent ?? 3;
  }

  get activeTasks(): number {
    return [...this.journal.values()].filter(({ state }) => state !== 'finished').length;
  }

  /** Names of the outlets it has now. */
  get attached(): readonly string[] {
    return [...this.#outlets.keys()];
  }

  async announce(contextId: string | null = null) {
    this.announces++;
    return announceMessage({
      worker: {
        agent_id: this.agentId,
        model: 'scripted',
        features: [...this.features],
        max_concurrent: this.maxConcurrent,
        protocol_versions: ['2.0'],
      },
      capabilities: { tools: this.#options.tools ?? ['terminal'], mcp_servers: [] },
      session: {
        context_id: contextId,
        active_tasks: this.activeTasks,
        incarnation: this.incarnation,
        seq: ++this.#seq,
        session_fresh: true,
      },
    });
  }

  attach(outlet: ReplyChannel): () => void {
    this.#outlets.set(outlet.name, outlet);
    for (const entry of this.journal.values()) this.#offer(entry);
    this.#look();
    return () => {
      if (this.#outlets.get(outlet.name) === outlet) this.#outlets.delete(outlet.name);
      this.#look();
    };
  }

  async receive(dispatch: Dispatched, outlet: ReplyChannel): Promise<DispatchOutcome> {
    const decided = await this.#options.decide?.(dispatch);
    if (decided !== undefined) return decided;
    const known = this.journal.get(dispatch.task_id);
    if (known !== undefined && known.dispatch.digest !== dispatch.digest) {
      return { kind: 'refused', result: blocked(dispatch.task_id, 'duplicate_conflict', false) };
    }
    if (known?.result !== undefined) return { kind: 'replay', result: known.result };
    if (known !== undefined) return { kind: 'busy', retryAfterS: 30, reason: 'in_flight' };
    if (this.draining) return { kind: 'refused', result: blocked(dispatch.task_id, 'draining', true) };
    const entry: Entry = { dispatch, outlet: outlet.name, state: 'accepted', delivered: false };
    this.journal.set(dispatch.task_id, entry);
    return {
      kind: 'accepted',
      start: (lease) => {
        this.leases.push(lease);
        this.begun.push(dispatch.task_id);
        entry.state = 'running';
        this.#look();
        if (this.#options.byHand !== true) this.finish(dispatch.task_id, this.#options.resultOf?.(dispatch));
      },
      abandon: async () => {
        this.journal.delete(dispatch.task_id);
      },
    };
  }

  refuse(taskId: string | undefined, errors: readonly Finding[]): TaskResult | undefined {
    if (taskId === undefined) return undefined;
    return blocked(taskId, 'invalid_dispatch', false, errors.map(({ code, path }) => `${code} ${path}`).join(', '));
  }

  async handle(message: Incoming, _outlet: ReplyChannel): Promise<TaskAck | TaskResult | undefined> {
    this.handled.push(message);
    this.#look();
    if (message.type === 'TASK_CANCEL') {
      const entry = this.journal.get(message.task_id);
      if (entry !== undefined && entry.result === undefined) {
        this.finish(message.task_id, { status: 'error', error_summary: 'canceled' });
        return undefined;
      }
      return entry?.result;
    }
    if (message.type === 'TASK_POLL') {
      const entry = this.journal.get(message.task_id);
      if (entry?.result !== undefined) return entry.result;
      const state = entry?.state ?? 'unknown';
      return fleetMessage('TASK_ACK', { task_id: message.task_id, accepted: entry !== undefined, state });
    }
    if (message.type === 'TASK_ACK') {
      const entry = this.journal.get(message.task_id);
      if (entry !== undefined) entry.delivered = true;
      this.#look();
    }
    return undefined;
  }

  // Actions of the test.

  /** Ends a task; its result stays in the outbox until it is acknowledged. */
  finish(taskId: string, result: Partial<TaskResult> = {}): void {
    const entry = this.journal.get(taskId);
    if (entry === undefined || entry.result !== undefined) return;
    entry.state = 'finished';
    entry.result = resultMessage(
      { task_id: taskId, status: 'done', tokens_spent: 7, ...result },
      { attempt: entry.dispatch.envelope.attempt },
    );
    this.#offer(entry);
  }

  tell(message: FleetMessage): void {
    for (const outlet of this.#outlets.values()) outlet.send(message);
  }

  /** Results that are not acknowledged yet. */
  get outbox(): readonly string[] {
    return [...this.journal.values()]
      .filter(({ result, delivered }) => result !== undefined && !delivered)
      .map(({ dispatch }) => dispatch.task_id);
  }

  until(condition: () => boolean, what: string): Promise<void> {
    const met = new Promise<void>((resolve) => {
      const look = (): void => {
        if (!condition()) return;
        this.#watchers.delete(look);
        resolve();
      };
      this.#watchers.add(look);
      look();
    });
    return within(met, what);
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#outlets.clear();
  }

  #offer(entry: Entry): void {
    const outlet = this.#outlets.get(entry.outlet);
    if (outlet === undefined || entry.result === undefined || entry.delivered) return;
    outlet.deliverResult(entry.result).then(
      () => {
        entry.delivered = true;
        this.#look();
      },
      () => {
        const timer = setTimeout(() => {
          this.#timers.delete(timer);
          this.#offer(entry);
        }, this.#options.retryMs ?? 5);
        this.#timers.add(timer);
      },
    );
  }

  #look(): void {
    for (const look of [...this.#watchers]) look();
  }
}

export function blocked(task_id: string, code: string, retryable: boolean, detail = 'refused'): TaskResult {
  return resultMessage({
    task_id,
    status: 'blocked',
    tokens_spent: 0,
    blocked_reason: `${code}: ${detail}`,
    blocked: { code, retryable },
  });
}
