/** Messages between agents: to one agent, in channels with one order, and to no unrelated agent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SubagentBackend } from '../../../src/capabilities/multi_agent/backend.ts';
import type { SubagentContext } from '../../../src/capabilities/multi_agent/functions.ts';
import type { ChannelMessage } from '../../../src/capabilities/multi_agent/multi_agent.schema.ts';
import { type Agent, connect } from '../../../src/connect.ts';
import { functionExecutor } from '../../../src/fleet/executors/function.ts';
import { backendOf } from '../../../src/server/subagents.ts';
import { forever, siteOf, until } from './support.ts';

type Member = Agent<'multi_agent'>;

/** Starts a host whose subagents pass their agents to the test, by name. */
async function openSite(t: Parameters<typeof siteOf>[0]) {
  const members = new Map<string, Member>();
  const site = await siteOf(t, {
    kinds: [
      {
        name: 'member',
        async run(_task: unknown, context: SubagentContext) {
          const agent = await connect(context.host, { capabilities: ['multi_agent'] });
          members.set(context.subagent.name, agent);
          return forever(context);
        },
      },
    ],
  });
  const open = async (lead: Member, name: string) => {
    const subagent = await lead.multi_agent.spawn(name);
    await subagent.delegate('talk');
    await until(() => members.has(name));
    return { subagent, agent: members.get(name) as Member };
  };
  return { site, open };
}

test('messages go to subagents, siblings and the agent above, in order', async (t) => {
  const { site, open } = await openSite(t);
  const lead = await site.agent();
  const [a, b] = [await open(lead, 'a'), await open(lead, 'b')];
  const heard: [string, string, unknown][] = [];
  for (const [name, agent] of [
    ['lead', lead],
    ['a', a.agent],
    ['b', b.agent],
  ] as const) {
    agent.multi_agent.onMessage((from, { content }) => heard.push([name, from, content]));
  }
  for (let at = 0; at < 5; at++)
    assert.equal(await lead.multi_agent.send(a.subagent, { type: 'n', content: at }), true);
  await a.agent.multi_agent.send(b.subagent.id, { type: 'n', content: 'to b' });
  await b.agent.multi_agent.send('', { type: 'n', content: 'to lead' });
  await until(() => heard.length === 7);
  const heardBy = (by: string) => heard.filter(([name]) => name === by);
  assert.deepEqual(
    heardBy('a'),
    [0, 1, 2, 3, 4].map((at) => ['a', '', at]),
  );
  assert.deepEqual(heardBy('b'), [['b', a.subagent.id, 'to b']]);
  assert.deepEqual(heardBy('lead'), [['lead', b.subagent.id, 'to lead']]);
  await b.subagent.terminate();
  assert.equal(await lead.multi_agent.send(b.subagent, { type: 'n', content: 'late' }), false);
});

test('a message that comes before the session of its subagent waits for it', async (t) => {
  const site = await siteOf(t, {
    kinds: [
      {
        name: 'late',
        async run(_task, { host, onMessage }) {
          const said: unknown[] = [];
          onMessage((from, { content }) => said.push([from, content]));
          await using agent = await connect(host, { capabilities: ['multi_agent'] });
          await until(() => said.length > 0);
          return { said, id: agent.sessionId !== '' };
        },
      },
    ],
  });
  const agent = await site.agent();
  const late = await agent.multi_agent.spawn('late');
  await agent.multi_agent.send(late, { type: 'note', content: 'early' });
  assert.deepEqual((await late.run('hear')).result, { said: [['', 'early']], id: true });
});

