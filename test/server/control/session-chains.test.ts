/**
 * Chains as tools of a session's model: listed, run, waited for, asked for, continued; under the approval rules of the session.
 */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect } from '../../../src/connect.ts';
import type { RpcPeer } from '../../control/rpc/rpc-peer.ts';
import { call, create, names, type Started, started, turn } from './session-stand.ts';

const nodes = {
  read: { node_id: 'read', kind: 'tool', name: 'read_file', input_map: { path: '$.path' } },
  write: {
    node_id: 'write',
    kind: 'tool',
    name: 'write_file',
    after: ['read'] as string[],
    input_map: { path: '$.target', content: '$.read.content' },
  },
} as const;

async function stored(t: TestContext, { tcp, token }: Started) {
  const agent = await connect(tcp, { token, capabilities: ['chains', 'tools'] });
  t.after(() => agent.close());
  return agent.chains;
}

const of = (peer: RpcPeer, session: string, type: string) =>
  peer.events.filter((event) => event.type === type && event.payload.session_id === session);

const worked = (peer: RpcPeer, session: string) =>
  of(peer, session, 'session.work').map(
    ({ payload }) => payload as unknown as { work: { id: string; state: string }; event: string; text?: string },
  );

/** Returns the last question. */
function asked(peer: RpcPeer, session: string) {
  const { approval } = of(peer, session, 'approval.requested').at(-1)?.payload ?? {};
  return approval as { id: string; title: string; tool: { input: object } };
}

const until = (peer: RpcPeer, session: string, event: string, what: string) =>
  peer.recorder.until(() => worked(peer, session).some((one) => one.event === event), what);

// biome-ignore lint/suspicious/noExplicitAny: bodies of a provider
const lastResult = (body: any) => JSON.parse(body.messages.at(-1).content);

test('a model finds stored chains by search, runs one with an input, and its nodes are events of the session', async (t) => {
  const stand = await started(t);
  const chains = await stored(t, stand);
  await chains.put('copy', { description: 'Copies a file', nodes: [nodes.read, nodes.write] });
  writeFileSync(join(stand.folder, 'a.txt'), 'hello');
  const session = await create(stand.peer);
  const bodies = await turn(stand, session, 'copy it', [
    call('tool_search', { query: 'chain run' }),
    call('chain_list', {}),
    call('chain_list', { name: 'copy' }, 'steps'),
    call('chain_run', { name: 'copy', input: { path: 'a.txt', target: 'b.txt' } }),
    { text: 'done' },
  ]);
  assert.ok(!names(bodies[0]).some((name) => name.startsWith('chain_')), 'deferred');
  const found = lastResult(bodies[1]).tools.find(({ name }: { name: string }) => name === 'chain_run');
  assert.ok(found.tokens > 50);
  assert.deepEqual(lastResult(bodies[2]), {
    chains: [{ name: 'copy', version: 1, description: 'Copies a file' }],
    runs: [],
  });
  assert.deepEqual(
    lastResult(bodies[3]).steps.map(({ node_id, name }: { node_id: string; name: string }) => [node_id, name]),
    [
      ['read', 'read_file'],
      ['write', 'write_file'],
    ],
  );
  const ran = lastResult(bodies[4]);
  assert.equal(ran.state, 'completed');
  assert.equal(ran.final_output.path, 'b.txt');
  assert.ok(existsSync(join(stand.folder, 'b.txt')));
  assert.deepEqual(
    worked(stand.peer, session).map(({ event, text }) => [event, text]),
    [
      ['started', '{"path":"a.txt","target":"b.txt"}'],
      ['start', 'read'],
      ['done', 'read'],
      ['start', 'write'],
      ['done', 'write'],
      ['ended', 'completed'],
    ],
  );
  const failing = await turn(stand, session, 'and this', [
    call('chain_run', { name: 'copy', input: { path: 'none.txt', target: 'c.txt' } }, 'x'),
    call('chain_run', { name: 'unknown' }, 'y'),
    { text: 'failed' },
  ]);
  const failed = lastResult(failing[1]);
  assert.deepEqual([failed.state, failed.error.detail.node_id], ['failed', 'read']);
  assert.match(failing[2].messages.at(-1).content, /there is no stored chain/);
});

