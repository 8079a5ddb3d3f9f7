/** Subagents as tools of a session's model: made, waited for, left to work behind the turn, delivered with the next prompt. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { RpcPeer } from '../../control/rpc/rpc-peer.ts';
import { call, create, names, started, turn } from './session-stand.ts';

const program = fileURLToPath(new URL('gated-agent.ts', import.meta.url));
const command = JSON.stringify([process.execPath, '-C', 'handfast-source', program]);
const plugins = `plugins:
  - use: tools
  - use: multi_agent
    options:
      kinds:
        - { name: scout, about: Reads files and summarizes them, command: ${command} }`;

interface Work {
  readonly work: { readonly id: string; readonly state: string; readonly name: string; readonly result?: string };
  readonly event: string;
  readonly text?: string;
  readonly delivered?: boolean;
}

const worked = (peer: RpcPeer, session: string): Work[] =>
  peer.events
    .filter(({ type, payload }) => type === 'session.work' && payload.session_id === session)
    .map(({ payload }) => payload as unknown as Work);

// biome-ignore lint/suspicious/noExplicitAny: bodies of a provider
const lastResult = (body: any) => JSON.parse(body.messages.at(-1).content);

test('a model finds the tools for subagents by search, makes one with a task, and has its result and its progress', {
  timeout: 120_000,
}, async (t) => {
  const stand = await started(t, '', plugins);
  const session = await create(stand.peer);
  const [first, second, , third] = await turn(stand, session, 'delegate it', [
    call('tool_search', { query: 'subagent delegate task' }),
    call('agent_list', {}),
    call('agent_run', { task: 'look around', name: 'looker', max_tokens: 1000 }),
    { text: 'done' },
  ]);
  assert.ok(!names(first).some((name) => name.startsWith('agent_')), 'deferred');
  const [tool] = lastResult(second).tools;
  assert.equal(tool.name, 'agent_run');
  assert.ok(tool.tokens > 50, `${tool.tokens} tokens`);
  assert.ok(names(second).includes('agent_run'));
  const { agent_id, state, result } = lastResult(third);
  assert.match(agent_id, /^sub_/);
  assert.deepEqual([state, result], ['completed', { done: 'look around' }]);
  const events = worked(stand.peer, session);
  assert.deepEqual(
    events.map(({ event, work, text, delivered }) => [event, work.name, work.state, text, delivered]),
    [
      ['started', 'looker', 'running', 'look around', undefined],
      ['progress', 'looker', 'running', '10 % began look', undefined],
      ['ended', 'looker', 'completed', 'completed', true],
    ],
  );
  const [, again] = await turn(stand, session, 'who is there?', [call('agent_list', {}), { text: 'ended' }]);
  const { kinds, subagents } = lastResult(again);
  assert.deepEqual(kinds, [{ kind: 'scout', about: 'Reads files and summarizes them' }]);
  assert.deepEqual([subagents.length, subagents[0].status], [1, 'TERMINATED']);
});

test('subagents work at once behind the turn; what ends after it is delivered with the next prompt, once', {
  timeout: 120_000,
}, async (t) => {
  const stand = await started(t, '', plugins);
  const gate = join(stand.folder, 'open');
  const session = await create(stand.peer);
  const background = (task: string, id: string) => call('agent_run', { task, name: id, wait_seconds: 0 }, id);
  const bodies = await turn(stand, session, 'start both', [
    background(`gate ${gate}`, 'slow'),
    background('throw', 'unlucky'),
    call('agent_result', { agent_ids: [] }, 'none'),
    { text: 'they work' },
  ]);
  assert.equal(lastResult(bodies[1]).state, 'running');
  await stand.peer.recorder.until(
    () => worked(stand.peer, session).some(({ work, event }) => work.name === 'unlucky' && event === 'ended'),
    'the end of the second task',
  );
  writeFileSync(gate, '');
  await stand.peer.recorder.until(
    () => worked(stand.peer, session).filter(({ event }) => event === 'ended').length === 2,
    'the end of both tasks',
  );
  const [next] = await turn(stand, session, 'and now?', [{ text: 'both ended' }]);
  const said = JSON.stringify(next.messages);
  assert.match(said, /results of subagents, chains and processes: data/);
  assert.match(said, /subagent slow .*completed.*done/);
  assert.match(said, /subagent unlucky .*failed.*no luck/);
  const { messages } = (await stand.peer.call('session.messages', { session_id: session })) as {
    messages: { kind: string; text: string }[];
  };
  const shown = messages.filter(({ kind }) => kind === 'system').map(({ text }) => text);
  assert.equal(shown.length, 1);
  assert.match(shown[0] ?? '', /^ended since the last turn: .*subagent slow \(completed\)/);
  const [last] = await turn(stand, session, 'again?', [{ text: 'no' }]);
  assert.equal(JSON.stringify(last.messages).split('results of subagents, chains and processes').length, 2, 'once');
});

test('a task that ran when the server stopped is delivered as interrupted; results that wait outlive the server', {
  timeout: 120_000,
}, async (t) => {
  let stand = await started(t, '', plugins);
  const session = await create(stand.peer);
  await turn(stand, session, 'start both', [
    call('agent_run', { task: `gate ${join(stand.folder, 'never')}`, name: 'stuck', wait_seconds: 0 }, 'a'),
    call('agent_run', { task: 'quick', name: 'quick', wait_seconds: 0 }, 'b'),
    { text: 'ok' },
  ]);
  await stand.peer.recorder.until(
    () => worked(stand.peer, session).some(({ work, event }) => work.name === 'quick' && event === 'ended'),
    'the end of the quick task',
  );
  stand = await stand.restart();
  const [body] = await turn(stand, session, 'what became of them?', [{ text: 'see' }]);
  const said = JSON.stringify(body.messages);
  assert.match(said, /subagent quick .*completed.*quick/);
  assert.match(said, /subagent stuck .*interrupted: .*has ended/);
});

test('an interrupted turn leaves its subagent at work, unless it was to stop with the turn', {
  timeout: 120_000,
}, async (t) => {
  const stand = await started(t, '', plugins);
  for (const stop_with_turn of [false, true]) {
    const gate = join(stand.folder, `open-${stop_with_turn}`);
    const session = await create(stand.peer);
    stand.model.play([call('agent_run', { task: `gate ${gate}`, name: 'one', stop_with_turn })]);
    await stand.peer.call('session.send', { session_id: session, text: 'go' });
    await stand.peer.recorder.until(
      () => worked(stand.peer, session).some(({ event }) => event === 'progress'),
      'the subagent at work',
    );
    await stand.peer.call('session.interrupt', { session_id: session });
    await stand.peer.recorder.until(
      () =>
        stand.peer.events.some(({ type, payload }) => type === 'session.interrupted' && payload.session_id === session),
      'the end of the turn',
    );
    if (!stop_with_turn) writeFileSync(gate, '');
    await stand.peer.recorder.until(
      () => worked(stand.peer, session).some(({ event }) => event === 'ended'),
      'the end of the task',
    );
    const end = worked(stand.peer, session).find(({ event }) => event === 'ended');
    assert.equal(end?.work.state, stop_with_turn ? 'cancelled' : 'completed');
  }
});

test('subagents have what their principal delegates, within its limits, and none are offered where none can be made', {
  timeout: 120_000,
}, async (t) => {
  const token = 'x'.repeat(40);
  const rights =
    'capabilities: [tools, multi_agent], sessions: { drive: own, read: own }, backends: ["*"], tools: { allow: [glob] }';
  const grants =
    'grants: { multi_agent: { delegate: { capabilities: [tools], tools: { allow: [read_file] } }, max_subagents: 1 } }';
  const auth = `auth: { tokens: [{ name: lead, token: "${token}", ${rights}, ${grants} }] }`;
  const stand = await started(t, '', `${plugins}\n${auth}`, { token });
  const session = await create(stand.peer);
  const gate = join(stand.folder, 'open');
  const bodies = await turn(stand, session, 'go', [
    call('agent_run', { task: 'tools' }, 'a'),
    call('agent_run', { task: `gate ${gate}`, wait_seconds: 0 }, 'b'),
    call('agent_run', { task: 'one more' }, 'c'),
    { text: 'done' },
  ]);
  assert.ok(!names(bodies[0]).includes('read_file') && names(bodies[0]).includes('glob'), names(bodies[0]).join(' '));
  assert.deepEqual(lastResult(bodies[1]).result, { tools: ['read_file'] });
  assert.match(bodies[3].messages.at(-1).content, /multi_agent\.limit/);
  const without = await started(t);
  const other = await create(without.peer);
  const [, found] = await turn(without, other, 'go', [call('tool_search', { query: 'subagent' }), { text: 'none' }]);
  assert.deepEqual(lastResult(found).tools, []);
});

test('a model makes a channel of its subagents, speaks in it, and has what they say there once, in its order', {
  timeout: 120_000,
}, async (t) => {
  const stand = await started(t, '', plugins);
  const [session, other] = [await create(stand.peer), await create(stand.peer)];
  const talk = (id: string) => call('agent_run', { task: 'talk plan', name: id, wait_seconds: 0 }, id);
  const [, found, strange, ...begun] = await turn(stand, session, 'start both', [
    call('tool_search', { query: 'channel group talk of subagents' }, 'search'),
    call('agent_channel', { channel: 'plan', agent_ids: ['sub_00000000'] }, 'strange'),
    talk('a'),
    talk('b'),
    { text: 'they work' },
  ]);
  assert.equal(lastResult(found).tools[0].name, 'agent_channel');
  assert.match(lastResult(found).tools[0].description, /agent_say.*agent_history/);
  assert.match(strange.messages.at(-1).content, /unknown_subagent/);
  const ids = begun.map((body) => lastResult(body).agent_id as string);
  const [, made, said, results, history, rest, closed] = await turn(stand, session, 'talk', [
    call('agent_channel', { channel: 'plan', agent_ids: ids }, 'make'),
    call('agent_say', { channel: 'plan', message: 'who is there?' }, 'say'),
    call('agent_result', { agent_ids: ids }, 'result'),
    call('agent_history', { channel: 'plan' }, 'history'),
    call('agent_history', { channel: 'plan', after: 1, limit: 1 }, 'rest'),
    call('agent_channel', { channel: 'plan', close: true }, 'close'),
    { text: 'talked' },
  ]);
  assert.deepEqual(lastResult(made), { channel: 'plan', agent_ids: ids, last_seq: 0 });
  assert.deepEqual(lastResult(said), { seq: 1 });
  const ended = lastResult(results).results as {
    readonly agent_id: string;
    readonly result: unknown;
    readonly messages: readonly { readonly seq: number }[];
  }[];
  const heard = [
    [1, 'who is there?'],
    [2, 'here'],
    [3, 'here'],
  ];
  assert.deepEqual(
    ended.map(({ result }) => result),
    [{ heard }, { heard }],
  );
  const seqs = ended.map(({ messages }) => messages[0]?.seq ?? 0);
  assert.deepEqual(seqs.toSorted(), [2, 3]);
  assert.deepEqual(
    ended.map(({ messages }) => messages),
    seqs.map((seq) => [{ channel: 'plan', seq, type: 'reply', content: 'here' }]),
  );
  const { messages } = lastResult(history);
  assert.deepEqual(
    messages.map(({ seq, from, content }: Record<string, unknown>) => [seq, from, content]),
    [
      [1, 'the agent that made the channel', 'who is there?'],
      ...[2, 3].map((seq) => [seq, ended[seqs.indexOf(seq)]?.agent_id, 'here']),
    ],
  );
  assert.deepEqual(lastResult(rest).messages, [messages[1]]);
  assert.deepEqual(lastResult(closed), { channel: 'plan', closed: true });
  const shown = worked(stand.peer, session).filter(({ event }) => event === 'message');
  assert.deepEqual(
    shown.map(({ text }) => text),
    ['in plan: here', 'in plan: here'],
  );
  // Another session of the same principal has no such channel, and neither its subagents.
  const refused = await turn(stand, other, 'listen', [
    call('agent_history', { channel: 'plan' }, 'history'),
    call('agent_channel', { channel: 'mine', agent_ids: ids }, 'take'),
    { text: 'nothing' },
  ]);
  for (const body of refused.slice(1)) assert.match(body.messages.at(-1).content, /unknown_subagent/);
});
