/**
 * The rights of subagents, and attacks on them: by spawning, by forged parents, by ids of others, by the handshake of a
 * subagent.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { SubagentContext } from '../../../src/capabilities/multi_agent/functions.ts';
import type { SubagentKindOptions } from '../../../src/capabilities/multi_agent/plugin.ts';
import { connect } from '../../../src/connect.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { principalWith } from '../../../src/session/roles.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { type Site, siteOf } from './support.ts';

/** Calls each tool and reports which calls are allowed. */
async function tries({ host }: SubagentContext): Promise<Record<string, boolean>> {
  await using agent = await connect(host, { capabilities: ['tools', 'multi_agent'] });
  const may: Record<string, boolean> = {};
  for (const name of ['look', 'run', 'write']) {
    try {
      await agent.tools.call(name, {});
      may[name] = true;
    } catch {
      may[name] = false;
    }
  }
  return may;
}

const trier: SubagentKindOptions = { name: 'trier', run: (_task, context) => tries(context) };
const none = { look: false, run: false, write: false };

const mayOf = async (site: Site, token: string, options: object = {}) => {
  const agent = await site.agent('lead', token);
  const trying = await agent.multi_agent.spawn('x', options);
  const { result, error } = await trying.run('try');
  return result ?? error;
};

describe('what is delegated', () => {
  test('without a grant, what the agent above may do itself', async (t) => {
    const site = await siteOf(
      t,
      { kinds: [trier] },
      {
        reader: { capabilities: ['multi_agent'], tools: { allow: ['look'] } },
        all: { capabilities: ['multi_agent', 'tools'], tools: { risks: ['exec'] } },
        admin: { admin: true },
        none: { capabilities: ['multi_agent'] },
      },
    );
    assert.deepEqual(await mayOf(site, 'reader'), { ...none, look: true });
    assert.deepEqual(await mayOf(site, 'all'), { look: true, run: true, write: true });
    assert.deepEqual(await mayOf(site, 'all', { toolScope: 'restricted' }), { look: true, run: false, write: true });
    assert.deepEqual(await mayOf(site, 'all', { toolScope: 'isolated' }), none);
    assert.deepEqual(await mayOf(site, 'all', { capabilities: ['memory'] }), none);
    assert.deepEqual(await mayOf(site, 'admin'), { look: true, run: true, write: true });
    assert.deepEqual(await mayOf(site, 'none'), none);
  });

  test('a coordinator without a shell leads one that has it, and what it is denied is denied below', async (t) => {
    const delegate = { capabilities: ['tools'], tools: { risks: ['exec'] } };
    const site = await siteOf(
      t,
      { kinds: [trier] },
      {
        lead: { capabilities: ['multi_agent'], tools: { allow: ['look'] }, grants: { multi_agent: { delegate } } },
        fenced: {
          capabilities: ['multi_agent'],
          tools: { allow: ['look'], deny: ['write'] },
          grants: { multi_agent: { delegate } },
        },
        denied: {
          capabilities: ['multi_agent'],
          tools: { denyRisks: ['exec'] },
          grants: { multi_agent: { delegate } },
        },
      },
    );
    const lead = await site.agent('lead', 'lead');
    await assert.rejects(lead.tools.call('run', {}), { code: 'tool_denied' });
    assert.deepEqual(await mayOf(site, 'lead'), { look: true, run: true, write: true });
    assert.deepEqual(await mayOf(site, 'fenced'), { look: true, run: true, write: false });
    assert.deepEqual(await mayOf(site, 'denied'), { look: true, run: false, write: true });
  });

  test('a kind narrows, and never widens', async (t) => {
    const kinds: SubagentKindOptions[] = [
      { ...trier, name: 'looker', tools: { allow: ['look'] } },
      { ...trier, name: 'runner', tools: { allow: ['run'] } },
      { ...trier, name: 'toolless', capabilities: ['memory'] },
    ];
    const site = await siteOf(
      t,
      { kinds },
      {
        wild: { capabilities: ['multi_agent'], tools: { allow: ['*'] } },
        all: { capabilities: ['multi_agent', 'tools'], tools: { risks: ['exec'] } },
      },
    );
    assert.deepEqual(await mayOf(site, 'all', { kind: 'looker' }), { ...none, look: true });
    assert.deepEqual(await mayOf(site, 'all', { kind: 'runner' }), { ...none, run: true });
    // Even if its kind names a tool with a guarded risk without a wildcard, the agent may not delegate it.
    assert.deepEqual(await mayOf(site, 'wild', { kind: 'runner' }), none);
    assert.deepEqual(await mayOf(site, 'all', { kind: 'toolless' }), none);
    assert.deepEqual(await mayOf(site, 'all', { kind: 'toolless', capabilities: ['tools'] }), none);
  });

  test('a right that is withdrawn is withdrawn below, while a subagent runs', async (t) => {
    const grantsOf = (tools: object) => [
      {
        principal: principalWith('lead', [], { capabilities: ['multi_agent'], tools }),
        digests: [tokenDigest('lead')],
      },
    ];
    const auth = createAuthenticator(grantsOf({ allow: ['look'] }));
    const withdrawn = Promise.withResolvers<void>();
    const looked = Promise.withResolvers<void>();
    const kinds: SubagentKindOptions[] = [
      {
        name: 'looker',
        async run(_task, { host }) {
          await using agent = await connect(host, { capabilities: ['tools'] });
          const before = await agent.tools.call('look', {}).then(() => 'may', String);
          looked.resolve();
          await withdrawn.promise;
          const after = await agent.tools.call('look', {}).then(
            () => 'may',
            ({ code }) => code,
          );
          return { before, after };
        },
      },
    ];
    const site = await siteOf(t, { kinds }, undefined, { auth });
    const agent = await site.agent('lead', 'lead');
    const looker = await agent.multi_agent.spawn('x');
    await looker.delegate('look');
    await looked.promise;
    auth.replace(grantsOf({ allow: ['write'] }));
    withdrawn.resolve();
    assert.deepEqual((await looker.result()).result, { before: 'may', after: 'tool_denied' });
  });
});

