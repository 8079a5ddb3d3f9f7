/**
 * The agent's own session: finding it again after a restart, its settings, and its lifetime.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Backend } from '../../../src/control/contract/backend.ts';
import type { SessionSettings } from '../../../src/protocol/session-types.ts';
import { FakeSessionLog } from '../../control/support/fake-session-log.ts';
import { FakeTurn } from '../../control/support/fake-turn.ts';
import { isAlive, says, scriptedAgent } from './scripted-agent.ts';

/** Runs a turn as a session does: with the settings its record has by then. */
async function runTurn(backend: Backend, log: FakeSessionLog, settings: SessionSettings = {}): Promise<FakeTurn> {
  const turn = new FakeTurn({ log, settings: { ...log.record.settings, ...settings } });
  await backend.run(turn);
  return turn;
}

const promptTexts = (prompts: { prompt: { text: string }[] }[]): string[][] =>
  prompts.map(({ prompt }) => prompt.map(({ text }) => text));

/** Resolves once a process has ended. */
async function gone(pid: number): Promise<void> {
  for (const until = performance.now() + 20_000; isAlive(pid); ) {
    assert.ok(performance.now() < until, `process ${pid} is still there`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

test('after a restart the agent resumes its own session, and nothing is reported twice', async () => {
  const capabilities = { loadSession: true, sessionCapabilities: { resume: {} } };
  await using agent = scriptedAgent({ capabilities, prompts: [[says('one')], [says('two')], [says('three')]] });
  const log = new FakeSessionLog();
  await runTurn(agent.backend, log);
  await runTurn(agent.backend, log);
  assert.deepEqual(log.record.settings.agentSession, {
    backend: 'scripted',
    id: 'agent-session-1',
    session: 'session-1',
  });
  assert.equal(log.of('session.configured').length, 1);
  const turn = await runTurn(agent.again(), log.reopened());
  assert.equal(turn.answerText, 'three');
  assert.deepEqual(agent.told('session/resume'), [{ cwd: '/project', mcpServers: [], sessionId: 'agent-session-1' }]);
  assert.equal(agent.told('session/new').length, 1);
  assert.deepEqual(promptTexts(agent.told('session/prompt')), [['do it'], ['do it'], ['do it']]);
  assert.deepEqual(turn.log.of('session.configured'), []);
});

test('an agent that can only load replays its history, and none of it is taken for the answer', async () => {
  const replay = [
    { sessionUpdate: 'user_message_chunk', content: { type: 'text', text: 'do it' } },
    { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'old words' } },
    { sessionUpdate: 'tool_call', toolCallId: 'old', title: 'old', status: 'completed' },
  ];
  await using agent = scriptedAgent({
    capabilities: { loadSession: true },
    replay,
    prompts: [[], [says('new words')]],
  });
  const log = new FakeSessionLog();
  await runTurn(agent.backend, log);
  const turn = await runTurn(agent.again(), log.reopened());
  assert.equal(agent.told('session/load').length, 1);
  assert.equal(turn.answerText, 'new words');
  assert.deepEqual(turn.deedsOf('started'), []);
});

for (const [what, changes] of [
  ['that cannot find its session again', { capabilities: { loadSession: true }, refuseLoad: true }],
  ['that keeps no sessions', {}],
] as const) {
  test(`an agent ${what} receives the conversation so far`, async () => {
    await using agent = scriptedAgent({ ...changes, prompts: [[says('I looked')], [says('yes')]] });
    const log = new FakeSessionLog();
    await runTurn(agent.backend, log);
    const again = log.reopened();
    await runTurn(agent.again(), again);
    const [, [told = '', prompt] = []] = promptTexts(agent.told('session/prompt'));
    assert.match(told, /User: do it\n\nAssistant: I looked\n/);
    assert.equal(prompt, 'do it');
    assert.equal(again.record.settings.agentSession?.id, 'agent-session-2');
  });
}

test("a fork has the conversation, but not its origin's agent session", async () => {
  const capabilities = { sessionCapabilities: { resume: {} } };
  await using agent = scriptedAgent({ capabilities, prompts: [[says('I looked')], [says('yes')]] });
  const log = new FakeSessionLog();
  await runTurn(agent.backend, log);
  const fork = log.reopened({ id: 'session-2' });
  await runTurn(agent.backend, fork);
  assert.deepEqual(agent.told('session/resume'), []);
  assert.equal(fork.record.settings.agentSession?.id, 'agent-session-2');
  assert.match(promptTexts(agent.told('session/prompt'))[1]![0]!, /I looked/);
});

test('a session that was cleared starts again at the agent too', async () => {
  await using agent = scriptedAgent({ capabilities: { sessionCapabilities: { close: {} } }, prompts: [[], []] });
  const log = new FakeSessionLog();
  await runTurn(agent.backend, log);
  log.remember([], 'replace');
  await runTurn(agent.backend, log);
  assert.equal(agent.told('session/new').length, 2);
  assert.deepEqual(agent.told('session/close'), [{ sessionId: 'agent-session-1' }]);
  assert.deepEqual(promptTexts(agent.told('session/prompt'))[1], ['do it']);
});

test('the MCP servers of the session are handed on, in the words of the protocol, as far as the agent can use them', async () => {
  await using agent = scriptedAgent({ capabilities: { mcpCapabilities: { http: true } }, prompts: [[]] });
  await runTurn(agent.backend, new FakeSessionLog(), {
    mcpServers: [
      { name: 'files', command: 'files-server', env: { ROOT: '/x' } },
      { name: 'web', type: 'http', url: 'http://127.0.0.1:1/', headers: [{ name: 'a', value: 'b' }] },
      { name: 'old', type: 'sse', url: 'http://127.0.0.1:1/' },
      { command: 'nameless' },
    ],
  });
  assert.deepEqual(agent.told('session/new')[0].mcpServers, [
    { name: 'files', command: 'files-server', args: [], env: [{ name: 'ROOT', value: '/x' }] },
    { type: 'http', name: 'web', url: 'http://127.0.0.1:1/', headers: [{ name: 'a', value: 'b' }] },
  ]);
});

const modes = {
  currentModeId: 'build',
  availableModes: [
    { id: 'build', name: 'Build' },
    { id: 'plan', name: 'Plan' },
  ],
};
const option = (id: string, currentValue: string, values: readonly string[]) => ({
  id: `the-${id}`,
  name: id,
  category: id,
  type: 'select',
  currentValue,
  options: values.map((value) => ({ value, name: value })),
});

test('the mode of the session is set at the agent when it differs', async () => {
  await using agent = scriptedAgent({ session: { modes }, prompts: [[], [], []] });
  const log = new FakeSessionLog();
  await runTurn(agent.backend, log, { mode: 'build' });
  await runTurn(agent.backend, log, { mode: 'plan' });
  await runTurn(agent.backend, log, { mode: 'plan' });
  assert.deepEqual(agent.told('session/set_mode'), [{ sessionId: 'agent-session-1', modeId: 'plan' }]);
});

test('an agent whose mode and model are options has them set as options; a model it does not offer is not for it', async () => {
  const configOptions = [option('mode', 'build', ['build', 'plan']), option('model', 'small', ['small', 'large'])];
  const optionsAfter = [option('mode', 'plan', ['build', 'plan']), option('model', 'small', ['small', 'large'])];
  await using agent = scriptedAgent({ session: { configOptions }, optionsAfter, prompts: [[], []] });
  const log = new FakeSessionLog();
  await runTurn(agent.backend, log, { mode: 'plan', model: 'large' });
  await runTurn(agent.backend, log, { mode: 'plan', model: 'of-another-provider' });
  assert.deepEqual(
    agent.told('session/set_config_option').map(({ configId, value }) => `${configId} ${value}`),
    ['the-mode plan', 'the-model large'],
  );
});

test('a mode the agent does not have is refused with those it has', async () => {
  await using agent = scriptedAgent({ session: { modes }, prompts: [[]] });
  await assert.rejects(runTurn(agent.backend, new FakeSessionLog(), { mode: 'ask' }), {
    code: 'not_configured',
    message: 'the agent scripted has no mode "ask"; it has: build, plan',
  });
  await using plain = scriptedAgent({ prompts: [[]] });
  await assert.rejects(runTurn(plain.backend, new FakeSessionLog(), { mode: 'ask' }), {
    message: 'the agent scripted has no modes',
  });
});

test('an agent that changes its mode by itself changes the setting of the session', async () => {
  await using agent = scriptedAgent({
    session: { modes },
    prompts: [[{ update: { sessionUpdate: 'current_mode_update', currentModeId: 'plan' } }], []],
  });
  const log = new FakeSessionLog();
  await runTurn(agent.backend, log);
  assert.equal(log.record.settings.mode, 'plan');
  assert.equal(log.record.settings.agentSession?.id, 'agent-session-1', 'and nothing else');
  await runTurn(agent.backend, log);
  assert.deepEqual(agent.told('session/set_mode'), []);
});

test('a process ends when its session is released, when it was idle for long, and when the server stops', async () => {
  const capabilities = { sessionCapabilities: { resume: {} } };
  await using agent = scriptedAgent({ capabilities, prompts: [[], [], [says('back')], []] }, { idleTimeoutMs: 20 });
  const log = new FakeSessionLog();
  await runTurn(agent.backend, log);
  const pids = () => [...new Set(agent.requests().map(({ pid }) => pid))];
  await gone(pids()[0]!);
  const turn = new FakeTurn({ log });
  const run = agent.backend.run(turn);
  await run;
  agent.backend.release?.('session-1');
  await gone(pids()[1]!);
  assert.equal((await runTurn(agent.backend, log)).answerText, 'back');
  assert.equal(agent.told('session/resume').length, 2);
  await agent.backend.stop?.();
  assert.deepEqual(pids().map(isAlive), [false, false, false]);
  await assert.rejects(runTurn(agent.backend, log), { code: 'interrupted' });
});

test('an idle process makes room for another session; when all work, the turn is refused for now', async () => {
  await using agent = scriptedAgent({ prompts: [[], [{ untilCancelled: true }]] }, { maxProcesses: 1 });
  await runTurn(agent.backend, new FakeSessionLog());
  const busy = new FakeTurn({ log: new FakeSessionLog({ id: 'session-2' }) });
  const run = agent.backend.run(busy);
  await assert.rejects(runTurn(agent.backend, new FakeSessionLog({ id: 'session-3' })), {
    code: 'over_capacity',
    retryable: true,
  });
  busy.interrupt();
  assert.deepEqual(await run, { stopReason: 'interrupted' });
  await gone(agent.requests()[0]!.pid);
});