test('a run continues behind the turn and after its interrupt, and its result is delivered with the next prompt', async (t) => {
  const stand = await started(t);
  const chains = await stored(t, stand);
  await chains.put('slow', { nodes: [{ node_id: 'later', kind: 'wait', wait: { event: 'go' } }] });
  const session = await create(stand.peer);
  const [, ran] = await turn(stand, session, 'start', [
    call('chain_run', { name: 'slow', wait_seconds: 0 }),
    { text: 'started' },
  ]);
  const { chain_id, state } = lastResult(ran);
  assert.ok(['running', 'waiting'].includes(state), state);
  stand.model.play([call('chain_run', { name: 'slow' }, 'again')]);
  await stand.peer.call('session.send', { session_id: session, text: 'and wait' });
  const second = () =>
    worked(stand.peer, session).find(({ work, event }) => event === 'wait' && work.id !== chain_id)?.work.id;
  await stand.peer.recorder.until(() => second() !== undefined, 'the second run to wait');
  await stand.peer.call('session.interrupt', { session_id: session });
  await stand.peer.recorder.until(
    () => of(stand.peer, session, 'session.interrupted').length > 0,
    'the end of the turn',
  );
  for (const id of [chain_id, second() ?? '']) await chains.deliver(id, 'go', { at: 'last' });
  await stand.peer.recorder.until(
    () => worked(stand.peer, session).filter(({ event }) => event === 'ended').length === 2,
    'the end of both runs',
  );
  const [next] = await turn(stand, session, 'what came of them?', [{ text: 'both ended' }]);
  assert.equal(JSON.stringify(next.messages).split('chain slow').length, 3);
});

test('what a run asks is put to the user of the session, at once or with the next look at it', async (t) => {
  const stand = await started(t);
  const chains = await stored(t, stand);
  await chains.put('careful', {
    nodes: [{ node_id: 'agree', kind: 'wait', wait: { approval: 'Release it?' } }],
  });
  const session = await create(stand.peer);
  const answer = async (content: string, count: number) => {
    await stand.peer.recorder.until(
      () => of(stand.peer, session, 'approval.requested').length === count,
      'the question',
    );
    const approval = asked(stand.peer, session);
    assert.equal(approval.title, 'chain careful, step agree: Release it?');
    const said = { decision: 'allow', content: { answer: content } };
    await stand.peer.call('approval.answer', { session_id: session, approval_id: approval.id, ...said });
  };
  const running = turn(stand, session, 'run it', [call('chain_run', { name: 'careful' }), { text: 'done' }]);
  await answer('yes', 1);
  assert.equal(lastResult((await running)[1]).state, 'completed');
  await turn(stand, session, 'in the background', [
    call('chain_run', { name: 'careful', wait_seconds: 0 }, 'behind'),
    { text: 'started' },
  ]);
  const id = worked(stand.peer, session).at(-1)?.work.id ?? '';
  const before = of(stand.peer, session, 'approval.requested').length;
  const looking = turn(stand, session, 'look', [call('chain_result', { chain_id: id }), { text: 'refused' }]);
  await answer('no', before + 1);
  assert.equal(lastResult((await looking)[1]).state, 'failed');
});

