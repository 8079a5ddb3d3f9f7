/**
 * The link of an agent with subagents is lost repeatedly: it gets each event of them once, and results that arrived meanwhile.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { connect } from '../../../src/connect.ts';
import { listen } from '../../../src/listen.ts';
import { parseTcpAddress } from '../../../src/transport/socket.ts';
import { startRelay } from '../../support/relay.ts';
import { forever, siteOf, until } from './support.ts';

const EVENTS = 60;

/** Starts a host whose subagents report, hang, or wait to be released, behind a relay. */
async function stand(t: TestContext, budget?: () => number) {
  const gate = Promise.withResolvers<void>();
  const { host } = await siteOf(t, {
    kinds: [
      {
        name: 'reporter',
        async run({ name }, { progress, signal }) {
          if (name === 'hang') return forever({ signal });
          if (name === 'held') await gate.promise;
          for (let at = 0; at < EVENTS; at++) {
            progress({ message: `${at}` });
            // Between two turns of the event loop a link can be cut.
            await new Promise((resolve) => setImmediate(resolve));
          }
          return { did: name };
        },
      },
    ],
  });
  const listening = await listen(host, 'tcp://127.0.0.1:0');
  t.after(() => listening.close());
  const relay = await startRelay(parseTcpAddress(listening.address), budget);
  t.after(() => relay.close());
  const agent = await connect(`tcp://127.0.0.1:${relay.port}`, {
    capabilities: ['multi_agent'],
    agentId: 'lead',
    timeoutMs: 60_000,
  });
  t.after(() => agent.close());
  const notices = new Map<string, string[]>();
  agent.multi_agent.onEvent(({ subagentId, event, content }) => {
    const list = notices.get(subagentId) ?? [];
    notices.set(subagentId, list);
    list.push(event === 'progress' ? String(content.message) : event);
  });
  return { agent, relay, gate, notices };
}

const whole = ['started', ...Array.from({ length: EVENTS }, (_, at) => `${at}`), 'completed'];

test('cut in the middle of events, each of them comes once and in order', { timeout: 180_000 }, async (t) => {
  let seed = 11;
  const { agent, relay, notices } = await stand(t, () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return 2_000 + (seed % 7_000);
  });
  const made = await Promise.all(Array.from({ length: 6 }, (_, at) => agent.multi_agent.spawn(`one-${at}`)));
  const stuck = await agent.multi_agent.spawn('stuck');
  await stuck.delegate('work', { name: 'hang' });
  const outcomes = await Promise.all(made.map((one, at) => one.run('work', { name: `task-${at}` })));
  assert.deepEqual(
    outcomes.map(({ status, result }) => [status, result]),
    made.map((_, at) => ['COMPLETED', { did: `task-${at}` }]),
  );
  await until(() => made.every(({ id }) => notices.get(id)?.at(-1) === 'completed'));
  for (const { id } of made) assert.deepEqual(notices.get(id), whole);
  assert.ok(relay.cuts > 3, `only ${relay.cuts} cuts`);
  // The stuck one has cost the others nothing, and still has its task.
  const left = (await agent.multi_agent.list()).find(({ subagent_id }) => subagent_id === stuck.id);
  assert.deepEqual([left?.status, notices.get(stuck.id)], ['RUNNING', ['started']]);
  assert.equal(await stuck.terminate(), true);
});

test('a result that came while the agent was away is delivered when it is back', { timeout: 180_000 }, async (t) => {
  const { agent, relay, gate, notices } = await stand(t);
  const [held, stuck] = await Promise.all([agent.multi_agent.spawn('held'), agent.multi_agent.spawn('stuck')]);
  const task = await held.delegate('work', { name: 'held' });
  await stuck.delegate('work', { name: 'hang' });
  const waiting = held.result({ taskId: task });
  await until(() => notices.get(held.id)?.length === 1);
  await relay.refuse();
  relay.cut();
  await until(() => agent.state === 'lost');
  gate.resolve();
  // It ends on the host while nothing reaches the agent.
  const turns = EVENTS * 4;
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(notices.get(held.id), ['started']);
  await relay.listen();
  assert.deepEqual((await waiting).result, { did: 'held' });
  await until(() => notices.get(held.id)?.at(-1) === 'completed');
  assert.deepEqual(notices.get(held.id), whole);
  assert.deepEqual((await held.result({ taskId: task })).result, { did: 'held' });
  assert.equal((await agent.multi_agent.list()).find(({ subagent_id }) => subagent_id === stuck.id)?.status, 'RUNNING');
});
