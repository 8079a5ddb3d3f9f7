/**
 * What workers say, and what the orchestrator makes of it. Who says it is what the transport knows; a message about a task
 * counts when its sender has that attempt of it.
 *
 * Called by the buses.
 */
import type { SessionHeartbeat, TaskAck, TaskProgress, TaskQuestion } from '../../protocol/fleet.ts';
import { fail } from '../../wire/errors.ts';
import type { FleetPeer, PeerEvents } from '../bus/peer.ts';
import type { Announced, Incoming, Reported } from '../messages/decoded.ts';
import { fleetMessage, resultFrom } from '../messages/encode.ts';
import { attemptOf, type Engine } from './engine.ts';
import { isSameProcess, type PeerEntry } from './peer-profile.ts';
import { isActive, isOffer } from './task-machine.ts';
import type { TrackedTask } from './task-registry.ts';

/** How a worker reports a task it was working on when it ended; see `worker/recovery.ts`. */
const RESTARTED = /^worker restarted\b/;
/** Attempts that were told to stop because they are not wanted any more; remembered so that each is told once. */
const MAX_STRAYS = 1000;

export class PeerEventHandler implements PeerEvents {
  readonly #engine: Engine;
  readonly #strays = new Set<string>();
  /** Worker → tasks of an earlier process that it may still have. */
  readonly #expected = new Map<string, Set<string>>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** A task that an earlier process had given to a worker. */
  expect(peerId: string, taskId: string): void {
    const tasks = this.#expected.get(peerId);
    if (tasks === undefined) this.#expected.set(peerId, new Set([taskId]));
    else tasks.add(taskId);
  }

  joined(peer: FleetPeer): void {
    if (this.#engine.stopped) return;
    const { peers, options, ledger, leases } = this.#engine;
    const entry = peers.joined(peer);
    options.log.info('a worker is here', { worker: peer.peerId, binding: peer.binding, mode: entry.mode });
    const expected = this.#expected.get(peer.peerId);
    this.#expected.delete(peer.peerId);
    for (const taskId of expected ?? []) {
      const held = ledger.get(taskId);
      if (held === undefined || !isActive(held.record) || held.record.worker !== peer.peerId) continue;
      peers.reserve(peer.peerId, taskId, held.record.spec.context_id);
      // Now it is known what this worker can say.
      leases.renew(held);
      this.#engine.poll(held);
    }
    for (const held of this.#tasksOf(entry)) {
      if (held.record.cancel_requested) this.#engine.askToCancel(held, 'canceled');
    }
  }

  left(peer: FleetPeer, reason: string, asleep: boolean): void {
    if (this.#engine.stopped || !this.#engine.peers.left(peer, reason, asleep)) return;
    this.#engine.options.log.info('a worker left', { worker: peer.peerId, reason, asleep });
  }

  malformed(peer: FleetPeer, codes: readonly string[]): void {
    this.#engine.count('unreadable');
    this.#engine.options.log.warn('a worker sent what is no message', { worker: peer.peerId, codes });
  }

  received(peer: FleetPeer, message: Incoming): Promise<void> | void {
    if (this.#engine.stopped) throw fail('interrupted', 'the orchestrator stops');
    const entry = this.#engine.peers.get(peer.peerId) ?? this.#engine.peers.joined(peer);
    entry.lastSeenAt = this.#engine.now();
    switch (message.type) {
      case 'TASK_RESULT':
        return this.#result(entry, message);
      case 'TASK_QUESTION':
        return this.#question(entry, message);
      case 'TASK_ACK':
        return this.#ack(entry, message);
      case 'TASK_PROGRESS':
        return this.#progress(entry, message);
      case 'SESSION_ANNOUNCE':
        return this.#announced(entry, message);
      case 'SESSION_HEARTBEAT':
        return this.#heartbeat(entry, message);
      default:
        // A goodbye is told by the bus; the rest is for workers.
        return;
    }
  }

  async #result(entry: PeerEntry, reported: Reported): Promise<void> {
    const { ledger, aftermath, options } = this.#engine;
    const worker = entry.peer.peerId;
    const { task_id, envelope } = reported;
    const held = await ledger.pin(task_id);
    if (held === undefined) {
      // Nobody can make anything of it; sending it again would not help.
      options.log.warn('a result of a task that is not known', { worker, task_id, status: reported.status });
      return;
    }
    try {
      this.#claim(entry, held, envelope.attempt);
      const result = resultFrom(reported);
      const attempt = envelope.attempt ?? null;
      const current = held.record.worker === worker && (attempt === null || attempt === held.record.attempt);
      if (current && isActive(held.record) && RESTARTED.test(reported.error_summary ?? '')) {
        aftermath.lost(held, reported.error_summary as string, result);
      } else {
        const { outcome, why } = ledger.apply(held, { type: 'result', worker, attempt, result });
        if (outcome === 'refused') options.log.warn('a result was not taken', { worker, task_id, why });
      }
      await ledger.save(held);
    } finally {
      ledger.release(held);
    }
  }

  async #question(entry: PeerEntry, question: TaskQuestion): Promise<void> {
    const held = this.#mine(entry, question.task_id, question.envelope?.attempt);
    if (held === undefined) return this.#stray(entry, question.task_id, question.envelope?.attempt);
    this.#engine.leases.renew(held);
    await this.#engine.questions.asked(held, question);
  }

  #ack(entry: PeerEntry, { task_id, accepted, state, retry_after_s, envelope }: TaskAck): void {
    const { ledger, leases, aftermath } = this.#engine;
    const known = ledger.get(task_id);
    if (known !== undefined && accepted) this.#claim(entry, known, envelope?.attempt);
    const held = this.#mine(entry, task_id, envelope?.attempt);
    if (held === undefined) {
      if (accepted && state !== 'finished') this.#stray(entry, task_id, envelope?.attempt);
      return;
    }
    const begun = held.record.state === 'accepted' || held.record.state === 'running';
    if (state === 'unknown') {
      // The answer to a question that was asked before the dispatch left says nothing.
      if (held.sending) return;
      if (begun) aftermath.lost(held, 'its worker does not know it any more');
      else aftermath.unknownToWorker(held);
    } else if (state === 'busy' || (!accepted && state === undefined)) {
      if (begun) return;
      const retry = retry_after_s === undefined ? {} : { retryAfterS: retry_after_s };
      aftermath.released(held, { outcome: 'busy', code: 'busy', reason: 'its worker is busy', ...retry });
    } else {
      if (!begun) ledger.apply(held, { type: 'accepted' });
      if (state === 'running') ledger.apply(held, { type: 'started' });
      leases.renew(held);
    }
  }