describe('attacks', () => {
  test('a subagent gains nothing by subagents of its own', async (t) => {
    const kinds: SubagentKindOptions[] = [
      {
        name: 'outer',
        tools: { allow: ['look'] },
        async run(_task, { host }) {
          await using agent = await connect(host, { capabilities: ['multi_agent'] });
          const inner = await agent.multi_agent.spawn('inner', { kind: 'trier', toolScope: 'shared' });
          return { inner: (await inner.run('try')).result };
        },
      },
      trier,
    ];
    const grant = { delegate: { capabilities: ['tools'], tools: { risks: ['exec'] } } };
    const site = await siteOf(
      t,
      { kinds },
      {
        admin: { admin: true },
        lead: { capabilities: ['multi_agent'], grants: { multi_agent: grant } },
      },
    );
    const inner = { inner: { ...none, look: true } };
    assert.deepEqual(await mayOf(site, 'admin', { kind: 'outer' }), inner);
    assert.deepEqual(await mayOf(site, 'lead', { kind: 'outer' }), inner);
  });

  test('what a kind may delegate stays within what was delegated to it', async (t) => {
    const wide = { capabilities: ['*'], tools: { risks: ['exec'] } };
    const kinds: SubagentKindOptions[] = [
      {
        name: 'coordinator',
        tools: { allow: ['look'] },
        delegate: wide,
        async run(_task, { host }) {
          await using agent = await connect(host, { capabilities: ['multi_agent'] });
          const inner = await agent.multi_agent.spawn('inner', { kind: 'trier' });
          return { inner: (await inner.run('try')).result };
        },
      },
      trier,
    ];
    const site = await siteOf(
      t,
      { kinds },
      {
        lead: {
          capabilities: ['multi_agent'],
          tools: { allow: ['look'] },
          grants: { multi_agent: { delegate: wide } },
        },
        small: { capabilities: ['multi_agent'], tools: { allow: ['look', 'write'] } },
      },
    );
    assert.deepEqual(await mayOf(site, 'lead', { kind: 'coordinator' }), {
      inner: { look: true, run: true, write: true },
    });
    assert.deepEqual(await mayOf(site, 'small', { kind: 'coordinator' }), {
      inner: { look: true, run: false, write: true },
    });
  });

  test('ids of other principals and agents are unknown ids', async (t) => {
    const both = { capabilities: ['multi_agent', 'tools'] };
    const site = await siteOf(t, { kinds: [trier] }, { alice: both, bob: both });
    const alice = await site.agent('lead', 'alice');
    const victim = await alice.multi_agent.spawn('victim');
    await victim.run('try');
    for (const [name, token] of [
      ['lead', 'bob'],
      ['other', 'alice'],
    ] as const) {
      const thief = await site.agent(name, token);
      const stolen = thief.multi_agent.subagent(victim.id);
      for (const attempt of [
        () => stolen.result(),
        () => stolen.terminate(),
        () => stolen.cancel(),
        () => stolen.delegate('x'),
      ]) {
        await assert.rejects(attempt, { code: 'unknown_subagent', message: /there is no subagent/ });
      }
      assert.deepEqual(await thief.multi_agent.list({ all: true }), []);
    }
    assert.equal((await victim.run('try')).status, 'COMPLETED');
  });

  test('a subagent reaches neither its siblings nor the subagents above it', async (t) => {
    const ids: string[] = [];
    const kinds: SubagentKindOptions[] = [
      {
        name: 'snoop',
        async run(_task, { host }) {
          await using agent = await connect(host, { capabilities: ['multi_agent'], agentId: 'lead' });
          const codes: string[] = [];
          for (const id of ids) {
            codes.push(
              await agent.multi_agent
                .subagent(id)
                .terminate()
                .then(String, ({ code }) => code),
            );
          }
          return { codes, seen: (await agent.multi_agent.list({ all: true })).length };
        },
      },
    ];
    const site = await siteOf(t, { kinds });
    const agent = await site.agent();
    const [one, two] = await Promise.all([agent.multi_agent.spawn('one'), agent.multi_agent.spawn('two')]);
    ids.push(two?.id ?? '', one?.id ?? '');
    assert.deepEqual((await one?.run('snoop'))?.result, { codes: ['unknown_subagent', 'unknown_subagent'], seen: 0 });
  });

  test('a forged parent gives nothing', async (t) => {
    const both = { capabilities: ['multi_agent', 'tools'] };
    const site = await siteOf(t, { kinds: [trier] }, { alice: both, bob: both });
    const alice = await site.agent('lead', 'alice');
    const bob = await site.agent('thief', 'bob');
    const victim = await alice.multi_agent.spawn('victim');
    const forged = await bob.request('SUBAGENT_SPAWN_REQ', {
      agent: { name: 'x', model: 'default' },
      parent_agent_id: victim.id,
      root_agent_id: 'lead',
    });
    assert.equal(forged.status, 'READY');
    assert.deepEqual(
      (await bob.multi_agent.list()).map((one) => [one.parent_agent_id, one.root_agent_id, one.depth]),
      [['thief', 'thief', 1]],
    );
    assert.equal((await alice.multi_agent.list({ all: true })).length, 1);
  });

  test('the session of a subagent resumes no other, reads no journal and is no administrator', async (t) => {
    let lead = '';
    const kinds: SubagentKindOptions[] = [
      {
        name: 'thief',
        async run(_task, { host }) {
          const [ours, theirs] = memoryPair();
          host.accept(theirs);
          const messages: Record<string, unknown>[] = [];
          const got = Promise.withResolvers<void>();
          ours.open({
            message: (message) => {
              messages.push(message as Record<string, unknown>);
              if (messages.length === 3) got.resolve();
            },
            malformed() {},
            ended() {},
            closed: () => got.resolve(),
          });
          ours.send({
            type: 'handshake/req',
            id: 'h',
            agent_caps: ['tools', 'multi_agent'],
            extensions: { 'handfast/resume': { session_id: lead, cursor: 0 }, 'handfast/journal': {} },
          });
          ours.send({ type: 'journal/follow/req', id: 'j', session_id: lead });
          ours.send({ type: 'multi_agent/task/req', id: 't', wait_seconds: 0 });
          await got.promise;
          const [hands, journal, task] = messages;
          void ours.close();
          return {
            same: hands?.session_id === lead,
            extensions: Object.keys((hands?.extensions ?? {}) as object),
            journal: journal?.type,
            task: task?.task,
          };
        },
      },
    ];
    const site = await siteOf(t, { kinds });
    const agent = await site.agent();
    lead = agent.sessionId;
    const thief = await agent.multi_agent.spawn('thief');
    const { result } = await thief.run('steal');
    assert.deepEqual(result, { same: false, extensions: [], journal: 'error', task: null });
    assert.equal(agent.sessionId, lead);
    await agent.ping();
  });

  test('an agent that is no subagent has no tasks to fetch and none to finish', async (t) => {
    const site = await siteOf(t, { kinds: [trier] });
    const agent = await site.agent();
    for (const [type, body] of [
      ['multi_agent/task/req', { wait_seconds: 0 }],
      ['multi_agent/finish/req', { task_id: 'x', result: {} }],
      ['multi_agent/progress/req', { task_id: 'x', tokens: 1 }],
    ] as const) {
      await assert.rejects(agent.request(type, body), { code: 'multi_agent.denied' });
    }
  });
});

