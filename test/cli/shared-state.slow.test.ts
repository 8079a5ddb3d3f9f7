/**
 * Several hosts of one user with the same `host_id`, as an editor's `handfast stdio` beside `handfast up`: all of them have
 * memory, learning and planning, each change is seen by all, and a host that ends or is killed takes nothing with it.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { connect } from '../../src/connect.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { User } from './command.ts';

const users: User[] = [];
const agents: { close(): Promise<void> }[] = [];
after(async () => {
  await Promise.all(agents.map((agent) => agent.close()));
  await Promise.all(users.map((user) => user.leave()));
});

function newUser(): User {
  const user = new User();
  users.push(user);
  return user;
}

/** Connects an agent that has started a separate host, as editors do. */
async function editor(user: User, { agentId = 'editor', config = '', token = '' } = {}) {
  const [program, ...words] = user.line(['stdio', ...(config === '' ? [] : ['--config', config])]);
  const agent = await connect(`stdio:${[program, ...words].join(' ')}`, {
    agentId,
    token,
    capabilities: ['memory', 'learning', 'planning', 'env'],
    cwd: user.cwd,
    env: user.environment(),
  });
  agents.push(agent);
  return agent;
}

test('two hosts on pipes and one that listens have the same plans, choices and memories', async () => {
  const user = newUser();
  const [first, second] = [await editor(user), await editor(user)];
  const { plan_id } = await first.planning.createPlan('shared');
  const { task_id } = await second.planning.add(plan_id, 'Write it down');
  await user.up();
  assert.match((await user.run(['plan', 'ls'])).stdout, /shared/);
  assert.match((await user.run(['plan', 'tasks', plan_id])).stdout, /Write it down/);
  // Exactly one gets it, whichever host it asks.
  const claims = await Promise.all([first, second, first, second].map((agent) => agent.planning.claim(plan_id)));
  const [claim, ...others] = claims.filter((each) => each !== undefined);
  assert.deepEqual([claim?.task.task_id, others], [task_id, []]);
  await claim?.done();
  assert.equal((await second.planning.task(plan_id, task_id)).status, 'done');

  for (const agent of [first, second]) {
    const { experienceId } = await agent.learning.decide('search', ['a', 'b']);
    assert.equal(await agent.learning.reward(experienceId, 1), true);
  }
  const choices = await Promise.all([first, second].map(async ({ learning }) => (await learning.stats()).choices));
  assert.deepEqual(choices[0], choices[1]);
  assert.equal(choices[0]?.[0]?.decisions, 2);

  await (await first.memory.open()).store({ key: 'sky', content: 'The sky is blue' });
  assert.equal((await (await second.memory.open()).get('sky'))?.content, 'The sky is blue');
});

test('agents of other names stay apart, whichever host has the state', async () => {
  const user = newUser();
  const [first, second] = [await editor(user, { agentId: 'one' }), await editor(user, { agentId: 'two' })];
  await first.learning.decide('search', ['a', 'b']);
  assert.deepEqual((await second.learning.stats()).choices, []);
  assert.equal((await first.learning.stats()).choices.length, 1);
});

test('a subscription at the second host gets the changes of the first, and an error of a request stays what it is', async () => {
  const user = newUser();
  const [first, second] = [await editor(user), await editor(user)];
  const { plan_id } = await first.planning.createPlan('followed');
  const stop = new AbortController();
  const seen: string[] = [];
  const following = (async () => {
    for await (const { action, task_id } of second.planning.watch(plan_id, { after: 0, signal: stop.signal })) {
      seen.push(`${action} ${task_id === '' ? 'plan' : 'task'}`);
      if (seen.length === 2) break;
    }
  })();
  await first.planning.add(plan_id, 'A task');
  await following;
  assert.deepEqual(seen, ['created plan', 'created task']);
  await assert.rejects(second.planning.plan('000000000000'), { code: 'planning.unknown_plan' });
  await assert.rejects(second.planning.tasks(plan_id, {}, { signal: AbortSignal.abort() }), { code: 'cancelled' });
});

test('requests that wait at the host with the state hold no place at the one that was asked', async () => {
  const user = newUser();
  const config = user.write('narrow.yaml', 'limits: { max_parallel: 1 }\n');
  const [first, second] = [await editor(user, { config }), await editor(user, { config })];
  const { plan_id } = await first.planning.createPlan('narrow');
  const claims = [1, 2, 3].map(() => second.planning.claim(plan_id, { waitMs: 50_000, renew: false }));
  for (const title of ['a', 'b', 'c']) await second.planning.add(plan_id, title);
  assert.equal(new Set((await Promise.all(claims)).map((claim) => claim?.task.task_id)).size, 3);
});

test('a step at one host is pushed to the sessions of the agent at the others, and to no other agent', async () => {
  const user = newUser();
  const config = user.write('env.yaml', 'plugins: [{ use: env, options: { durability: step } }]\n');
  const other = { agentId: 'other', config };
  const [first, second, third, stranger] = [
    await editor(user, { config }),
    await editor(user, { config }),
    await editor(user, { config }),
    await editor(user, other),
  ];
  const heard = [first, second, third, stranger].map((agent) => {
    const steps: (number | undefined)[] = [];
    agent.env.onEvent(({ step_id }) => steps.push(step_id));
    return steps;
  });
  const episode = await first.env.reset<number, number>('CartPole-v1', { seed: 1 });
  await assert.rejects(stranger.env.episode(episode.id), { code: 'runtime_error' });
  // From its first request on a session is known where the state is.
  const taken = await second.env.episode<number, number>(episode.id);
  await third.env.episode(episode.id);
  await episode.step(0);
  await taken.step(1);
  assert.equal((await episode.observe()).step, 2);
  // A push that was sent before a reply arrives before it.
  for (const agent of [second, third]) assert.equal((await agent.env.episode(episode.id)).latest.step, 2);
  assert.deepEqual(heard, [[1], [0], [0, 1], []]);
});

