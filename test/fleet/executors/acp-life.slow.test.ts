/**
 * The acp executor: sessions found again, agents that fail, refuse, hang or are not there, and the state they leave behind.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Executor } from '../../../src/fleet/executors/executor.ts';
import { says } from '../../agents/acp/scripted-agent.ts';
import { fakeContext, isAlive, taskOf } from './fake-context.ts';
import { permission, scripted, USAGE } from './scripted-acp.ts';

test('after a restart the session is resumed, or loaded without its replay, or started again where it is lost', async () => {
  const replay = [{ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'old words' } }];
  await using agent = scripted({
    capabilities: { loadSession: true },
    replay,
    prompts: [[says('one')], [says('two')], [says('three')]],
  });
  const run = (executor: Executor) => executor.start(taskOf('do it'), fakeContext(agent.cwd)).outcome;
  await run(agent.executor);
  const loaded = agent.again();
  assert.equal(loaded.hasConversation('c-1'), true);
  assert.equal((await run(loaded)).text, 'two');
  assert.equal(agent.told('session/load').length, 1);
  const lost = await run(agent.again({ refuseLoad: true }));
  assert.equal(lost.text, 'three');
  assert.match(lost.warnings?.join() ?? '', /not found; a new one was started/);
  await run(agent.again({ capabilities: { sessionCapabilities: { resume: {} } } }));
  assert.deepEqual(
    agent.told('session/resume').map(({ sessionId }) => sessionId),
    ['agent-session-2'],
  );
});

test('another directory gets a process of its own that continues the session', async () => {
  await using agent = scripted({
    capabilities: { sessionCapabilities: { resume: {} } },
    prompts: [[], [says('there')]],
  });
  await agent.executor.start(taskOf('do it'), fakeContext(agent.cwd)).outcome;
  const { text } = await agent.executor.start(taskOf('go on'), fakeContext(tmpdir())).outcome;
  assert.equal(text, 'there');
  assert.equal(agent.told('session/resume')[0].cwd, tmpdir());
  assert.equal(new Set(agent.requests().map(({ pid }) => pid)).size, 2);
});

test('policy can answer for the user, and a task that only reads is allowed only what reads', async () => {
  const prompts = [[permission('execute'), permission('read'), permission('other')]];
  const answers = async (permissions: 'allow' | 'reject', access: 'read' | 'write') => {
    await using agent = scripted({ prompts }, { permissions });
    const context = fakeContext(agent.cwd);
    await agent.executor.start(taskOf('do it', { access }), context).outcome;
    assert.deepEqual(context.asked, []);
    return agent.told('permission answered').map(({ optionId }) => optionId);
  };
  assert.deepEqual(
    await Promise.all([answers('allow', 'write'), answers('allow', 'read'), answers('reject', 'write')]),
    [
      ['once', 'once', 'once'],
      ['no', 'once', 'no'],
      ['no', 'no', 'no'],
    ],
  );
});

test('an agent that does not let itself be cancelled is ended', async () => {
  await using agent = scripted({ prompts: [[says('half'), { hang: true }]] }, { cancelTimeoutMs: 50 });
  const context = fakeContext(agent.cwd);
  const running = agent.executor.start(taskOf('do it'), context).outcome;
  await context.until(({ progressed }) => progressed.some(({ phase }) => phase === 'running'));
  context.stop(new Error('cancelled'));
  assert.equal((await running).ending, 'stopped');
  await agent.executor.stop();
  assert.equal(isAlive(agent.requests()[0]!.pid), false);
});

test('limits and refusals are distinguished, and a failure has the message of the agent', async () => {
  await using agent = scripted({
    prompts: [
      [says('half'), { stop: 'max_tokens' }],
      [{ stop: 'refusal' }],
      [{ fail: { code: -32603, message: 'Internal error', data: { details: 'quota used up' } } }],
      [says('half'), { exit: 7, stderr: 'out of luck\n' }],
      [says('better')],
    ],
  });
  const run = () => agent.executor.start(taskOf('do it'), fakeContext(agent.cwd)).outcome;
  const limited = await run();
  assert.deepEqual([limited.ending, limited.text], ['limit', 'half']);
  assert.equal((await run()).ending, 'refused');
  assert.equal((await run()).failure, 'the agent scripted failed: Internal error: quota used up');
  const ended = await run();
  assert.match(ended.failure ?? '', /exited with code 7: out of luck/);
  assert.equal(ended.text, 'half');
  assert.equal((await run()).text, 'better');
});

test('an agent without a sign-in, and a missing one, reject the turn with the reason', async () => {
  await using closed = scripted({ refuseNew: { code: -32000, message: 'Authentication required' } });
  await assert.rejects(closed.executor.start(taskOf('x'), fakeContext(closed.cwd)).outcome, { code: 'not_configured' });
  await using missing = scripted({}, { command: 'handfast-no-such-program' });
  await assert.rejects(missing.executor.start(taskOf('x'), fakeContext(missing.cwd)).outcome, {
    code: 'not_configured',
  });
  assert.deepEqual(await missing.executor.probe(new AbortController().signal), {
    present: false,
    detail: 'handfast-no-such-program was not found in PATH; install it or set "command" to its path',
  });
});

test('what an empty turn costs is measured in a conversation that is forgotten', async () => {
  await using agent = scripted({ prompts: [[says('ok'), { stop: 'end_turn', usage: USAGE }]] });
  const signal = new AbortController().signal;
  assert.equal(await agent.executor.measureOverhead?.({ cwd: agent.cwd, signal }), 123);
  assert.equal(readFileSync(join(agent.cwd, 'executor', 'acp.json'), 'utf8'), '[]');
});

test('a stopped executor leaves no process behind', async () => {
  await using agent = scripted({ prompts: [[], [says('half'), { untilCancelled: true }]] });
  await agent.executor.start(taskOf('do it', { contextId: 'c-2' }), fakeContext(agent.cwd)).outcome;
  const context = fakeContext(agent.cwd);
  const running = agent.executor.start(taskOf('do it'), context).outcome;
  await context.until(({ progressed }) => progressed.some(({ phase }) => phase === 'running'));
  await agent.executor.stop();
  assert.equal((await running).ending, 'stopped');
  for (const { pid } of agent.requests()) assert.equal(isAlive(pid), false);
});