  #progress(entry: PeerEntry, message: TaskProgress): void {
    const { ledger, leases, journal } = this.#engine;
    const { task_id, seq, phase, note, percent, tokens_so_far, envelope } = message;
    const known = ledger.get(task_id);
    if (known !== undefined) this.#claim(entry, known, envelope?.attempt);
    const held = this.#mine(entry, task_id, envelope?.attempt);
    if (held === undefined) return this.#stray(entry, task_id, envelope?.attempt);
    if (held.record.state !== 'running') ledger.apply(held, { type: 'started' });
    held.tokensSoFar = tokens_so_far ?? held.tokensSoFar;
    leases.renew(held);
    journal.write(task_id, 'progress', {
      seq,
      phase,
      ...(note !== undefined && { note }),
      ...(percent !== undefined && { percent }),
      ...(tokens_so_far !== undefined && { tokens_so_far }),
    });
  }

  #announced(entry: PeerEntry, announced: Announced): void {
    const { peers, leases, options } = this.#engine;
    const what = peers.announced(entry, announced);
    if (what === 'old') return;
    if (what === 'restarted') options.log.info('a worker was started anew', { worker: entry.peer.peerId });
    for (const held of this.#tasksOf(entry)) {
      if (isSameProcess(attemptOf(held.record), entry)) {
        if (this.#has(entry, held)) leases.renew(held);
      } else {
        // It has them no more, or reports what became of them; its lease is not renewed by anything but that.
        this.#engine.poll(held);
      }
    }
  }

  #heartbeat(entry: PeerEntry, beat: SessionHeartbeat): void {
    const { peers, leases } = this.#engine;
    const fewer = peers.heartbeat(entry, beat);
    for (const held of this.#tasksOf(entry)) {
      const same = (attemptOf(held.record)?.incarnation ?? beat.incarnation) === beat.incarnation;
      if (fewer || !same) this.#engine.poll(held);
      else if (this.#has(entry, held)) leases.renew(held);
    }
  }

  /** The first of a pool that says it has a task which was offered to the pool has it. */
  #claim({ peer, announced }: PeerEntry, held: TrackedTask, attempt: number | undefined): void {
    const { worker, spec } = held.record;
    if (!isOffer(worker) || !(announced?.pools ?? []).includes(spec.pool ?? '')) return;
    const incarnation = announced?.incarnation ?? null;
    const claimed = { type: 'claimed', worker: peer.peerId, incarnation } as const;
    this.#engine.ledger.apply(held, attempt === undefined ? claimed : { ...claimed, attempt });
  }

  /** Whether a sign of life of its worker is one of the attempt: not before that has said that it has it. */
  #has({ peer }: PeerEntry, { record }: TrackedTask): boolean {
    if (!peer.features.has('lease')) return false;
    return record.state === 'accepted' || record.state === 'running' || peer.durable;
  }

  /** The task, when this worker has the attempt of it that is under way. */
  #mine({ peer }: PeerEntry, taskId: string, attempt: number | undefined): TrackedTask | undefined {
    const held = this.#engine.ledger.get(taskId);
    if (held === undefined || !isActive(held.record) || held.record.worker !== peer.peerId) return undefined;
    return attempt === undefined || attempt === held.record.attempt ? held : undefined;
  }

  /** A worker goes on with what was canceled, or ended otherwise, while it could not be told. */
  #stray({ peer }: PeerEntry, taskId: string, attempt: number | undefined): void {
    const key = `${peer.peerId} ${taskId} ${attempt}`;
    const held = this.#engine.ledger.get(taskId);
    // What was only given up for lost may still come to a good end.
    if (this.#strays.has(key) || (held !== undefined && !held.record.cancel_requested)) return;
    if (this.#strays.size >= MAX_STRAYS) this.#strays.delete(this.#strays.keys().next().value as string);
    this.#strays.add(key);
    void this.#stopStray(peer.peerId, taskId, attempt);
  }

  async #stopStray(peerId: string, taskId: string, attempt: number | undefined): Promise<void> {
    const { ledger } = this.#engine;
    try {
      const held = await ledger.pin(taskId);
      if (held === undefined) return;
      const { state } = held.record;
      ledger.release(held);
      if (state !== 'canceled') return;
      const envelope = attempt === undefined ? undefined : { attempt };
      this.#engine.tell(peerId, fleetMessage('TASK_CANCEL', { task_id: taskId, reason: 'canceled' }, envelope));
    } catch {
      // The store cannot be read now; the worker's next message asks again.
      this.#strays.delete(`${peerId} ${taskId} ${attempt}`);
    }
  }

  *#tasksOf({ tasks }: PeerEntry): Iterable<TrackedTask> {
    for (const taskId of [...tasks.keys()]) {
      const held = this.#engine.ledger.get(taskId);
      if (held !== undefined && isActive(held.record)) yield held;
    }
  }
}