test('what comes before a program has its session waits for that: messages, and what is said in channels, in order', async (t) => {
  const heard: unknown[] = [];
  const backend: SubagentBackend = {
    name: 'late',
    open: (_subagent, { accept }) => ({
      async run() {
        await using agent = await connect({ started: true, accept }, { capabilities: ['multi_agent'] });
        agent.multi_agent.onMessage((from, { content }) => heard.push([from, content]));
        agent.multi_agent.onSaid((channel, { seq, message: { content } }) => heard.push([channel, seq, content]));
        await until(() => heard.length >= 102);
        return { result: {} };
      },
      close: async () => {},
    }),
  };
  const site = await siteOf(t, { kinds: [{ name: 'late', backend }] });
  const lead = await site.agent();
  const late = await lead.multi_agent.spawn('late');
  await lead.multi_agent.channel('plan', [late]);
  const say = (content: unknown) => lead.multi_agent.say('plan', { type: 'note', content });
  await say('left out');
  assert.equal(await lead.multi_agent.send(late, { type: 'note', content: 'early' }), true);
  for (let seq = 2; seq <= 100; seq++) await say(seq);
  const task = await late.delegate('hear');
  await until(() => heard.length >= 100);
  await say(101);
  await say(102);
  await late.result({ taskId: task });
  assert.deepEqual(heard, [['', 'early'], ...Array.from({ length: 101 }, (_, at) => ['plan', at + 2, at + 2])]);
});

test('a channel has one order for all in it, a history, and members of this agent alone', async (t) => {
  const { site, open } = await openSite(t);
  const lead = await site.agent();
  const [a, b, c] = [await open(lead, 'a'), await open(lead, 'b'), await open(lead, 'c')];
  const heard = new Map<string, ChannelMessage[]>();
  for (const [name, agent] of [
    ['lead', lead],
    ['a', a.agent],
    ['b', b.agent],
    ['c', c.agent],
  ] as const) {
    heard.set(name, []);
    agent.multi_agent.onSaid((_channel, said) => heard.get(name)?.push(said));
  }
  const channel = await lead.multi_agent.channel('plan', [a.subagent, b.subagent]);
  assert.deepEqual(channel, { name: 'plan', members: [a.subagent.id, b.subagent.id], lastSeq: 0 });
  const speakers = [lead, a.agent, b.agent];
  const seqs = await Promise.all(
    Array.from({ length: 30 }, (_, at) =>
      (speakers[at % 3] as Member).multi_agent.say('plan', { type: 'line', content: at }),
    ),
  );
  assert.deepEqual(
    seqs.toSorted((x, y) => x - y),
    Array.from({ length: 30 }, (_, at) => at + 1),
  );
  await until(() => ['lead', 'a', 'b'].every((name) => heard.get(name)?.length === 30));
  const order = heard.get('lead');
  for (const name of ['a', 'b']) assert.deepEqual(heard.get(name), order);
  assert.deepEqual(
    order?.map(({ seq }) => seq),
    Array.from({ length: 30 }, (_, at) => at + 1),
  );
  assert.deepEqual(await b.agent.multi_agent.history('plan', { after: 28 }), order?.slice(28));
  // An agent outside of a channel does not find it.
  for (const attempt of [
    () => c.agent.multi_agent.say('plan', { type: 'x', content: 1 }),
    () => c.agent.multi_agent.history('plan'),
    () => a.agent.multi_agent.say('other', { type: 'x', content: 1 }),
  ]) {
    await assert.rejects(attempt, { code: 'unknown_subagent', message: /no channel/ });
  }
  // An own channel of a member with that name is another channel; a member cannot change the one above.
  await assert.rejects(a.agent.multi_agent.channel('plan', [c.subagent.id]), { code: 'unknown_subagent' });
  await lead.multi_agent.channel('plan', [b.subagent, c.subagent]);
  await lead.multi_agent.say('plan', { type: 'line', content: 'later' });
  await until(() => heard.get('c')?.length === 1 && heard.get('b')?.length === 31);
  assert.equal(heard.get('a')?.length, 30);
  await assert.rejects(a.agent.multi_agent.say('plan', { type: 'x', content: 1 }), { code: 'unknown_subagent' });
  await lead.multi_agent.closeChannel('plan');
  await assert.rejects(b.agent.multi_agent.history('plan'), { code: 'unknown_subagent' });
});

