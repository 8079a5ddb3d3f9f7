/** A bus whose workers do what a test says, message by message. */
import type {
  Binding,
  DispatchMode,
  FleetPeer,
  OrchestratorBus,
  PeerEvents,
  Whereabouts,
} from '../../../../src/fleet/bus/peer.ts';
import { decodeValue } from '../../../../src/fleet/messages/decode.ts';
import { fleetMessage, resultMessage } from '../../../../src/fleet/messages/encode.ts';
import type { Feature, FleetMessage, TaskDispatch, TaskResult } from '../../../../src/protocol/fleet.ts';

export const ALL: readonly Feature[] = [
  'ack',
  'progress',
  'cancel',
  'lease',
  'heartbeat',
  'announce',
  'poll',
  'steer',
  'questions',
];

export interface PeerScript {
  readonly features?: readonly Feature[];
  readonly structured?: boolean;
  readonly durable?: boolean;
  /** Called with each dispatch; `send` fails with an error it throws. Default: the dispatch is acknowledged. */
  readonly onDispatch?: (dispatch: TaskDispatch, peer: ScriptedPeer) => unknown;
  readonly onMessage?: (message: FleetMessage, peer: ScriptedPeer) => unknown;
  /** Where the bus has an attempt. Default: it cannot be asked. */
  readonly find?: (dispatch: TaskDispatch) => Promise<Whereabouts>;
}

export class ScriptedPeer implements FleetPeer {
  readonly peerId: string;
  readonly binding: Binding = 'in-process';
  readonly address = 'test';
  readonly structured: boolean;
  readonly durable: boolean;
  readonly features: ReadonlySet<Feature>;
  readonly find?: (dispatch: TaskDispatch) => Promise<Whereabouts>;
  reachable = true;
  script: PeerScript;
  incarnation = 'first';
  seq = 0;
  readonly sent: FleetMessage[] = [];
  readonly modes: DispatchMode[] = [];
  readonly #bus: ScriptedBus;

  constructor(bus: ScriptedBus, peerId: string, script: PeerScript) {
    this.#bus = bus;
    this.peerId = peerId;
    this.script = script;
    this.structured = script.structured ?? true;
    this.durable = script.durable ?? false;
    this.features = new Set(script.features ?? ALL);
    if (script.find !== undefined) this.find = script.find;
  }

  async send(message: FleetMessage, { mode }: { readonly mode: DispatchMode }): Promise<void> {
    this.sent.push(message);
    this.modes.push(mode);
    if (message.type !== 'TASK_DISPATCH') return void (await this.script.onMessage?.(message, this));
    if (this.script.onDispatch !== undefined) await this.script.onDispatch(message, this);
    else await this.accept(message);
  }

  get dispatches(): TaskDispatch[] {
    return this.sent.filter((message) => message.type === 'TASK_DISPATCH');
  }

  last<T extends FleetMessage['type']>(type: T): Extract<FleetMessage, { readonly type: T }> | undefined {
    return this.sent.findLast((message) => message.type === type) as
      | Extract<FleetMessage, { readonly type: T }>
      | undefined;
  }

  join(): void {
    this.#bus.events.joined(this);
  }

  leave(reason = 'gone', asleep = false): void {
    this.#bus.events.left(this, reason, asleep);
  }

  /** Says something; resolves when it is kept. */
  async say(message: FleetMessage): Promise<void> {
    const decoded = decodeValue(message);
    if (!decoded.valid) throw new Error(`not a message: ${JSON.stringify(decoded.errors)}`);
    await this.#bus.events.received(this, decoded.message);
  }

  announce(
    more: {
      readonly worker?: object;
      readonly capabilities?: object;
      readonly mcp_health?: Readonly<Record<string, string>>;
      readonly session?: object;
    } = {},
  ): Promise<void> {
    this.seq += 1;
    return this.say(
      fleetMessage('SESSION_ANNOUNCE', {
        worker: { agent_id: this.peerId, model_tier: 'sonnet', features: [...this.features], ...more.worker },
        capabilities: { tools: ['terminal'], mcp_servers: [], ...more.capabilities },
        mcp_health: more.mcp_health ?? {},
        session: { incarnation: this.incarnation, seq: this.seq, active_tasks: 0, ...more.session },
      }),
    );
  }

  accept({ task: { task_id }, envelope }: TaskDispatch): Promise<void> {
    const attempt = envelope?.attempt;
    return this.say(fleetMessage('TASK_ACK', { task_id, accepted: true, state: 'accepted' }, { attempt }));
  }

  progress(taskId: string, attempt: number, more: object = {}): Promise<void> {
    return this.say(fleetMessage('TASK_PROGRESS', { task_id: taskId, seq: 1, phase: 'running', ...more }, { attempt }));
  }

  report(
    taskId: string,
    status: TaskResult['status'],
    more: Partial<TaskResult> = {},
    attempt?: number,
  ): Promise<void> {
    const needed = {
      done: {},
      partial: { next_steps: ['the rest'] },
      blocked: { blocked_reason: 'busy: try later' },
      error: { error_summary: 'it failed' },
    }[status];
    const body = { task_id: taskId, status, tokens_spent: status === 'blocked' ? 0 : 10, ...needed, ...more };
    return this.say(resultMessage(body, attempt === undefined ? undefined : { attempt }));
  }

  refuse(taskId: string, code: string, retryable: boolean, attempt?: number): Promise<void> {
    return this.report(taskId, 'blocked', { blocked_reason: `${code}: no`, blocked: { code, retryable } }, attempt);
  }

  heartbeat(activeTasks: number): Promise<void> {
    this.seq += 1;
    const { peerId: agent_id, incarnation, seq } = this;
    return this.say(fleetMessage('SESSION_HEARTBEAT', { agent_id, incarnation, seq, active_tasks: activeTasks }));
  }
}

export class ScriptedBus implements OrchestratorBus {
  readonly binding: Binding = 'in-process';
  events!: PeerEvents;
  readonly peers = new Map<string, ScriptedPeer>();
  readonly offered: FleetMessage[] = [];
  offer?: (pool: string, message: FleetMessage) => Promise<void>;
  find?: (pool: string, dispatch: TaskDispatch) => Promise<Whereabouts>;
  stopped = false;

  /** `withPools`: tasks can be offered to any worker of a pool. */
  constructor(withPools = false) {
    if (withPools) this.offer = async (_pool, message) => void this.offered.push(message);
  }

  async start(events: PeerEvents): Promise<void> {
    this.events = events;
  }

  async close(): Promise<void> {
    this.stopped = true;
  }

  /** Makes a worker join, without a word about itself. */
  bare(peerId: string, script: PeerScript = {}): ScriptedPeer {
    const peer = new ScriptedPeer(this, peerId, script);
    this.peers.set(peerId, peer);
    peer.join();
    return peer;
  }

  /** Makes a worker join and describe itself. */
  async worker(
    peerId: string,
    script: PeerScript = {},
    announce: Parameters<ScriptedPeer['announce']>[0] = {},
  ): Promise<ScriptedPeer> {
    const peer = this.bare(peerId, script);
    await peer.announce(announce);
    return peer;
  }
}
