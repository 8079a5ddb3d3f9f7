/** A server of sessions without a host beside it, as `handfast chat` and `handfast rpc` start it: its sessions have the same capabilities. */
import assert from 'node:assert/strict';
import { mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { silentLog } from '../../../src/base/log.ts';
import { loadConfig } from '../../../src/config/config.ts';
import { assembleControl } from '../../../src/server/control/control-assembly.ts';
import { startModelServer } from '../../../src/testing/model-server.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { RpcPeer } from '../../control/rpc/rpc-peer.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { anthropicRefusal } from '../../support/provider-rules.ts';
import { call, create, names, turn } from './session-stand.ts';

async function embedded(t: TestContext) {
  const folder = realpathSync(temporaryFolder(t));
  const model = await startModelServer();
  t.after(() => model[Symbol.asyncDispose]());
  const anthropic = `anthropic: { base_url: "${model.baseUrl('anthropic')}" }`;
  const providers = `providers: { keyring: false, ${anthropic}, compatible: { base_url: "${model.baseUrl('chat')}", models: [small] } }`;
  const control = 'control:\n  model: compatible/small\n  approvals: { rules: [{ when: "true", then: allow }] }';
  writeFileSync(join(folder, 'handfast.yaml'), `${control}\n${providers}\n`);
  const config = await loadConfig('handfast.yaml', {
    cwd: folder,
    env: { HANDFAST_HOME: join(folder, 'home'), ANTHROPIC_API_KEY: 'key' },
  });
  const env = { ...process.env, ANTHROPIC_API_KEY: 'key' };
  const start = async () => {
    const { rpc } = await assembleControl(config, { log: silentLog, version: () => '0', env });
    const [ours, theirs] = memoryPair();
    rpc.accept(theirs);
    const peer = new RpcPeer(ours);
    await peer.call('rpc.handshake', {});
    const stop = async () => {
      await peer.close();
      await rpc.stop('shutdown');
    };
    t.after(stop);
    return { model, peer, stop };
  };
  return { folder, start };
}

test('sessions of an embedded server remember, plan and run chains, also after it was started again and in other folders', async (t) => {
  const { folder, start } = await embedded(t);
  let stand = await start();
  const session = await create(stand.peer);
  const entries = [{ content: 'read', status: 'pending' }];
  const [first] = await turn(stand, session, 'note that', [
    call('memory_store', { key: 'deploy/window', content: 'Releases to production happen on Tuesdays only' }),
    call('update_plan', { entries }),
    call('plan_boards', {}),
    { text: 'noted' },
  ]);
  for (const name of ['memory_search', 'update_plan', 'tool_search', 'read_file']) {
    assert.ok(names(first).includes(name), `${name} in ${names(first).join(' ')}`);
  }
  await stand.stop();
  stand = await start();
  const other = join(folder, 'elsewhere');
  mkdirSync(other);
  const elsewhere = await create(stand.peer, { cwd: other });
  const [recalled, boards, chains] = await turn(stand, elsewhere, 'when can I deploy releases to production?', [
    call('plan_boards', {}, 'a'),
    call('chain_list', {}, 'b'),
    { text: 'on Tuesday' },
  ]);
  assert.match(JSON.stringify(recalled.messages), /happen on Tuesdays only/);
  assert.match(boards.messages.at(-1).content, new RegExp(`session ${session}.*read`, 's'));
  assert.deepEqual(JSON.parse(chains.messages.at(-1).content), { chains: [], runs: [] });
});

test('thinking stands before the calls it led to, unchanged, after a restart and in a fork; an import is taken without', async (t) => {
  const { folder, start } = await embedded(t);
  writeFileSync(join(folder, 'a.txt'), 'alpha');
  let stand = await start();
  const model = { model: 'claude-sonnet-4-5', provider: 'anthropic', thinking_level: 'HIGH' };
  const session = await create(stand.peer, model);
  const read = call('read_file', { path: 'a.txt' });
  // biome-ignore lint/suspicious/noExplicitAny: bodies of a provider
  const bodies: any[] = await turn(stand, session, 'read it', [
    { ...read, thought: [' first\n', '\n second \n'] },
    { text: 'done' },
  ]);
  await stand.stop();
  stand = await start();
  bodies.push(...(await turn(stand, session, 'and after a restart?', [{ text: 'yes' }])));
  const fork = String((await stand.peer.call('session.fork', { session_id: session })).session_id);
  bodies.push(...(await turn(stand, fork, 'and in a fork?', [{ text: 'yes' }])));
  for (const body of bodies) assert.equal(anthropicRefusal(body), undefined);
  for (const { messages } of bodies.slice(1)) {
    const [thinking, made] = messages[1].content;
    assert.deepEqual(thinking, { type: 'thinking', thinking: ' first\n\n second \n', signature: 'sig-1' });
    assert.equal(made.type, 'tool_use');
  }
  const { lines } = await stand.peer.call('session.export', { session_id: session });
  const imported = String((await stand.peer.call('session.import', { lines })).session_id);
  await stand.peer.call('session.configure', { session_id: imported, ...model });
  const [last] = await turn(stand, imported, 'and in an import?', [{ text: 'yes' }]);
  assert.equal(anthropicRefusal(last), undefined);
  assert.equal(last.thinking.type, 'enabled');
  assert.doesNotMatch(JSON.stringify(last.messages), /sig-1/);
});
