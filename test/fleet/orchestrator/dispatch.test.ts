/**
 * From submission to a worker: routing, row before message, refusals, failed sends, circuit breaker, pools.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { fail } from '../../../src/wire/errors.ts';
import { fleet, guardedStore } from './support/fleet.ts';
import { type PeerScript, ScriptedBus } from './support/scripted-bus.ts';
import { settle } from './support/virtual-clock.ts';

test('a task goes to a worker, is acknowledged, worked on and done, and each step can be followed', async (t) => {
  const { bus, orchestrator, state, kinds } = await fleet(t);
  const worker = await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'do it', token_budget: 500 });
  assert.equal(await state(task_id), 'accepted');
  const [dispatch] = worker.dispatches;
  assert.equal(dispatch?.brief, 'do it');
  assert.equal(dispatch?.envelope?.attempt, 1);
  assert.deepEqual(dispatch?.envelope?.lease, { ttl_s: 45, fence: 1 });
  assert.deepEqual(worker.modes.slice(-1), ['structured']);
  await worker.progress(task_id, 1, { tokens_so_far: 3 });
  assert.equal(await state(task_id), 'running');
  const waiting = orchestrator.result(task_id);
  await worker.report(task_id, 'done', { tokens_spent: 12 }, 1);
  const { record, result } = await waiting;
  assert.equal(record.state, 'done');
  assert.equal(record.tokens_spent, 12);
  assert.equal(record.explanation?.chosen, 'w');
  assert.equal(record.verified, 'not_checked');
  assert.equal(result?.status, 'done');
  assert.deepEqual(await kinds(task_id), [
    'submitted',
    'decided',
    'accepted',
    'running',
    'progress',
    'result',
    'ended',
    'verified',
  ]);
  assert.deepEqual(orchestrator.workers()[0]?.tasks, []);
});

test('nothing is sent before the row is on disk', async (t) => {
  const gate = Promise.withResolvers<void>();
  const store = guardedStore(() => gate.promise);
  const { bus, orchestrator } = await fleet(t, { store });
  const worker = await bus.worker('w');
  const submitted = orchestrator.submit({ brief: 'x' });
  await settle();
  assert.equal(worker.dispatches.length, 0);
  gate.resolve();
  const { task_id } = await submitted;
  assert.equal((await store.get(task_id))?.record.state, 'reserved');
  await settle();
  assert.equal(worker.dispatches.length, 1);
});

test('a long queue is routed in parts, and everything else gets a turn of the event loop in between', async (t) => {
  const turns: (() => void)[] = [];
  const { bus, orchestrator } = await fleet(t, { nextTurn: (run) => turns.push(run) });
  await orchestrator.submitBatch(
    Array.from({ length: 600 }, () => ({ brief: 'x', required_capabilities: ['terminal'] })),
  );
  await settle();
  await bus.worker('w', {}, { worker: { max_concurrent: 1000 } });
  const left: (number | undefined)[] = [];
  for (let part = 0; part < 3; part += 1) {
    await settle();
    left.push(orchestrator.counts().queued);
    assert.equal(turns.length, part < 2 ? 1 : 0, 'one turn is asked for, as long as tasks wait');
    turns.pop()?.();
  }
  assert.deepEqual(left, [600 - 256, 600 - 512, 0]);
});

test('a task no worker can accept waits with the reason, and goes when one can', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  await bus.worker('plain');
  const { task_id } = await orchestrator.submit({ brief: 'x', required_mcp: ['context-mode'] });
  assert.equal(await state(task_id), 'queued');
  const { explanation } = await orchestrator.get(task_id);
  assert.deepEqual(explanation?.rejected, { plain: ['missing_mcp:context_mode'] });
  const able = await bus.worker(
    'able',
    {},
    {
      capabilities: { mcp_servers: ['context_mode'] },
      mcp_health: { context_mode: 'timeout' },
    },
  );
  assert.equal(await state(task_id), 'queued');
  await able.announce({ capabilities: { mcp_servers: ['context_mode'] }, mcp_health: { context_mode: 'ok' } });
  assert.equal(await state(task_id), 'accepted');
  assert.equal((await orchestrator.get(task_id)).worker, 'able');
});

test('a task that waits for something rare keeps no other task waiting', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  await bus.worker('w');
  const rare = await Promise.all(
    Array.from({ length: 20 }, () => orchestrator.submit({ brief: 'x', priority: 'urgent', required_mcp: ['rare'] })),
  );
  const common = await orchestrator.submit({ brief: 'x', priority: 'low' });
  assert.equal(await state(common.task_id), 'accepted');
  assert.equal(await state((rare[0] as { task_id: string }).task_id), 'queued');
});

test('as many tasks as a worker takes at once, the next one when one of them ends', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', {}, { worker: { max_concurrent: 2 } });
  const ids = [];
  for (let n = 0; n < 4; n += 1) ids.push((await orchestrator.submit({ brief: 'x' })).task_id);
  await settle();
  assert.equal(worker.dispatches.length, 2);
  await worker.report(ids[0] as string, 'done', {}, 1);
  assert.equal(await state(ids[2] as string), 'accepted');
  assert.equal(await state(ids[3] as string), 'queued');
});

test('urgent goes first among those that wait', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  const low = await orchestrator.submit({ brief: 'x', priority: 'low' });
  const urgent = await orchestrator.submit({ brief: 'x', priority: 'urgent' });
  const worker = await bus.worker('w', {}, { worker: { max_concurrent: 1 } });
  await settle();
  assert.deepEqual(
    worker.dispatches.map(({ task }) => task.task_id),
    [urgent.task_id],
  );
  await worker.report(urgent.task_id, 'done', {}, 1);
  await settle();
  assert.equal(worker.dispatches[1]?.task.task_id, low.task_id);
});

test('the same task again is the task there is; another one of its name is refused', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  const worker = await bus.worker('w');
  const spec = { task_id: 'mine', brief: 'x', required_mcp: [], retry_safe: true };
  const all = await Promise.all([1, 2, 3].map(() => orchestrator.submit(spec)));
  assert.deepEqual(new Set(all.map(({ number }) => number)), new Set([1]));
  await settle();
  assert.equal(worker.dispatches.length, 1);
  await assert.rejects(orchestrator.submit({ ...spec, brief: 'y' }), { code: 'duplicate_conflict' });
  await worker.report('mine', 'done', {}, 1);
  await settle();
  assert.equal((await orchestrator.submit(spec)).state, 'done');
  await assert.rejects(orchestrator.submit({ ...spec, brief: 'y' }), { code: 'duplicate_conflict' });
  assert.equal(worker.dispatches.length, 1);
});

test('what is no task is refused with all that is wrong', async (t) => {
  const { orchestrator } = await fleet(t);
  await assert.rejects(orchestrator.submit({ brief: '  ', token_budget: 0 }), (error: never) => {
    const { code, detail } = error as { code: string; detail: { errors: { path: string }[] } };
    assert.equal(code, 'schema_violation');
    assert.deepEqual(detail.errors.map(({ path }) => path).sort(), ['/brief', '/task/token_budget']);
    return true;
  });
  await assert.rejects(orchestrator.submit({ brief: 'x', after: ['nothing'] }), { code: 'schema_violation' });
  await assert.rejects(orchestrator.get('nothing'), { code: 'not_found' });
});

test('there is room for so many open tasks and no more', async (t) => {
  const { orchestrator } = await fleet(t, { maxOpenTasks: 3 });
  for (let n = 0; n < 3; n += 1) await orchestrator.submit({ brief: 'x' });
  await assert.rejects(orchestrator.submit({ brief: 'x' }), { code: 'over_capacity' });
  await assert.rejects(orchestrator.submitBatch([{ brief: 'x' }]), { code: 'over_capacity' });
  await orchestrator.cancel('t-1');
  await settle();
  assert.equal((await orchestrator.submit({ brief: 'x' })).state, 'queued');
});

test('a refusing hook turns a task away before it is one', async (t) => {
  // biome-ignore lint/suspicious/noThenProperty: the name a hook has in configurations
  const hooks = [{ when: 'task.priority == "urgent"', then: 'refuse', reason: 'not on weekends' }] as const;
  const { orchestrator } = await fleet(t, { hooks });
  await assert.rejects(orchestrator.submit({ brief: 'x', priority: 'urgent' }), { code: 'denied' });
  assert.equal(orchestrator.counts().open, 0);
});

test('a refused task goes to another worker, and to the same one only after it has announced again', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  const first = await bus.worker('a', {
    onDispatch: (d, peer) => peer.refuse(d.task.task_id, 'missing_capability', false, 1),
  });
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await settle();
  assert.equal(await state(task_id), 'blocked');
  const parked = await orchestrator.get(task_id);
  assert.equal(parked.parked, true, 'there is no other worker: an operator decides');
  assert.match(parked.dead_letter ?? '', /missing_capability/);
  first.script = {};
  const second = await orchestrator.submit({ brief: 'y' });
  assert.equal(await state(second.task_id), 'accepted');
});

test('reroute, then retry after a growing pause, then an operator', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const refuse: PeerScript['onDispatch'] = (dispatch, peer) =>
    peer.refuse(dispatch.task.task_id, 'busy', true, dispatch.envelope?.attempt);
  const a = await bus.worker('a', { onDispatch: refuse });
  const b = await bus.worker('b', { onDispatch: refuse });
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  assert.equal(await state(task_id), 'queued');
  assert.equal(a.dispatches.length + b.dispatches.length, 2);
  const beat = async (seconds: number) => {
    for (let passed = 0; passed < seconds; passed += 15) {
      await clock.advance(15_000);
      await a.heartbeat(0);
      await b.heartbeat(0);
    }
    await settle();
  };
  await beat(30);
  const soon = await orchestrator.get(task_id);
  assert.equal(soon.retries, 2);
  assert.equal(soon.reroutes, 2);
  await beat(120);
  await beat(480);
  const { parked, retries, attempts } = await orchestrator.get(task_id);
  assert.equal(parked, true);
  assert.equal(retries, 3);
  assert.equal(a.dispatches.length + b.dispatches.length, attempts.length);
});

test('what is wrong with the task itself ends it', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  await bus.worker('a', { onDispatch: (d, peer) => peer.refuse(d.task.task_id, 'brief_too_large', false, 1) });
  await bus.worker('b');
  const { task_id } = await orchestrator.submit({ brief: 'x', worker: 'a' });
  const { record } = await orchestrator.result(task_id);
  assert.equal(record.state, 'blocked');
  assert.equal(record.parked, false);
});

test('a worker that is not there is passed over, and nothing counts as begun', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  await bus.worker(
    'a',
    {
      onDispatch: () => {
        throw fail('unreachable', 'no reply');
      },
    },
    { worker: { model_tier: 'sonnet' }, session: { repo_state: { branch: 'main', clean: true } } },
  );
  const b = await bus.worker('b');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  assert.equal(await state(task_id), 'accepted');
  const record = await orchestrator.get(task_id);
  assert.equal(record.worker, 'b');
  assert.equal(record.attempts[0]?.outcome, 'unreachable');
  assert.equal(b.dispatches[0]?.envelope?.attempt, 2);
  assert.equal(record.tokens_spent, 0);
});

test('a worker whose link broke is asked; what it never saw is sent again, what it has continues', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  let knows = false;
  const worker = await bus.worker('w', {
    onDispatch: (_dispatch, peer) => {
      if (peer.dispatches.length === 1) throw fail('connection_lost', 'cut');
      return peer.accept(peer.dispatches.at(-1)!);
    },
    onMessage: (message, peer) => {
      if (message.type !== 'TASK_POLL') return;
      const { task_id } = message;
      const answer = knows
        ? ({ accepted: true, state: 'running' } as const)
        : ({ accepted: false, state: 'unknown' } as const);
      return peer.say(fleetMessage('TASK_ACK', { task_id, ...answer }, { attempt: message.envelope?.attempt }));
    },
  });
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  assert.equal(await state(task_id), 'accepted');
  assert.equal(worker.dispatches.length, 2);
  knows = true;
  worker.sent.length = 0;
  const other = await orchestrator.submit({ brief: 'y' });
  assert.equal(await state(other.task_id), 'running');
  assert.equal(worker.dispatches.length, 1, 'it was not sent twice');
});

test('a worker that has the task already is waited for', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', {
    onDispatch: (dispatch, peer) => {
      if (peer.dispatches.length > 1) return peer.accept(dispatch);
      throw fail('over_capacity', 'in flight', { reason: 'in_flight', retry_after_ms: 20_000 });
    },
  });
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  assert.equal(await state(task_id), 'queued');
  await clock.advance(19_000);
  assert.equal(worker.dispatches.length, 1);
  await clock.advance(2_000);
  assert.equal(await state(task_id), 'accepted');
});

test('busy in an acknowledgement is busy', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  await bus.worker(
    'a',
    {
      onDispatch: ({ task: { task_id } }, peer) =>
        peer.say(
          fleetMessage('TASK_ACK', { task_id, accepted: false, state: 'busy', retry_after_s: 5 }, { attempt: 1 }),
        ),
    },
    { session: { repo_state: { branch: 'main', clean: true } } },
  );
  await bus.worker('b');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  assert.equal(await state(task_id), 'accepted');
  const { worker, attempts } = await orchestrator.get(task_id);
  assert.equal(worker, 'b');
  assert.equal(attempts[0]?.outcome, 'busy');
});

test('a worker that fails again and again gets nothing for a while, then one task as a probe', async (t) => {
  const { bus, clock, orchestrator } = await fleet(t);
  const worker = await bus.worker('w', {}, { worker: { max_concurrent: 10 }, session: { ttl_s: 10_000 } });
  for (let n = 0; n < 5; n += 1) {
    const { task_id } = await orchestrator.submit({ brief: 'x' });
    await settle();
    await worker.report(task_id, 'error', {}, 1);
  }
  assert.equal(orchestrator.workers()[0]?.status, 'circuit_open');
  const ids = [];
  for (let n = 0; n < 3; n += 1) ids.push((await orchestrator.submit({ brief: 'y' })).task_id);
  await clock.advance(29_000);
  assert.equal(worker.dispatches.length, 5);
  await clock.advance(2_000);
  assert.equal(worker.dispatches.length, 6, 'one probe');
  await worker.report(ids[0] as string, 'error', {}, 1);
  await clock.advance(31_000);
  assert.equal(worker.dispatches.length, 6, 'twice as long after a probe that failed');
  await clock.advance(30_000);
  assert.equal(worker.dispatches.length, 7);
  await worker.report(ids[1] as string, 'done', {}, 1);
  await settle();
  assert.equal(worker.dispatches.length, 8);
  assert.equal(orchestrator.workers()[0]?.status, 'ready');
});

test('a worker an operator drains gets no more, until it is said otherwise', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  await bus.worker('w');
  await orchestrator.drain('w');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  assert.equal(await state(task_id), 'queued');
  assert.equal(orchestrator.workers()[0]?.status, 'draining');
  await orchestrator.drain('w', false);
  assert.equal(await state(task_id), 'accepted');
  await assert.rejects(orchestrator.drain('nobody'), { code: 'not_found' });
});

test('a peer that never described itself gets hints in the text, as a last resort', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  const plain = bus.bare('plain', { structured: false, features: [], onDispatch: () => {} });
  const { task_id } = await orchestrator.submit({ brief: 'x', required_mcp: ['context_mode'] });
  assert.equal(await state(task_id), 'accepted', 'without acknowledgements, delivered is taken');
  assert.deepEqual(plain.modes, ['inline']);
  const { explanation } = await orchestrator.get(task_id);
  assert.equal(explanation?.verified, false);
  assert.equal(orchestrator.workers()[0]?.status, 'unverified');
});

test('a worker whose executor cannot work is shown with the reason, not as ready', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  const worker = await bus.worker('w', {}, { session: { not_ready: 'auth_required' } });
  const status = () => orchestrator.workers()[0]?.status;
  assert.equal(status(), 'auth_required');
  await worker.announce({ session: { not_ready: 'executor_missing' } });
  assert.equal(status(), 'executor_missing');
  await worker.announce();
  assert.equal(status(), 'ready');
});

test('a description that has grown too old is asked for again, and not used meanwhile', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', { features: ['ack', 'announce'] });
  await clock.advance(901_000);
  assert.notEqual(worker.last('ANNOUNCE_REQUEST'), undefined);
  assert.equal(orchestrator.workers()[0]?.status, 'stale');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  assert.equal(await state(task_id), 'queued');
  await worker.announce();
  assert.equal(await state(task_id), 'accepted');
});

test('another name in an announce is shown and changes no other worker', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  await bus.worker('honest');
  await bus.worker('liar', {}, { worker: { agent_id: 'honest' } });
  const [honest, liar] = orchestrator.workers();
  assert.equal(honest?.claimed_agent_id, null);
  assert.equal(liar?.claimed_agent_id, 'honest');
  assert.equal(liar?.peer_id, 'liar');
});

test('an older announce of the same process is passed over', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  const worker = await bus.worker('w', {}, { worker: { model_tier: 'opus' } });
  worker.seq = -1;
  await worker.announce({ worker: { model_tier: 'haiku' } });
  assert.equal(orchestrator.workers()[0]?.profile?.model_tier, 'opus');
});

test('a task of a busy pool is offered to the pool; the worker that accepts it has it', async (t) => {
  const { bus, orchestrator, state } = await fleet(t, { bus: new ScriptedBus(true) });
  const worker = await bus.worker('w', {}, { worker: { pools: ['night'], max_concurrent: 1 } });
  const stranger = await bus.worker('stranger');
  const first = await orchestrator.submit({ brief: 'x', pool: 'night' });
  const second = await orchestrator.submit({ brief: 'y', pool: 'night' });
  assert.equal(await state(first.task_id), 'accepted');
  assert.equal(await state(second.task_id), 'sent');
  assert.equal(bus.offered.length, 1);
  await stranger.say(fleetMessage('TASK_ACK', { task_id: second.task_id, accepted: true }, { attempt: 1 }));
  assert.equal((await orchestrator.get(second.task_id)).worker, 'pool:night', 'a worker of another pool has no say');
  await worker.say(fleetMessage('TASK_ACK', { task_id: second.task_id, accepted: true }, { attempt: 1 }));
  assert.equal((await orchestrator.get(second.task_id)).worker, 'w');
  await worker.report(second.task_id, 'done', {}, 1);
  assert.equal(await state(second.task_id), 'done');
});

test('where a task would go, and why not elsewhere, can be asked without submitting it', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  await bus.worker('small', {}, { worker: { model_tier: 'haiku' } });
  await bus.worker('large', {}, { worker: { model_tier: 'opus' } });
  const explanation = await orchestrator.explain({ brief: 'x', min_tier: 'opus' });
  assert.equal(explanation.chosen, 'large');
  assert.deepEqual(explanation.rejected, { small: ['tier_too_low'] });
  assert.equal(orchestrator.counts().open, 0);
});