describe('limits', () => {
  test('depth, number and kinds', async (t) => {
    const kinds: SubagentKindOptions[] = [
      {
        name: 'nest',
        async run(_task, { host }) {
          await using agent = await connect(host, { capabilities: ['multi_agent'] });
          try {
            const inner = await agent.multi_agent.spawn('inner', { kind: 'nest' });
            const { result } = await inner.run('nest');
            return { depth: Number(result?.depth) + 1 };
          } catch (error) {
            return { depth: 1, code: (error as { code: string }).code };
          }
        },
      },
      trier,
    ];
    const own = { capabilities: ['multi_agent'] };
    const site = await siteOf(
      t,
      { kinds, maxDepth: 3, maxSubagents: 4 },
      {
        all: own,
        flat: { ...own, grants: { multi_agent: { max_depth: 1, max_subagents: 2, kinds: ['tri*'] } } },
      },
    );
    const all = await site.agent('lead', 'all');
    const nest = await all.multi_agent.spawn('x', { kind: 'nest' });
    assert.deepEqual((await nest.run('nest')).result, { depth: 3 });
    assert.deepEqual(
      (await all.multi_agent.list({ all: true })).map(({ depth }) => depth),
      [1, 2, 3],
    );
    await nest.terminate();
    const flat = await site.agent('lead', 'flat');
    await assert.rejects(flat.multi_agent.spawn('x', { kind: 'nest' }), { code: 'multi_agent.denied' });
    await flat.multi_agent.spawn('x', { kind: 'trier' });
    const second = await flat.multi_agent.spawn('x', { kind: 'trier' });
    await assert.rejects(flat.multi_agent.spawn('x', { kind: 'trier' }), {
      code: 'multi_agent.limit',
      message: /2 \(subagents\)/,
    });
    await second.terminate();
    await flat.multi_agent.spawn('x', { kind: 'trier' });
  });

  test('tokens, cost and steps are those of the tree', async (t) => {
    const kinds: SubagentKindOptions[] = [
      {
        name: 'spender',
        async run({ metadata, tokens_left }, { spent, signal, host }) {
          if (metadata.steps !== undefined) {
            await using agent = await connect(host, { capabilities: ['tools'] });
            for (;;) await agent.tools.call('look', {});
          }
          spent({ tokens: Number(metadata.tokens ?? 0), costUsd: Number(metadata.cost ?? 0) });
          signal.throwIfAborted();
          return { tokens_left };
        },
      },
    ];
    const grant = { max_tokens: 100, max_cost_usd: 2 };
    const site = await siteOf(
      t,
      { kinds },
      { lead: { capabilities: ['multi_agent', 'tools'], grants: { multi_agent: grant } } },
    );
    const agent = await site.agent('lead', 'lead');
    const one = await agent.multi_agent.spawn('one', { budget: { tokens: 60 } });
    const two = await agent.multi_agent.spawn('two', { budget: { tokens: 60 } });
    assert.deepEqual((await one.run('x', { metadata: { tokens: 50 } })).result, { tokens_left: 60 });
    assert.deepEqual((await two.run('x', { metadata: { tokens: 30 } })).result, { tokens_left: 40 });
    const over = await one.run('x', { metadata: { tokens: 11 } });
    assert.deepEqual([over.status, over.code], ['FAILED', 'multi_agent.budget_spent']);
    // Its next task has no other budget.
    await assert.rejects(one.run('x', { metadata: { tokens: 1 } }), { code: 'multi_agent.budget_spent' });
    // The unspent part of its budget is returned.
    await two.terminate();
    const rich = await agent.multi_agent.spawn('three');
    const sibling = await agent.multi_agent.spawn('sibling');
    assert.equal((await rich.run('x', { metadata: { cost: 3 } })).code, 'multi_agent.budget_spent');
    await assert.rejects(agent.multi_agent.spawn('four'), { code: 'multi_agent.budget_spent' });
    await assert.rejects(sibling.run('x', { metadata: { cost: 1 } }), { code: 'multi_agent.budget_spent' });
    // Another name of the agent, and another session, have the budget of the same principal.
    await assert.rejects((await site.agent('other', 'lead')).multi_agent.spawn('five'), {
      code: 'multi_agent.budget_spent',
    });
  });

  test('steps are counted by the host', async (t) => {
    const kinds: SubagentKindOptions[] = [
      {
        name: 'walker',
        async run(_task, { host, signal }) {
          await using agent = await connect(host, { capabilities: ['tools'] });
          while (!signal.aborted) await agent.tools.call('look', {});
          return {};
        },
      },
    ];
    const site = await siteOf(t, { kinds });
    const agent = await site.agent();
    const walker = await agent.multi_agent.spawn('walker', { maxSteps: 5 });
    const { code, usage } = await walker.run('walk');
    assert.deepEqual([code, usage?.steps], ['multi_agent.budget_spent', 6]);
  });
});
