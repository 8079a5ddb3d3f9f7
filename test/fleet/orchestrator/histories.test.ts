/**
 * Random histories of a small fleet: workers that join, leave, restart, accept, refuse, report twice, report late and say
 * nothing; operators that cancel, retry and drop; time that passes; a disk that is full for a while; the orchestrator killed
 * and started again. After every step the promises must hold, and at the end, with all of them well again, nothing may be left
 * hanging.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { createOrchestrator } from '../../../src/fleet/orchestrator/orchestrator.ts';
import type { Orchestrator } from '../../../src/fleet/orchestrator/orchestrator-options.ts';
import { memoryTaskStore } from '../../../src/fleet/orchestrator/store-memory.ts';
import { isActive, isEnded } from '../../../src/fleet/orchestrator/task-machine.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import type { Status, TaskDispatch } from '../../../src/protocol/fleet.ts';
import { fail } from '../../../src/wire/errors.ts';
import fc from '../../support/properties.ts';
import { guardedStore, quiet } from './support/fleet.ts';
import { ALL, ScriptedBus, type ScriptedPeer } from './support/scripted-bus.ts';
import { settle, VirtualClock } from './support/virtual-clock.ts';

const WORKERS = ['a', 'b', 'c'];

type Step =
  | { readonly do: 'submit'; readonly safe: boolean; readonly after: boolean; readonly deadline: boolean }
  | { readonly do: 'manner'; readonly worker: number; readonly manner: number }
  | { readonly do: 'come' | 'go' | 'restart' | 'announce' | 'beat'; readonly worker: number }
  | { readonly do: 'report'; readonly which: number; readonly status: Status; readonly code: string }
  | { readonly do: 'progress'; readonly which: number }
  | { readonly do: 'cancel' | 'retry' | 'drop'; readonly which: number }
  | { readonly do: 'wait'; readonly seconds: number }
  | { readonly do: 'disk'; readonly broken: boolean }
  | { readonly do: 'kill' };

const which = fc.nat(40);
const worker = fc.nat(WORKERS.length - 1);
const codes = fc.constantFrom('busy', 'missing_mcp', 'dirty_repo', 'brief_too_large', 'in_flight', 'whatever');
const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('submit' as const),
      safe: fc.boolean(),
      after: fc.boolean(),
      deadline: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('manner' as const), worker, manner: fc.nat(6) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('come', 'go', 'restart', 'announce', 'beat'), worker }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('report' as const),
      which,
      status: fc.constantFrom<Status>('done', 'done', 'partial', 'blocked', 'error'),
      code: codes,
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('progress' as const), which }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('cancel', 'retry', 'drop'), which }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('wait' as const), seconds: fc.constantFrom(1, 10, 31, 50, 130) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('disk' as const), broken: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('kill' as const) }) },
);

class Play {
  readonly clock = new VirtualClock();
  readonly bus = new ScriptedBus();
  readonly kept = memoryTaskStore();
  readonly manners = new Map<string, number>();
  readonly given: { readonly peer: ScriptedPeer; readonly dispatch: TaskDispatch }[] = [];
  readonly sent = new Map<string, number>();
  readonly ids: string[] = [];
  readonly accepted = new Map<string, unknown>();
  broken = false;
  orchestrator = this.#create();

  /** Makes one process of it; changes it has not written when the next one begins are gone. */
  #create(): Orchestrator {
    const gate = (): void => {
      if (this.broken) throw fail('disk_full', 'no room');
      if (this.orchestrator !== created) throw fail('runtime_error', 'killed');
    };
    const created = createOrchestrator({
      name: 'play',
      store: guardedStore(gate, this.kept),
      journal: memoryJournal(),
      buses: [this.bus],
      log: quiet,
      now: this.clock.now,
      monotonic: this.clock.monotonic,
      timer: this.clock.timer,
      random: () => 0.5,
    });
    return created;
  }

  async begin(): Promise<void> {
    await this.orchestrator.start();
    for (const name of WORKERS) {
      const features = name === 'c' ? (['ack', 'lease', 'heartbeat'] as const) : ALL;
      const peer = this.bus.bare(name, {
        features,
        onDispatch: (dispatch) => this.#dispatched(peer, dispatch),
        onMessage: (message) => {
          if (message.type !== 'TASK_POLL') return;
          const { task_id, envelope } = message;
          const key = `${task_id}#${envelope?.attempt}`;
          const has = this.given.some((one) => one.peer === peer && keyOf(one.dispatch) === key);
          const state = has ? 'running' : 'unknown';
          return this.#quietly(
            peer.say(fleetMessage('TASK_ACK', { task_id, accepted: has, state }, { attempt: envelope?.attempt })),
          );
        },
      });
      await peer.announce({ worker: { max_concurrent: 2 } });
    }
  }

  async #dispatched(peer: ScriptedPeer, dispatch: TaskDispatch): Promise<void> {
    const key = keyOf(dispatch);
    this.sent.set(key, (this.sent.get(key) ?? 0) + 1);
    const manner = this.manners.get(peer.peerId) ?? 0;
    if (manner === 1) throw fail('unreachable', 'no peer there');
    if (manner === 2) throw fail('connection_lost', 'cut before it arrived');
    if (manner === 3) throw fail('over_capacity', 'busy', { retry_after_ms: 5000 });
    this.given.push({ peer, dispatch });
    if (manner === 4) throw fail('timeout', 'it arrived all the same');
    if (manner === 5) return;
    const { task, envelope } = dispatch;
    const answer = manner === 6 ? peer.refuse(task.task_id, 'busy', true, envelope?.attempt) : peer.accept(dispatch);
    await this.#quietly(answer);
  }

  async step(step: Step): Promise<void> {
    const { orchestrator } = this;
    switch (step.do) {
      case 'submit': {
        const task_id = `t${this.ids.length}`;
        const after = step.after && this.ids.length > 0 ? [this.ids.at(-1) as string] : [];
        const deadline = step.deadline ? new Date(this.clock.now() + 100_000).toISOString() : null;
        const submitted = orchestrator.submit({ task_id, brief: 'x', retry_safe: step.safe, after, deadline });
        if (await this.#quietly(submitted)) this.ids.push(task_id);
        return;
      }
      case 'manner':
        this.manners.set(WORKERS[step.worker] as string, step.manner);
        return;
      case 'come':
      case 'go':
      case 'restart':
      case 'announce':
      case 'beat': {
        const peer = this.bus.peers.get(WORKERS[step.worker] as string) as ScriptedPeer;
        if (step.do === 'go') return peer.leave();
        if (step.do === 'restart') peer.incarnation = `${peer.incarnation}+`;
        if (step.do !== 'announce') peer.join();
        if (step.do === 'beat') return void (await this.#quietly(peer.heartbeat(2)));
        await this.#quietly(peer.announce({ worker: { max_concurrent: 2 } }));
        return;
      }
      case 'report':
      case 'progress': {
        const one = this.given[step.which % Math.max(1, this.given.length)];
        if (one === undefined) return;
        const { peer, dispatch } = one;
        const { task_id } = dispatch.task;
        const attempt = dispatch.envelope?.attempt as number;
        if (step.do === 'progress') return void (await this.#quietly(peer.progress(task_id, attempt)));
        const more = step.status === 'blocked' ? { blocked: { code: step.code, retryable: true } } : {};
        await this.#quietly(peer.report(task_id, step.status, more, attempt));
        return;
      }
      case 'cancel':
      case 'retry':
      case 'drop': {
        const id = this.ids[step.which % Math.max(1, this.ids.length)];
        if (id === undefined) return;
        if (step.do === 'retry') this.accepted.delete(id);
        await this.#quietly(orchestrator[step.do](id));
        return;
      }
      case 'wait':
        return this.clock.advance(step.seconds * 1000);
      case 'disk':
        this.broken = step.broken;
        return;
      case 'kill': {
        const killed = orchestrator;
        this.orchestrator = this.#create();
        await killed.close();
        await this.orchestrator.start();
        for (const peer of this.bus.peers.values()) {
          peer.join();
          await this.#quietly(peer.announce({ worker: { max_concurrent: 2 } }));
        }
      }
    }
  }

  /** Checks the invariants. */
  async check(): Promise<void> {
    await settle();
    for (const [key, count] of this.sent) assert.equal(count, 1, `${key} was sent ${count} times`);
    const views = this.orchestrator.workers();
    let open = 0;
    for (const id of this.ids) {
      const record = await this.orchestrator.get(id);
      if (!isEnded(record)) open += 1;
      for (const { peer_id, tasks } of views) {
        assert.equal(
          tasks.includes(id),
          isActive(record) && record.worker === peer_id,
          `${id} at ${peer_id}: ${record.state}`,
        );
      }
      const kept = (await this.kept.get(id))?.record;
      // A result on disk counts as accepted; one that is only in memory was not acknowledged to its worker.
      const text = JSON.stringify(record.result);
      if (isEnded(record) && record.result !== null && kept?.ended_at && JSON.stringify(kept.result) === text) {
        assert.equal(this.accepted.get(id) ?? text, text, 'a result is accepted once');
        this.accepted.set(id, text);
      }
      if (record.state === 'queued' && record.spec.after.length === 0) assert.equal(record.worker, null);
    }
    assert.equal(this.orchestrator.counts().open, open);
  }

  /** Makes all well again: only tasks that wait for an operator are left hanging. */
  async heal(): Promise<void> {
    this.broken = false;
    this.manners.clear();
    await this.clock.advance(2000);
    for (let round = 0; round < 60; round += 1) {
      for (const peer of this.bus.peers.values()) {
        peer.join();
        await this.#quietly(peer.announce({ worker: { max_concurrent: 2 } }));
      }
      await settle();
      for (const { peer, dispatch } of this.given.splice(0)) {
        await this.#quietly(peer.report(dispatch.task.task_id, 'done', {}, dispatch.envelope?.attempt));
      }
      await this.clock.advance(20_000);
    }
    for (const id of this.ids) {
      const record = await this.orchestrator.get(id);
      assert.ok(isEnded(record) || record.parked || waitsForParked(record.spec.after), `${id} hangs: ${record.state}`);
      const { record: kept } = (await this.kept.get(id))!;
      assert.deepEqual(kept, record, 'what is in memory is what is kept');
    }
    function waitsForParked(after: readonly string[]): boolean {
      return after.length > 0;
    }
  }

  async #quietly(work: Promise<unknown>): Promise<boolean> {
    try {
      await work;
      return true;
    } catch {
      return false;
    }
  }
}

function keyOf({ task, envelope }: TaskDispatch): string {
  return `${task.task_id}#${envelope?.attempt}`;
}

test('for any events in any order, the promises hold and nothing is left hanging', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { minLength: 5, maxLength: 40 }), async (history) => {
      const play = new Play();
      await play.begin();
      try {
        for (const step of history) {
          await play.step(step);
          await play.check();
        }
        await play.heal();
        await play.check();
      } finally {
        await play.orchestrator.close();
      }
    }),
    {
      numRuns: Number(process.env.HISTORIES ?? 40),
      seed: Number(process.env.SEED ?? 11),
      endOnFailure: process.env.HISTORIES === undefined,
    },
  );
});
