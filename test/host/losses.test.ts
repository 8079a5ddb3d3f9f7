/**
 * The state of plugins has lost writes: each agent learns it no later than the first reply that may lack them, in the
 * way that its extensions allow, until an operator has acknowledged the loss. An agent never gets only a list without
 * the tasks.
 */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { silentLog } from '../../src/base/log.ts';
import { memoryPlugin } from '../../src/capabilities/memory/plugin.ts';
import { planningPlugin } from '../../src/capabilities/planning/plugin.ts';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { connect } from '../../src/connect.ts';
import { createHost, type Host } from '../../src/host/host.ts';
import { StateForwarding, serveState } from '../../src/server/shared-state.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { type Message, rawAgent } from '../support/raw-agent.ts';
import { echo } from '../support/tools.ts';
import { temporaryFolder } from './temporary-folder.ts';

const CAPABILITIES = ['planning', 'memory', 'tools'] as const;

async function hostIn(t: TestContext, folder: string, names: readonly string[] = []): Promise<Host> {
  const host = createHost({
    plugins: [planningPlugin(), memoryPlugin(), toolsPlugin({ tools: [echo] })],
    stateFile: join(folder, 'state.db'),
    dataDir: join(folder, 'data'),
    ...(names.length > 0 && {
      auth: createAuthenticator(
        names.map((name) => ({ principal: { name, capabilities: [...CAPABILITIES] }, digests: [tokenDigest(name)] })),
      ),
    }),
  });
  await host.start();
  t.after(() => host.close(0));
  return host;
}

/** Creates a plan whose file an older copy has replaced. Resolves with the record of the loss. */
async function olderPlan(t: TestContext, folder: string): Promise<string> {
  const file = join(folder, 'state.db');
  for (const [title, then] of [
    ['kept', () => copyFileSync(file, `${file}.copy`)],
    ['lost', () => copyFileSync(`${file}.copy`, file)],
  ] as const) {
    const host = await hostIn(t, folder);
    const agent = await connect(host, { capabilities: ['planning'] });
    const [plan] = await agent.planning.plans();
    const plan_id = plan?.plan_id ?? (await agent.planning.createPlan('p')).plan_id;
    await agent.planning.add(plan_id, title);
    await agent.close();
    await host.close();
    then();
  }
  return `${file}.lost`;
}

const LOSS = {
  code: 'journal_damaged',
  message: 'the newest writes of the store of the plugins are lost',
  acknowledged: true,
};

const short = (losses: unknown): unknown => (losses as Message[]).map(({ found_at: _, ...loss }) => loss);

test('an agent gets the loss, the next one in its handshake, and none once it is acknowledged', async (t) => {
  const folder = temporaryFolder(t);
  const record = await olderPlan(t, folder);
  const host = await hostIn(t, folder);
  const changed = Promise.withResolvers<unknown>();
  const agent = await connect(host, {
    capabilities: CAPABILITIES,
    onCapabilityChanged: (capability, { metadata }) => changed.resolve([capability, metadata.losses]),
  });
  assert.equal(agent.capabilities.get('planning')?.metadata.losses, undefined);
  assert.equal((await agent.planning.plans()).length, 1);
  const [capability, losses] = (await changed.promise) as [string, unknown];
  assert.deepEqual([capability, short(losses)], ['planning', [LOSS]]);
  assert.deepEqual(short(agent.capabilities.get('planning')?.metadata.losses), [LOSS]);

  const next = await connect(host, { capabilities: CAPABILITIES });
  assert.deepEqual(short(next.capabilities.get('planning')?.metadata.losses), [LOSS]);
  for (const other of ['memory', 'tools']) assert.equal(next.capabilities.get(other)?.metadata.losses, undefined);
  rmSync(record);
  const later = await connect(host, { capabilities: CAPABILITIES });
  assert.equal(later.capabilities.get('planning')?.metadata.losses, undefined);
  await Promise.all([agent.close(), next.close(), later.close()]);
});

test('the change is sent before the reply', async (t) => {
  const folder = temporaryFolder(t);
  await olderPlan(t, folder);
  const agent = rawAgent(await hostIn(t, folder));
  await agent.shake({ agent_caps: ['planning'], extensions: { 'handfast/capabilities': {} } });
  agent.send({ type: 'planning/plan/list', id: 'a', a2e: '1.0' });
  const push = await agent.next();
  assert.deepEqual([push.type, push.capability], ['capabilities/changed/push', 'planning']);
  assert.deepEqual(short(push.metadata.losses), [LOSS]);
  const reply = await agent.next();
  assert.deepEqual([reply.type, reply.plans.length, reply.losses], ['planning/plan/list/resp', 1, undefined]);
});

