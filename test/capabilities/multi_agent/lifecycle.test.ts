/**
 * The ends of subagents and their tasks: each task ends once, however its ends meet; results stay for an agent that was away; a
 * stuck one holds up no other; and none outlives the session that made it, or the host.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Budget } from '../../../src/base/budget.ts';
import { silentLog } from '../../../src/base/log.ts';
import { Subagent } from '../../../src/capabilities/multi_agent/subagent.ts';
import { Task } from '../../../src/capabilities/multi_agent/task.ts';
import { connect } from '../../../src/connect.ts';
import { fail } from '../../../src/wire/errors.ts';
import { forever, type Site, siteOf, until } from './support.ts';

describe('a task', () => {
  const ends: Record<string, (task: Task) => boolean> = {
    result: (task) => task.complete({ ok: true }),
    failure: (task) => task.fail(fail('runtime_error', 'failed')),
    cancel: (task) => task.fail(fail('cancelled', 'cancelled'), 'CANCELLED'),
    terminate: (task) => task.fail(fail('cancelled', 'terminated'), 'TERMINATED'),
    timeout: (task) => task.fail(fail('timeout', 'late')),
  };

  test('has the first of its ends, in any order, and says so once', async () => {
    const spec = { name: 't', instruction: 'i', criteria: [], metadata: {}, timeoutMs: 1_000 };
    const names = Object.keys(ends);
    // Every order of every two ends, and of all of them from each start.
    const orders = [
      ...names.flatMap((one) => names.map((two) => [one, two])),
      ...names.map((_, at) => [...names.slice(at), ...names.slice(0, at)]),
    ];
    for (const order of orders) {
      const told: string[] = [];
      const task = new Task('t', spec, ({ state }) => void told.push(state));
      const accepted = order.map((name) => ends[name]?.(task));
      assert.deepEqual(accepted, [true, ...order.slice(1).map(() => false)]);
      assert.equal(told.length, 1);
      assert.equal((await task.ended).state, told[0]);
      assert.equal(task.end?.result === null, order[0] !== 'result');
      assert.equal(task.signal.aborted, order[0] !== 'result');
    }
  });
});

test('ends that meet leave one result, announced once, for all who ask', { timeout: 120_000 }, async (t) => {
  let release: (() => void)[] = [];
  const site = await siteOf(t, {
    maxSubagents: 1_000,
    maxEnded: 1_000,
    kinds: [
      {
        name: 'held',
        run: (_task, { signal }) =>
          new Promise((resolve, reject) => {
            release.push(() => resolve({ ok: true }));
            signal.addEventListener('abort', () => reject(signal.reason), { once: true });
          }),
      },
    ],
  });
  const agent = await site.agent();
  const announced = new Map<string, string[]>();
  agent.multi_agent.onEvent(({ event, content }) => {
    const task = String(content.task_id ?? '');
    if (['completed', 'failed', 'cancelled', 'terminated'].includes(event) && task !== '') {
      announced.set(task, [...(announced.get(task) ?? []), event]);
    }
  });
  const seen = new Map<string, string>();
  for (let round = 0; round < 60; round++) {
    release = [];
    const held = await agent.multi_agent.spawn(`r${round}`);
    const taskId = await held.delegate('hold', { timeoutSeconds: round % 3 === 0 ? 0.002 : 60 });
    // With a short timeout it may have ended before it began.
    await until(() => release.length === 1 || announced.has(taskId));
    const waiting = [held.result({ taskId }), held.result({ taskId })];
    const steps = [() => release[0]?.(), () => held.cancel(), () => held.terminate(), () => turn()];
    const at = round % steps.length;
    const racing = [...steps.slice(at), ...steps.slice(0, at)].map(async (step) => step());
    await Promise.all(racing);
    const results = await Promise.all([...waiting, held.result({ taskId })]);
    assert.equal(new Set(results.map(({ status, code }) => `${status} ${code}`)).size, 1);
    seen.set(taskId, results[0]?.status ?? '');
  }
  await until(() => announced.size === seen.size);
  for (const [task, events] of announced) assert.equal(events.length, 1, `${task}: ${events.join(', ')}`);
});

test('one that ignores its signal ends, and no other waits for it', { timeout: 60_000 }, async (t) => {
  const site = await siteOf(t, {
    kinds: [
      { name: 'stuck', run: () => new Promise(() => {}) },
      { name: 'well', run: () => ({ ok: true }) },
    ],
  });
  const agent = await site.agent();
  const stuck = await agent.multi_agent.spawn('stuck', { kind: 'stuck' });
  const task = await stuck.delegate('hang');
  const others = await Promise.all([1, 2, 3].map(() => agent.multi_agent.spawn('well', { kind: 'well' })));
  const results = await Promise.all(others.map((one) => one.run('work')));
  assert.deepEqual(
    results.map(({ status }) => status),
    ['COMPLETED', 'COMPLETED', 'COMPLETED'],
  );
  assert.equal(await stuck.cancel(), true);
  assert.equal((await stuck.result({ taskId: task })).code, 'multi_agent.cancelled');
  await until(async () => (await agent.multi_agent.list())[0]?.open === false);
  assert.equal((await others[0]?.run('again'))?.status, 'COMPLETED');
});

test('subagents end with the session that made them, and their results stay for the next', async (t) => {
  const ended: string[] = [];
  const site = await siteOf(t, {
    kinds: [
      {
        name: 'any',
        run: ({ instruction }, context) => {
          context.signal.addEventListener('abort', () => ended.push(instruction), { once: true });
          return instruction === 'wait' ? forever(context) : { done: instruction };
        },
      },
    ],
  });
  const first = await connect(site.host, { capabilities: ['multi_agent'], agentId: 'lead' });
  const one = await first.multi_agent.spawn('one');
  await one.run('work');
  const two = await first.multi_agent.spawn('two');
  await two.delegate('wait');
  await first.close();
  await until(() => ended.length === 1);
  const second = await site.agent('lead');
  assert.deepEqual(
    (await second.multi_agent.list()).map(({ name, open }) => [name, open]),
    [
      ['one', false],
      ['two', false],
    ],
  );
  assert.deepEqual((await second.multi_agent.subagent(one.id).result()).result, { done: 'work' });
  const lost = await second.multi_agent.subagent(two.id).result();
  assert.deepEqual([lost.status, lost.code], ['TERMINATED', 'multi_agent.terminated']);
});

test('what is below a subagent ends with it', async (t) => {
  const stopped: string[] = [];
  const site = await siteOf(t, {
    kinds: [
      {
        name: 'outer',
        async run(_task, context) {
          await using agent = await connect(context.host, { capabilities: ['multi_agent'] });
          const inner = await agent.multi_agent.spawn('inner', { kind: 'inner' });
          await inner.delegate('wait');
          return forever(context);
        },
      },
      {
        name: 'inner',
        run: (_task, context) => {
          context.signal.addEventListener('abort', () => stopped.push('inner'), { once: true });
          return forever(context);
        },
      },
    ],
  });
  const agent = await site.agent();
  const events: string[] = [];
  agent.multi_agent.onEvent(({ event, content }) => events.push(`${event} ${content.depth}`));
  const outer = await agent.multi_agent.spawn('outer');
  await outer.delegate('lead');
  await until(() => events.includes('started 2'));
  await outer.terminate();
  assert.deepEqual(stopped, ['inner']);
  const all = await agent.multi_agent.list({ all: true });
  assert.deepEqual(
    all.map(({ status, depth, open }) => [status, depth, open]),
    [
      ['TERMINATED', 1, false],
      ['TERMINATED', 2, false],
    ],
  );
  await until(() => events.includes('terminated 1') && events.includes('terminated 2'));
});

const folderOf = (t: TestContext): string => {
  const folder = mkdtempSync(join(tmpdir(), 'subagents-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
};

test('results outlive the host', { timeout: 60_000 }, async (t) => {
  const folder = folderOf(t);
  const kinds = [
    {
      name: 'any',
      run: ({ instruction }: { instruction: string }, context: { signal: AbortSignal }) =>
        instruction === 'wait' ? forever(context) : { done: instruction },
    },
  ];
  const start = () => siteOf(t, { kinds }, undefined, { stateFile: join(folder, 'state.db') });
  const before = await start();
  const agent = await before.agent();
  const one = await agent.multi_agent.spawn('one');
  await one.run('work');
  const two = await agent.multi_agent.spawn('two');
  await two.delegate('wait');
  await before.host.close(0);
  const after = await start();
  const next = await after.agent();
  assert.deepEqual((await next.multi_agent.subagent(one.id).result()).result, { done: 'work' });
  const lost = await next.multi_agent.subagent(two.id).result();
  // Over this link no session is resumed: it ended with the host, and its subagents with it.
  assert.deepEqual([lost.status, lost.code], ['TERMINATED', 'multi_agent.terminated']);
  await assert.rejects(next.multi_agent.subagent(one.id).delegate('more'), { code: 'multi_agent.ended' });
});

test('a restarted host lists the stored subagents below others', { timeout: 60_000 }, async (t) => {
  const folder = folderOf(t);
  const kinds = [
    {
      name: 'outer',
      async run(_task: unknown, context: { host: Parameters<typeof connect>[0] }) {
        await using agent = await connect(context.host, { capabilities: ['multi_agent'] });
        await (await agent.multi_agent.spawn('inner', { kind: 'inner' })).run('work');
        return {};
      },
    },
    { name: 'inner', run: () => ({}) },
  ];
  const start = () => siteOf(t, { kinds }, undefined, { stateFile: join(folder, 'state.db') });
  const before = await start();
  const agent = await before.agent();
  for (const name of ['one', 'two']) await (await agent.multi_agent.spawn(name, { kind: 'outer' })).run('lead');
  await before.host.close(0);
  const after = await start();
  const all = await (await after.agent()).multi_agent.list({ all: true });
  assert.deepEqual(
    all.map(({ name, depth }) => `${name} ${depth}`),
    ['one 1', 'inner 2', 'two 1', 'inner 2'],
  );
});

test('which task ended first, and which subagent is oldest, is no matter of the clock, which may be set back', {
  timeout: 60_000,
}, async (t) => {
  const folder = folderOf(t);
  const kinds = [{ name: 'any', run: ({ instruction }: { instruction: string }) => ({ done: instruction }) }];
  const start = () => siteOf(t, { kinds, maxEnded: 3 }, undefined, { stateFile: join(folder, 'state.db') });
  const now = Date.now.bind(Date);
  let back = 0;
  t.mock.method(Date, 'now', () => now() - back);
  const ids: string[] = [];
  const work = async (site: Site, name: string) => {
    const agent = await site.agent();
    const one = await agent.multi_agent.spawn(name);
    await one.run(name);
    await one.terminate();
    ids.push(one.id);
    back += 3_600_000;
    return agent.multi_agent;
  };
  const first = async (agent: Awaited<ReturnType<typeof work>>) =>
    (await agent.merge(ids.slice(-3).reverse(), { strategy: 'first_success' })).result;
  const before = await start();
  await work(before, 'one');
  await work(before, 'two');
  assert.deepEqual(await first(await work(before, 'three')), { done: 'one' });
  await before.host.close(0);
  const after = await start();
  const agent = await work(after, 'four');
  assert.deepEqual(await first(agent), { done: 'two' });
  assert.deepEqual(
    (await agent.list()).map(({ name }) => name),
    ['two', 'three', 'four'],
  );
});

test('an end is delivered once it is stored, also to an agent that asks after it and before that', async () => {
  const stored: (() => void)[] = [];
  const events: string[] = [];
  const backend = { name: 'any', open: () => ({ run: async () => ({ result: { ok: true } }), close: async () => {} }) };
  const settings = { name: 's', role: '', model: '', systemPrompt: '', kind: 'any', metadata: {} };
  const rights = { asked: [], toolScope: 'shared', memoryScope: 'shared' } as const;
  const narrowed = { capabilities: undefined, tools: undefined, delegate: undefined };
  const budget = () => new Budget(null, { notice: () => {}, spent: () => {} });
  const subagent = new Subagent(
    {
      ...{ id: 'sub_1', parent: undefined, backend: 'any', createdAt: 0, order: 1, depth: 1 },
      settings: { ...settings, ...rights, ...narrowed, maxSteps: 10, timeoutMs: 60_000 },
    },
    {
      announce: (_subagent, event) => void events.push(event),
      store: () => new Promise((resolve) => stored.push(resolve)),
      accept: () => {},
      notStored: () => {},
      newId: () => `task_${stored.length}`,
      order: () => 1,
      maxResultChars: 1_000,
    },
    { budgets: { tokens: budget(), cost: budget() } },
  );
  const host = { workspace: '/', principal: 'p', madeIn: '', rights: () => undefined, log: silentLog };
  await subagent.start(backend, { ...host, acquireProcess: async () => () => {} });
  const spec = { name: 't', instruction: 'i', criteria: [], metadata: {}, timeoutMs: 60_000 };
  const delegated = subagent.delegate(spec);
  stored.shift()?.();
  const { id } = await delegated;
  await until(() => stored.length === 1);
  assert.equal(subagent.task, undefined, 'it has ended');
  const delivered: string[] = [];
  for (const asked of [undefined, id]) void subagent.ended(asked).then((end) => delivered.push(`${end?.end?.state}`));
  const next = subagent.delegate(spec);
  // The end of a task after which another one was given.
  void subagent.ended(id).then((end) => delivered.push(`${end?.end?.state}`));
  await turn();
  assert.deepEqual([delivered, events], [[], ['started']]);
  for (const write of stored.splice(0)) write();
  await next;
  await until(() => delivered.length === 3);
  assert.deepEqual(delivered, ['COMPLETED', 'COMPLETED', 'COMPLETED']);
});

test('a result must fit the schema of its task, as a value or as the JSON of a text', async (t) => {
  const results: unknown[] = [
    { colour: 'green' },
    'Here it is:\n```json\n{"colour": "red"}\n```',
    '{"colour": 3}',
    'no JSON at all',
  ];
  const site = await siteOf(t, { kinds: [{ name: 'f', run: () => results.shift() }] });
  const agent = await site.agent();
  const one = await agent.multi_agent.spawn('one');
  const resultSchema = {
    type: 'object',
    properties: { colour: { type: 'string' } },
    required: ['colour'],
    additionalProperties: false,
  };
  const good = [await one.run('a', { resultSchema }), await one.run('b', { resultSchema })];
  assert.deepEqual(
    good.map(({ status, result, verified }) => [status, result, verified]),
    [
      ['COMPLETED', { colour: 'green' }, 'yes'],
      ['COMPLETED', { colour: 'red' }, 'yes'],
    ],
  );
  for (const task of ['c', 'd']) {
    const bad = await one.run(task, { resultSchema });
    assert.deepEqual([bad.status, bad.result, bad.code], ['FAILED', null, 'multi_agent.invalid_result']);
  }
  await assert.rejects(one.run('e', { resultSchema: { type: 'nonsense' } }), { code: 'multi_agent.invalid' });
});

test('a task that waits for a person is WAITING until it continues or ends', async (t) => {
  const answers = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
  const site = await siteOf(t, {
    kinds: [
      {
        name: 'f',
        async run(_task, { waiting, signal }) {
          waiting('which colour?');
          const { promise } = answers.shift() as PromiseWithResolvers<string>;
          const answer = await Promise.race([promise, forever({ signal })]);
          waiting();
          return answer;
        },
      },
    ],
  });
  const agent = await site.agent();
  const seen: unknown[] = [];
  agent.multi_agent.onEvent(({ event, content }) => void seen.push([event, content.reason].join(' ').trim()));
  const one = await agent.multi_agent.spawn('one');
  const [first] = answers;
  const running = one.run('paint');
  await until(() => seen.includes('waiting which colour?'));
  assert.deepEqual(
    [(await agent.multi_agent.list())[0]?.status, (await agent.multi_agent.list())[0]?.waiting],
    ['RUNNING', true],
  );
  first?.resolve('green');
  assert.deepEqual((await running).result, { summary: 'green' });
  await one.delegate('paint again');
  await until(() => seen.filter((each) => each === 'waiting which colour?').length === 2);
  await one.cancel();
  assert.equal((await agent.multi_agent.list())[0]?.waiting, undefined);
  await until(() => seen.includes('cancelled'));
  assert.deepEqual(seen, [
    'started',
    'waiting which colour?',
    'resumed',
    'completed',
    'started',
    'waiting which colour?',
    'cancelled',
  ]);
});