test('attacks by message: strangers, other names, and too much', async (t) => {
  const { site, open } = await openSite(t);
  const lead = await site.agent();
  const other = await site.agent('other');
  const [a, b] = [await open(lead, 'a'), await open(lead, 'b')];
  const foreign = await open(other, 'foreign');
  const note = { type: 'note', content: 1 };
  await assert.rejects(a.agent.multi_agent.send(foreign.subagent.id, note), { code: 'unknown_subagent' });
  await assert.rejects(other.multi_agent.send(a.subagent.id, note), { code: 'unknown_subagent' });
  await assert.rejects(other.multi_agent.channel('x', [a.subagent.id]), { code: 'unknown_subagent' });
  await assert.rejects(lead.multi_agent.send('', note), { code: 'unknown_subagent' });
  // A subagent cannot send as another one.
  const as = (from: string) => ({ from_subagent_id: from, to_subagent_id: b.subagent.id, message: note });
  await assert.rejects(a.agent.request('SUBAGENT_MESSAGE_REQ', as(b.subagent.id)), { code: 'unknown_subagent' });
  assert.equal((await a.agent.request('SUBAGENT_MESSAGE_REQ', as(a.subagent.id))).delivered, true);
  assert.equal((await lead.request('SUBAGENT_MESSAGE_REQ', as(a.subagent.id))).delivered, true);
  const long = { type: 'note', content: 'x'.repeat(70_000) };
  await assert.rejects(lead.multi_agent.send(a.subagent, long), { code: 'multi_agent.limit' });
});

test('what is said to an executor is given with its next task: in order, once, bounded, without its own words', async (t) => {
  const prompts: string[] = [];
  const executor = functionExecutor({
    run: async ({ prompt }) => {
      prompts.push(prompt);
      return { text: 'done' };
    },
  });
  const site = await siteOf(t, { kinds: [{ name: 'fleet', backend: backendOf(executor) }] });
  const lead = await site.agent();
  const one = await lead.multi_agent.spawn('one');
  await lead.multi_agent.channel('plan', [one]);
  const say = (content: string) => lead.multi_agent.say('plan', { type: 'note', content });
  await say('first');
  assert.equal(await lead.multi_agent.send(one, { type: 'note', content: 'for you alone' }), true);
  await say('second');
  await one.run('begin');
  await one.run('again');
  const said = (content: string) => `note of the agent above in the channel "plan": ${content}`;
  assert.deepEqual(prompts, [
    [said('first'), 'note of the agent above: for you alone', said('second'), 'begin'].join('\n\n'),
    'again',
  ]);
  for (let at = 1; at <= 105; at++) await say(String(at));
  await one.run('what was said?');
  assert.deepEqual(prompts[2]?.split('\n\n'), [
    '(5 earlier messages of channels are left out.)',
    ...Array.from({ length: 100 }, (_, at) => said(String(at + 6))),
    'what was said?',
  ]);
  await say('x'.repeat(30_000));
  await say('y'.repeat(30_000));
  await one.run('and now?');
  assert.match(prompts[3] ?? '', /^\(1 earlier .*"plan": y{30000}\n\nand now\?$/s);
  // To it alone: a message that cannot wait is refused.
  for (let at = 0; at < 100; at++) assert.equal(await lead.multi_agent.send(one, { type: 'n', content: at }), true);
  assert.equal(await lead.multi_agent.send(one, { type: 'n', content: 'too much' }), false);
  await lead.multi_agent.channel('plan', []);
  await say('to none');
  await one.run('last');
  assert.equal(prompts[4]?.includes('to none'), false);
});

test('the history of a channel is bounded in characters', async (t) => {
  const site = await siteOf(t, { kinds: [] });
  const lead = await site.agent();
  await lead.multi_agent.channel('plan', []);
  for (let at = 0; at < 20; at++) await lead.multi_agent.say('plan', { type: 'n', content: 'x'.repeat(60_000) });
  const stored = await lead.multi_agent.history('plan');
  assert.deepEqual([stored.length, stored.at(-1)?.seq], [17, 20]);
});
