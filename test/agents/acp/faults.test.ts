/**
 * Failures of an agent: it ends, hangs, refuses, or will not stop.
 */
import assert from 'node:assert/strict';
import { realpathSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { FakeSessionLog } from '../../control/support/fake-session-log.ts';
import { FakeTurn } from '../../control/support/fake-turn.ts';
import { calls, isAlive, says, scriptedAgent } from './scripted-agent.ts';

const failureOf = async (run: Promise<unknown>): Promise<HandfastError> => {
  try {
    await run;
  } catch (error) {
    return error as HandfastError;
  }
  throw new assert.AssertionError({ message: 'the turn did not fail' });
};

/** Returns a turn that is interrupted as soon as the agent has sent a piece of its answer. */
const hasty = (log?: FakeSessionLog) =>
  new FakeTurn({ log, onDeed: ({ kind }, turn) => kind === 'answer' && turn.interrupt() });

test('an interrupt is sent to the agent, whose end of the turn is waited for; its process stays', async () => {
  await using agent = scriptedAgent({
    prompts: [
      [says('working'), { untilCancelled: true }, says(' and tidied up'), { stop: 'cancelled' }],
      [says('again'), { stop: 'end_turn' }],
    ],
  });
  const turn = hasty();
  assert.deepEqual(await agent.backend.run(turn), { stopReason: 'interrupted' });
  assert.equal(turn.answerText, 'working and tidied up');
  assert.deepEqual(agent.told('session/cancel'), [{ sessionId: 'agent-session-1' }]);
  await agent.backend.run(new FakeTurn({ log: turn.log }));
  assert.equal(agent.told('initialize').length, 1);
});

test('an agent that does not stop is killed, the turn ends, and the next one has a fresh process', async () => {
  await using agent = scriptedAgent(
    {
      capabilities: { sessionCapabilities: { resume: {} } },
      prompts: [
        [calls('tool_call', { title: 'long', kind: 'execute', status: 'in_progress' }), says('x'), { hang: true }],
        [says('fresh')],
      ],
    },
    { cancelTimeoutMs: 50 },
  );
  const turn = hasty();
  assert.deepEqual(await agent.backend.run(turn), { stopReason: 'interrupted' });
  assert.equal(turn.deedsOf('done')[0]?.done.error, 'the turn was interrupted');
  assert.equal(isAlive(agent.requests()[0]!.pid), false);
  const next = new FakeTurn({ log: turn.log });
  await agent.backend.run(next);
  assert.equal(next.answerText, 'fresh');
  assert.equal(agent.told('session/resume').length, 1);
});

test('an agent that believes PWD finds its folder there', async () => {
  const cwd = realpathSync(tmpdir());
  const args = ['-e', 'console.error(process.env.PWD)'];
  await using agent = scriptedAgent({}, { args, cwd });
  const error = await failureOf(agent.backend.run(new FakeTurn()));
  assert.deepEqual(error.detail.stderr, [cwd]);
});

test('an interrupt while the agent starts ends the turn at once', async () => {
  await using agent = scriptedAgent({ hangAtNew: true }, { startTimeoutMs: 60_000 });
  const turn = new FakeTurn();
  const run = agent.backend.run(turn);
  setTimeout(() => turn.interrupt(), 50);
  assert.deepEqual(await run, { stopReason: 'interrupted' });
  assert.deepEqual(await agent.backend.run(turn), { stopReason: 'interrupted' }, 'and one interrupted before too');
});

test('an agent that ends in the middle fails the turn with its last words, and the next turn starts it again', async () => {
  await using agent = scriptedAgent({
    prompts: [
      [
        says('half an ans'),
        calls('tool_call', { title: 'x', kind: 'read', status: 'in_progress' }),
        { exit: 7, stderr: 'first\nfatal: out of luck\n' },
      ],
      [says('better')],
    ],
  });
  const turn = new FakeTurn();
  const error = await failureOf(agent.backend.run(turn));
  assert.equal(error.code, 'provider_error');
  assert.equal(error.retryable, true);
  assert.match(error.message, /^the agent scripted ended: .*exited with code 7: fatal: out of luck$/);
  assert.deepEqual(error.detail, { agent: 'scripted', stderr: ['first', 'fatal: out of luck'] });
  assert.equal(turn.deedsOf('done')[0]?.done.ok, false);
  assert.deepEqual(turn.items[1], {
    role: 'assistant',
    turn: 'turn-1',
    text: 'half an ans',
    calls: [{ callId: 'call-1', name: 'read', input: { title: 'x' } }],
  });
  const next = new FakeTurn({ log: turn.log });
  await agent.backend.run(next);
  assert.equal(next.answerText, 'better');
});

test('an agent that ends at once, or cannot be started, says why', async () => {
  await using broken = scriptedAgent({ exitAtStart: 3, stderr: 'no licence\n' });
  const ended = await failureOf(broken.backend.run(new FakeTurn()));
  assert.equal(ended.code, 'provider_error');
  assert.match(ended.message, /exited with code 3: no licence$/);
  await using missing = scriptedAgent({}, { command: 'handfast-no-such-program' });
  const refused = await failureOf(missing.backend.run(new FakeTurn()));
  assert.equal(refused.code, 'not_configured');
  assert.match(refused.message, /^the agent scripted cannot be started: cannot start handfast-no-such-program/);
});

test('an agent that stays silent is given up and ended', async () => {
  await using agent = scriptedAgent({ hangAtNew: true }, { startTimeoutMs: 1500 });
  const error = await failureOf(agent.backend.run(new FakeTurn()));
  assert.equal(error.code, 'provider_error');
  assert.equal(error.message, 'the agent scripted did not answer within 1500 ms');
});

test('an agent of another version, and one without a sign-in, are not configured', async () => {
  await using old = scriptedAgent({ protocolVersion: 99 });
  const version = await failureOf(old.backend.run(new FakeTurn()));
  assert.equal(version.code, 'not_configured');
  assert.match(version.message, /speaks version 99 of the protocol, not 1/);
  await using closed = scriptedAgent({
    refuseNew: { code: -32000, message: 'Authentication required' },
    authMethods: [{ id: 'login', name: 'Sign in', description: 'Run `agent login`' }],
  });
  const auth = await failureOf(closed.backend.run(new FakeTurn()));
  assert.equal(auth.code, 'not_configured');
  assert.equal(auth.message, 'the agent scripted wants you to sign in: Run `agent login`');
});

test('a failure of an agent is reported in its words, and its process stays', async () => {
  await using agent = scriptedAgent({
    prompts: [
      [{ fail: { code: -32603, message: 'Internal error', data: { details: 'quota used up' } } }],
      [says('ok')],
    ],
  });
  const log = new FakeSessionLog();
  const error = await failureOf(agent.backend.run(new FakeTurn({ log })));
  assert.equal(error.code, 'provider_error');
  assert.equal(error.message, 'the agent scripted failed: Internal error: quota used up');
  assert.equal(error.detail.agent_code, -32603);
  await agent.backend.run(new FakeTurn({ log }));
  assert.equal(agent.told('initialize').length, 1);
});

test('a message over the limit fails the turn instead of leaving it without an end', async () => {
  await using agent = scriptedAgent(
    { prompts: [[says('x'.repeat(5000)), { stop: 'end_turn' }]] },
    { maxMessageBytes: 4096 },
  );
  const error = await failureOf(agent.backend.run(new FakeTurn()));
  assert.equal(error.code, 'provider_error');
  assert.equal(error.message, 'the agent scripted: the peer sent a message over 4096 bytes');
});

test('permission asked by an agent whose turn is interrupted is answered as cancelled', async () => {
  const permission = {
    toolCall: { toolCallId: 'call-1', title: 'x', kind: 'execute' },
    options: [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }],
  };
  await using agent = scriptedAgent({ prompts: [[{ permission }, { stop: 'cancelled' }]] });
  const turn: FakeTurn = new FakeTurn({
    answers: async () => {
      turn.interrupt();
      throw turn.signal.reason;
    },
  });
  assert.deepEqual(await agent.backend.run(turn), { stopReason: 'interrupted' });
  assert.deepEqual(agent.told('permission answered'), [{ outcome: 'cancelled' }]);
});

test('without the SDK the backend says what to install', async () => {
  await using agent = scriptedAgent({});
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      if (specifier !== '@agentclientprotocol/sdk') return next(specifier, context);
      throw Object.assign(new Error('not found'), { code: 'ERR_MODULE_NOT_FOUND' });
    },
  });
  try {
    const error = await failureOf(Promise.resolve(agent.backend.preflight({})));
    assert.equal(error.code, 'not_configured');
    assert.match(error.message, /it is not installed: npm install @agentclientprotocol\/sdk$/);
  } finally {
    hooks.deregister();
  }
});
