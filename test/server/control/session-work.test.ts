/**
 * Work that a session's model began when its principal may not use it any more: it ends, and the model has that with the next
 * prompt.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect } from '../../../src/connect.ts';
import { call, create, type Started, started, turn } from './session-stand.ts';

const program = fileURLToPath(new URL('gated-agent.ts', import.meta.url));
const command = JSON.stringify([process.execPath, '-C', 'handfast-source', program]);
const plugins = `plugins:
  - use: tools
  - use: chains
  - { use: proc, options: { programs: [sh] } }
  - { use: multi_agent, options: { kinds: [{ name: scout, command: ${command} }] } }`;

const token = 'x'.repeat(40);
const rights = (capabilities: string): string =>
  `${plugins}\nauth: { tokens: [{ name: lead, token: "${token}", capabilities: ${capabilities}, ` +
  'sessions: { drive: own, read: own }, backends: ["*"] }] }';

interface Work {
  readonly work: { readonly kind: string; readonly state: string };
  readonly event: string;
}

/** Returns the ends of a session's work so far. */
const ends = ({ peer }: Started, session: string) =>
  peer.events
    .filter(({ type, payload }) => type === 'session.work' && payload.session_id === session)
    .map(({ payload }) => payload as unknown as Work)
    .filter(({ event }) => event === 'ended')
    .map(({ work: { kind, state } }) => `${kind} ${state}`)
    .toSorted();

const interrupted = ['chain interrupted', 'process interrupted', 'subagent interrupted'];

/** Starts a session with one of each at work. */
async function working(t: TestContext) {
  const stand = await started(t, '', rights('[tools, multi_agent, chains, proc]'), { token });
  const agent = await connect(stand.tcp, { token, capabilities: ['chains'] });
  await agent.chains.put('slow', { nodes: [{ node_id: 'later', kind: 'wait', wait: { event: 'go' } }] });
  await agent.close();
  const session = await create(stand.peer);
  await turn(stand, session, 'start them', [
    call('agent_run', { task: `gate ${stand.folder}/never`, name: 'one', wait_seconds: 0 }, 'a'),
    call('chain_run', { name: 'slow', wait_seconds: 0 }, 'b'),
    call('proc_run', { argv: ['sh', '-c', 'exec cat'], interactive: true, wait_seconds: 0 }, 'c'),
    { text: 'they run' },
  ]);
  return { stand, session };
}

test('subagents, chains and processes end with the right to them, and each end is delivered once', {
  timeout: 120_000,
}, async (t) => {
  const { stand, session } = await working(t);
  await stand.reload(rights('[tools]'));
  await stand.peer.recorder.until(() => ends(stand, session).length === 3, 'the ends of all three');
  assert.deepEqual(ends(stand, session), interrupted);
  const [next] = await turn(stand, session, 'what became of them?', [{ text: 'they ended' }]);
  const said = JSON.stringify(next.messages);
  for (const kind of ['subagent one', 'chain slow', 'process sh']) {
    assert.match(said, new RegExp(`${kind} \\(.*interrupted: .*no longer granted`));
  }
  const [last] = await turn(stand, session, 'again?', [{ text: 'no' }]);
  assert.equal(JSON.stringify(last.messages).split('results of subagents, chains and processes').length, 2, 'once');
});

for (const left of ['[tools]', '[]']) {
  test(`what a stopped server ran has ended where the next one does not grant it; granted: ${left}`, {
    timeout: 120_000,
  }, async (t) => {
    const { stand, session } = await working(t);
    const next = await stand.restart(rights(left));
    await next.peer.call('session.attach', { session_id: session }).catch(() => {});
    next.model.play([{ text: 'they ended' }]);
    await next.peer.call('session.send', { session_id: session, text: 'what became of them?' });
    await next.peer.recorder.until(() => ends(next, session).length === 3, 'the ends of all three');
    assert.deepEqual(ends(next, session), interrupted);
    if (left !== '[]') return;
    // Without memory nothing could be recalled either, and that must not be the cause that ends the turn.
    const failed = () => next.peer.events.find(({ type }) => type === 'session.error')?.payload.message;
    await next.peer.recorder.until(() => failed() !== undefined, 'the end of the turn');
    assert.match(String(failed()), /granted none of the requested capabilities/);
  });
}