test('approval rules hold for what the nodes of a chain call; what only reads needs no question', async (t) => {
  const rules =
    "[{ when: \"tool.name == 'write_file' && tool.input.path == 'forbidden.txt'\", then: deny, reason: not there }, " +
    '{ when: "tool.name == \'shell\'", then: deny, reason: no programs }]';
  const stand = await started(t, '', '', { rules });
  const chains = await stored(t, stand);
  const write = {
    node_id: 'w',
    kind: 'tool' as const,
    name: 'write_file',
    input: { path: 'forbidden.txt', content: 'x' },
  };
  await chains.put('bad', { nodes: [write] });
  await chains.put('program', { nodes: [{ node_id: 'p', kind: 'proc', input: { cmd: ['true'] } }] });
  await chains.put('look', { nodes: [{ node_id: 'g', kind: 'tool', name: 'glob', input: { patterns: ['*'] } }] });
  await chains.put('write', { nodes: [{ ...write, input: { path: 'ok.txt', content: 'x' } }] });
  const session = await create(stand.peer);
  const bodies = await turn(stand, session, 'run them', [
    call('chain_run', { name: 'bad' }, 'a'),
    call('chain_run', { name: 'program' }, 'b'),
    call('chain_run', { name: 'look' }, 'c'),
    { text: 'done' },
  ]);
  assert.match(bodies[1].messages.at(-1).content, /not allowed \(it calls write_file: not there\)/);
  assert.match(bodies[2].messages.at(-1).content, /not allowed \(it calls shell: no programs\)/);
  assert.equal(lastResult(bodies[3]).state, 'completed');
  assert.equal(of(stand.peer, session, 'approval.requested').length, 0);
  const asking = turn(stand, session, 'write', [call('chain_run', { name: 'write' }, 'd'), { text: 'done' }]);
  await stand.peer.recorder.until(() => of(stand.peer, session, 'approval.requested').length === 1, 'the question');
  const approval = asked(stand.peer, session);
  // The version that was looked at is the one that runs.
  assert.deepEqual(approval.tool.input, { name: 'write', version: 1 });
  await stand.peer.call('approval.answer', { session_id: session, approval_id: approval.id, decision: 'allow' });
  assert.equal(lastResult((await asking)[1]).state, 'completed');
  assert.ok(existsSync(join(stand.folder, 'ok.txt')) && !existsSync(join(stand.folder, 'forbidden.txt')));
});

test('an input that a node computes is asked for where a rule looks at inputs, and denied where nothing is asked', async (t) => {
  const rules =
    '[{ when: "tool.name == \'chain_run\'", then: allow }, { when: "tool.name == \'write_file\'", then: allow }, ' +
    "{ when: \"tool.name == 'write_file' && tool.input.path == 'forbidden.txt'\", then: deny }]";
  const stand = await started(t, '', '', { rules });
  const chains = await stored(t, stand);
  const write = { ...nodes.write, after: [], input_map: { path: '$.target', content: '$.text' } };
  await chains.put('computed', { nodes: [write] });
  const session = await create(stand.peer, { approvals: 'allow' });
  const input = { target: 'forbidden.txt', text: 'x' };
  const bodies = await turn(stand, session, 'go', [call('chain_run', { name: 'computed', input }), { text: 'no' }]);
  assert.match(bodies[1].messages.at(-1).content, /calls write_file with an input that is not known yet/);
  assert.ok(!existsSync(join(stand.folder, 'forbidden.txt')));
});

test('a run that a restart of the server stopped is delivered as interrupted, and the model resumes it', async (t) => {
  let stand = await started(t);
  await (await stored(t, stand)).put('long', {
    nodes: [
      { node_id: 'g', kind: 'tool', name: 'glob', input: { patterns: ['*.yaml'] } },
      { node_id: 'later', kind: 'wait', after: ['g'], wait: { event: 'go' } },
    ],
  });
  const session = await create(stand.peer);
  await turn(stand, session, 'start', [call('chain_run', { name: 'long', wait_seconds: 0 }), { text: 'started' }]);
  await until(stand.peer, session, 'wait', 'the run to wait');
  stand = await stand.restart();
  await stand.peer.call('session.attach', { session_id: session }).catch(() => {});
  const [body] = await turn(stand, session, 'what now?', [{ text: 'resume it' }]);
  assert.match(JSON.stringify(body.messages), /chain long .*interrupted.*chain_control with the action resume/);
  const chains = await stored(t, stand);
  const [{ chain_id } = { chain_id: '' }] = await chains.runs();
  const resuming = turn(stand, session, 'resume', [
    call('chain_control', { chain_id, action: 'resume' }),
    { text: 'done' },
  ]);
  await until(stand.peer, session, 'wait', 'the run to wait again');
  await chains.deliver(chain_id, 'go', 1);
  assert.equal(lastResult((await resuming)[1]).state, 'completed');
});