test('when the host that has the state is killed, the next one takes it over; nothing acknowledged is lost', async () => {
  const user = newUser();
  const up = (await user.up()).command;
  const { plan_id } = await user.json<{ plan_id: string }>(['plan', 'create', 'survivor']);
  const [first, second] = [await editor(user), await editor(user)];
  await first.planning.add(plan_id, 'Before');
  await second.planning.add(plan_id, 'Before too');
  up.child.kill('SIGKILL');
  await up.ended();
  // The host repeats a request that only reads; for a change that was sent to the killed one, the error says that it may have
  // run.
  assert.deepEqual(
    (await Promise.all([first, second].map(({ planning }) => planning.tasks(plan_id)))).map(({ length }) => length),
    [2, 2],
  );
  await Promise.all([first.planning.add(plan_id, 'After'), second.planning.add(plan_id, 'After too')]);
  for (const agent of [first, second]) {
    const titles = (await agent.planning.tasks(plan_id)).map(({ title }) => title);
    assert.deepEqual(titles.toSorted(), ['After', 'After too', 'Before', 'Before too']);
  }
});

test('a session with rights of its own is not served elsewhere: the error names the process and what to do', async () => {
  const user = newUser();
  const config = user.write(
    'handfast.yaml',
    'auth: { tokens: { name: guest, token: the-token-of-the-guest, capabilities: [planning] } }\n',
  );
  const owner = await editor(user, { config: user.write('owner.yaml', '{}\n') });
  await owner.planning.createPlan('private');
  const guest = await editor(user, { config, token: 'the-token-of-the-guest' });
  await assert.rejects(guest.planning.plans(), ({ code, message, detail, retryable }: HandfastError) => {
    assert.equal(code, 'journal_locked');
    assert.equal(retryable, false, 'the same request gets the same answer as long as that host runs');
    assert.match(message, /the host of process \d+ has the state .*; connect to that one, stop it, or set host_id/);
    assert.equal(typeof detail.pid, 'number');
    return true;
  });
});

test('plain episodes of env are played at a host that cannot have the state; durable ones are refused', async () => {
  const user = newUser();
  const env = 'plugins: [planning, { use: env, options: { durability: step } }]\n';
  const guests = 'auth: { tokens: { name: guest, token: the-token-of-the-guest, capabilities: [planning, env] } }\n';
  const open = (config: string, token?: string) =>
    connect(`stdio:${user.line(['stdio', '--config', config]).join(' ')}`, {
      agentId: 'editor',
      capabilities: ['planning', 'env'],
      cwd: user.cwd,
      env: user.environment(),
      ...(token !== undefined && { token }),
    });
  const owner = await open(user.write('owner.yaml', env));
  agents.push(owner);
  await owner.planning.createPlan('has the state');
  const guest = await open(user.write('handfast.yaml', env + guests), 'the-token-of-the-guest');
  agents.push(guest);
  const refused = { code: 'journal_locked', retryable: false };
  await assert.rejects(guest.env.reset('CartPole-v1'), refused);
  const episode = await guest.env.reset('CartPole-v1', { seed: 1, options: { durability: 'none' } });
  const { observation } = await episode.step(0);
  assert.equal((observation as number[]).length, 4);
  await episode.close();
  await assert.rejects(guest.env.experience(), refused);
});

test('a chain and a subagent start in their own folder, never in that of the host that has the state', async () => {
  const user = newUser();
  mkdirSync(join(user.cwd, 'elsewhere'));
  const kinds = '{ use: multi_agent, options: { kinds: [{ name: helper, command: [node, helper.mjs] }] } }';
  const plugins = `plugins: [tools, chains, ${kinds}]\n`;
  const open = (config: string) =>
    connect(`stdio:${user.line(['stdio', '--config', user.write(`${config.length}.yaml`, config)]).join(' ')}`, {
      agentId: 'editor',
      capabilities: ['chains', 'multi_agent'],
      cwd: user.cwd,
      env: user.environment(),
    });
  const owner = await open(plugins);
  const same = await open(`${plugins}# another one\n`);
  const other = await open(`${plugins}workspace: elsewhere\n`);
  agents.push(owner, same, other);
  const write = { kind: 'tool', name: 'write_file', input: { path: 'made.txt', content: 'made' } } as const;
  await owner.chains.put('make', { nodes: [{ node_id: 'write', ...write }] });
  // Requests that only read and store give the same everywhere.
  assert.deepEqual(
    (await other.chains.list()).map(({ name }) => name),
    ['make'],
  );
  const refused = ({ code, message, retryable }: HandfastError): boolean => {
    assert.equal(code, 'journal_locked');
    assert.equal(retryable, false);
    assert.match(
      message,
      /the host of process \d+ has the state .*; connect to that one, stop it, or set host_id.*: it works in another folder/,
    );
    return true;
  };
  await assert.rejects(other.chains.run({ chain: { name: 'make' } }), refused);
  await assert.rejects(other.multi_agent.spawn('one'), refused);
  assert.equal(existsSync(join(user.cwd, 'made.txt')), false);
  assert.equal((await same.chains.run({ chain: { name: 'make' } })).state, 'done');
  assert.equal(existsSync(join(user.cwd, 'made.txt')), true);
});