test('plugins of one capability that share the state report its loss once', async (t) => {
  const folder = temporaryFolder(t);
  await olderPlan(t, folder);
  const host = createHost({
    plugins: [planningPlugin(), { name: 'more-planning', type: 'planning', methods: [], store: {} }],
    stateFile: join(folder, 'state.db'),
    dataDir: join(folder, 'data'),
  });
  await host.start();
  t.after(() => host.close(0));
  const changes: unknown[] = [];
  const agent = await connect(host, {
    capabilities: ['planning'],
    onCapabilityChanged: (_, { metadata }) => changes.push(short(metadata.losses)),
  });
  t.after(() => agent.close());
  await agent.planning.plans();
  // A plugin whose store opens with the host reports it in the handshake.
  const known = short(agent.capabilities.get('planning')?.metadata.losses);
  assert.deepEqual(known, [LOSS]);
  assert.ok(changes.length <= 1, `${changes.length} changes`);
});

test('an agent of plain A2E gets the loss in its first reply, and in no later one', async (t) => {
  const folder = temporaryFolder(t);
  await olderPlan(t, folder);
  const agent = rawAgent(await hostIn(t, folder));
  await agent.shake({ agent_caps: ['planning'] });
  agent.send({ type: 'planning/plan/list', id: 'a', a2e: '1.0' });
  const reply = await agent.next();
  assert.deepEqual([reply.type, reply.req_id, reply.plans.length], ['planning/plan/list/resp', 'a', 1]);
  assert.deepEqual(short(reply.losses), [LOSS]);
  agent.send({ type: 'planning/plan/list', id: 'b', a2e: '1.0' });
  assert.equal((await agent.next()).losses, undefined);
});

test('an agent of plain A2E gets the loss of a state that another host has', async (t) => {
  const folder = temporaryFolder(t);
  await olderPlan(t, folder);
  const opened = Promise.withResolvers<void>();
  const hosts = [0, 1].map(() => {
    const path = join(folder, 'state.sock');
    const forwarding = new StateForwarding(path);
    const host: Host = createHost({
      plugins: [planningPlugin()],
      stateFile: join(folder, 'state.db'),
      dataDir: join(folder, 'data'),
      sharedState: {
        opened: () => opened.resolve(serveState({ path, workspace: folder, host, log: silentLog })),
        forward: (...request) => forwarding.forward(...request),
      },
    });
    t.after(() => host.close(0));
    return host;
  });
  for (const host of hosts) {
    await host.start();
    const agent = rawAgent(host);
    await agent.shake({ agent_caps: ['planning'] });
    const asked = async (id: string) => {
      agent.send({ type: 'planning/plan/list', id, a2e: '1.0' });
      const { plans, losses } = await agent.answer(id);
      assert.equal(plans.length, 1);
      return losses;
    };
    assert.deepEqual(short(await asked('a')), [LOSS]);
    assert.equal(await asked('b'), undefined);
    await opened.promise;
  }
});

test('the loss of a memory reaches agents of its principal, and no other', async (t) => {
  const folder = temporaryFolder(t);
  const names = ['ana', 'bo'];
  const first = await hostIn(t, folder, names);
  const agents = (host: Host, heard?: (name: string, losses: unknown) => void) =>
    Promise.all(
      names.map((name) =>
        connect(host, {
          capabilities: CAPABILITIES,
          token: name,
          onCapabilityChanged: (_, { metadata }) => heard?.(name, metadata.losses),
        }),
      ),
    );
  const before = await agents(first);
  for (const [at, agent] of before.entries()) {
    await (await agent.memory.open({ namespace: 'n' })).store({ key: 'k', content: `of ${names[at]}` });
  }
  const { file } = await fileOfMemory(folder, names[0] as string);
  await Promise.all(before.map((agent) => agent.close()));
  await first.close();
  for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true });

  const host = await hostIn(t, folder, names);
  const heard: [string, unknown][] = [];
  const [ana, bo] = await agents(host, (name, losses) => heard.push([name, losses]));
  assert.ok(ana !== undefined && bo !== undefined);
  const remembered = async (agent: typeof ana) => (await agent.memory.open({ namespace: 'n' })).get('k');
  assert.equal((await remembered(bo))?.content, 'of bo');
  assert.equal(await remembered(ana), undefined);
  assert.deepEqual(
    heard.map(([name, losses]) => [name, short(losses)]),
    [['ana', [{ ...LOSS, message: 'the newest writes of the memory are lost' }]]],
  );
  assert.equal(bo.capabilities.get('memory')?.metadata.losses, undefined);
  // An agent of plain A2E that opens the same memory.
  const plain = rawAgent(host);
  await plain.shake({ agent_caps: ['memory'], auth_token: 'ana' });
  plain.send({ type: 'memory/init/req', id: 'm', a2e: '1.0', namespace: 'n' });
  assert.equal((await plain.next()).losses[0].code, 'journal_damaged');
  await Promise.all([ana.close(), bo.close()]);
});

async function fileOfMemory(folder: string, owner: string): Promise<{ file: string }> {
  const { fileOf } = await import('../../src/capabilities/memory/engine/file-name.ts');
  const file = join(folder, 'data', 'memory', fileOf(owner));
  assert.ok(existsSync(file));
  return { file };
}
