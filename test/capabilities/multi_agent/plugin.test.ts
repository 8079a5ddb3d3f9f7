/** Subagents that are functions: made, given tasks, awaited, listed, cancelled and ended, with one end for each task. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect } from '../../../src/connect.ts';
import { forever, siteOf } from './support.ts';

test('a subagent does tasks one after another, and its results stay', async (t) => {
  const site = await siteOf(t, {
    kinds: [
      {
        name: 'adder',
        about: 'Adds',
        run: ({ instruction, metadata }) => ({ sum: Number(metadata.a) + Number(metadata.b), said: instruction }),
      },
    ],
  });
  const agent = await site.agent();
  assert.deepEqual(await agent.multi_agent.kinds(), [{ kind: 'adder', about: 'Adds', backend: 'function' }]);
  const adder = await agent.multi_agent.spawn('one', { role: 'sums', metadata: { team: 'a' } });
  assert.match(adder.id, /^sub_[0-9a-f]{8}$/);
  const [ready] = await agent.multi_agent.list();
  assert.deepEqual(
    [ready?.subagent_id, ready?.name, ready?.status, ready?.role, ready?.kind, ready?.depth, ready?.metadata],
    [adder.id, 'one', 'READY', 'sums', 'adder', 1, { team: 'a' }],
  );
  await assert.rejects(adder.result(), { code: 'multi_agent.no_task' });
  const first = await adder.run('add', { metadata: { a: 1, b: 2 } });
  assert.deepEqual([first.status, first.result, first.error], ['COMPLETED', { sum: 3, said: 'add' }, null]);
  const second = await adder.run('again', { metadata: { a: 3, b: 4 } });
  assert.deepEqual(second.result, { sum: 7, said: 'again' });
  assert.deepEqual((await adder.result({ taskId: first.taskId })).result, { sum: 3, said: 'add' });
  assert.deepEqual([await adder.terminate(), await adder.terminate()], [true, false]);
  assert.deepEqual((await adder.result()).result, { sum: 7, said: 'again' });
  await assert.rejects(adder.delegate('more'), { code: 'multi_agent.ended' });
  const [ended] = await agent.multi_agent.list();
  assert.deepEqual([ended?.status, ended?.open], ['TERMINATED', false]);
});

test('failures, odd results and cancels are ends of their own', async (t) => {
  const site = await siteOf(t, {
    kinds: [
      {
        name: 'odd',
        run({ instruction }, context) {
          if (instruction === 'throw') throw new Error('no luck');
          if (instruction === 'text') return 'done';
          if (instruction === 'wait') return forever(context);
          if (instruction === 'loop') {
            const loop: Record<string, unknown> = {};
            loop.loop = loop;
            return loop;
          }
          context.score(0.5);
          return undefined;
        },
      },
    ],
    maxResultChars: 1_024,
  });
  const agent = await site.agent();
  const odd = await agent.multi_agent.spawn('odd');
  const failed = await odd.run('throw');
  assert.deepEqual([failed.status, failed.code, failed.error], ['FAILED', 'multi_agent.failed', 'no luck']);
  assert.deepEqual((await odd.run('text')).result, { summary: 'done' });
  const nothing = await odd.run('nothing');
  assert.deepEqual([nothing.result, nothing.score], [{ value: null }, 0.5]);
  assert.equal((await odd.run('loop')).code, 'multi_agent.failed');
  const waiting = await odd.delegate('wait');
  await assert.rejects(odd.delegate('text'), { code: 'multi_agent.busy' });
  assert.deepEqual([await odd.cancel(), await odd.cancel()], [true, false]);
  const cancelled = await odd.result({ taskId: waiting });
  assert.deepEqual([cancelled.status, cancelled.code], ['FAILED', 'multi_agent.cancelled']);
  const late = await odd.run('wait', { timeoutSeconds: 0.05 });
  assert.deepEqual([late.status, late.code], ['FAILED', 'multi_agent.timeout']);
  assert.deepEqual((await odd.run('text')).result, { summary: 'done' });
  const last = await odd.delegate('wait');
  await odd.terminate();
  const terminated = await odd.result({ taskId: last });
  assert.deepEqual([terminated.status, terminated.code], ['TERMINATED', 'multi_agent.terminated']);
});

test('a function reaches the host with the session of its subagent', async (t) => {
  const site = await siteOf(t, {
    kinds: [
      {
        name: 'caller',
        async run(_task, { host }) {
          // The id in the handshake is not trusted.
          await using agent = await connect(host, { capabilities: ['tools'], agentId: 'lead' });
          const { data } = await agent.tools.call('look', {});
          return data as object;
        },
      },
    ],
  });
  const agent = await site.agent();
  const caller = await agent.multi_agent.spawn('caller');
  const { result, usage } = await caller.run('look');
  assert.deepEqual(result, { by: caller.id, risk: 'reads' });
  assert.equal(usage?.steps, 1);
});

test('what happens is pushed to the agent above', async (t) => {
  const site = await siteOf(t, {
    kinds: [
      {
        name: 'speaker',
        run(_task, { progress, spent }) {
          progress({ message: 'half', percent: 50 });
          spent({ tokens: 10, costUsd: 0.25 });
          return { ok: true };
        },
      },
    ],
  });
  const agent = await site.agent();
  const seen: [string, unknown][] = [];
  const over = Promise.withResolvers<void>();
  agent.multi_agent.onEvent(({ event, content }) => {
    seen.push([event, content.message ?? content.task ?? content.code]);
    if (event === 'terminated') over.resolve();
  });
  const speaker = await agent.multi_agent.spawn('speaker');
  const { usage } = await speaker.run('speak', { name: 'talk' });
  assert.deepEqual([usage?.tokens, usage?.cost_usd], [10, 0.25]);
  await speaker.terminate();
  await over.promise;
  assert.deepEqual(seen, [
    ['started', 'talk'],
    ['progress', 'half'],
    ['completed', 'talk'],
    ['terminated', 'multi_agent.terminated'],
  ]);
});

test('without kinds nothing can be made, and the error says what to configure', async (t) => {
  const site = await siteOf(t, {});
  const agent = await site.agent();
  assert.deepEqual(await agent.multi_agent.kinds(), []);
  await assert.rejects(agent.multi_agent.spawn('any'), { code: 'multi_agent.not_configured', message: /kinds/ });
  const other = await siteOf(t, { kinds: [{ name: 'a', run: () => 1 }] });
  await assert.rejects((await other.agent()).multi_agent.spawn('x', { kind: 'b' }), {
    code: 'multi_agent.unknown_kind',
  });
  assert.equal((await (await other.agent()).multi_agent.spawn('x', { model: 'a' })).id.slice(0, 4), 'sub_');
});
