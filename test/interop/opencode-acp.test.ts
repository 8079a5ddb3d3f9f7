/**
 * The real `opencode acp` behind the `acp` backend, against a scripted model: a turn with a permission and a tool, a
 * conversation that outlives a restart, and an interrupt.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { acpBackend } from '../../src/control/backends/acp/acp.ts';
import type { Backend } from '../../src/control/contract/backend.ts';
import { type ModelRequest, type ScriptedRound, startModelServer } from '../../src/testing/model-server.ts';
import { spawnLink } from '../../src/transport/subprocess.ts';
import { FakeSessionLog } from '../control/support/fake-session-log.ts';
import { FakeTurn, type FakeTurnOptions } from '../control/support/fake-turn.ts';
import { hostEnvironments } from '../control/support/host-environments.ts';
import { opencodeProject, skip } from './opencode.ts';

/** Starts a model that replies to turns by `script`, and to opencode's other requests (a title) with a word. */
const modelWith = (script: (messages: readonly { role: string; content: unknown }[]) => ScriptedRound) =>
  startModelServer({
    otherwise: ({ body }: ModelRequest) => (body.tools === undefined ? { text: 'a title' } : script(body.messages)),
  });

async function runTurn(
  backend: Backend,
  log: FakeSessionLog,
  text: string,
  options: FakeTurnOptions = {},
): Promise<FakeTurn> {
  const turn = new FakeTurn({ log, cwd: log.record.cwd, settings: log.record.settings, text, ...options });
  await backend.run(turn);
  return turn;
}

test('a turn of opencode asks before it runs a program, runs it, and says what came out', { skip }, async () => {
  await using model = await modelWith((messages) =>
    messages.at(-1)?.role === 'tool'
      ? { text: 'I wrote it', usage: { input: 40, output: 5 } }
      : {
          text: 'I will write it',
          tool_calls: [
            { id: 'c1', name: 'bash', input: { command: 'echo hello > note.txt', description: 'Writes a note' } },
          ],
        },
  );
  using project = opencodeProject(model.baseUrl('chat'));
  const backend = acpBackend({ agent: project.agent, start: spawnLink, version: '0.0.0' });
  try {
    const turn = await runTurn(backend, new FakeSessionLog({ cwd: project.folder }), 'write a note');
    assert.equal(turn.answerText, 'I will write itI wrote it');
    const [request] = turn.asked;
    assert.equal(request?.tool?.input.command, 'echo hello > note.txt');
    assert.deepEqual(request?.risks, ['exec']);
    assert.deepEqual(
      turn.deedsOf('done').map(({ done: { name, ok } }) => `${name} ${ok}`),
      ['execute true'],
    );
    assert.equal(readFileSync(join(project.folder, 'note.txt'), 'utf8'), 'hello\n');
    assert.deepEqual(
      turn.items.map(({ role }) => role),
      ['user', 'assistant', 'tool', 'assistant'],
    );
    assert.ok((turn.used.at(-1)?.total_tokens ?? 0) > 0);
  } finally {
    await backend.stop?.();
  }
});

test('opencode does not run what the user denies', { skip }, async () => {
  await using model = await modelWith((messages) =>
    messages.at(-1)?.role === 'user'
      ? { tool_calls: [{ id: 'c1', name: 'bash', input: { command: 'echo x > note.txt', description: 'Writes' } }] }
      : { text: 'then not' },
  );
  using project = opencodeProject(model.baseUrl('chat'));
  const backend = acpBackend({ agent: project.agent, start: spawnLink, version: '0.0.0' });
  try {
    const log = new FakeSessionLog({ cwd: project.folder });
    const turn = await runTurn(backend, log, 'write a note', { answers: () => ({ state: 'denied' }) });
    assert.deepEqual(
      turn.deedsOf('done').map(({ done: { ok } }) => ok),
      [false],
    );
    assert.throws(() => readFileSync(join(project.folder, 'note.txt')), { code: 'ENOENT' });
  } finally {
    await backend.stop?.();
  }
});

test('opencode knows the conversation after a restart, and an interrupt ends its turn', { skip }, async () => {
  const seen: string[] = [];
  await using model = await modelWith((messages) => {
    seen.push(JSON.stringify(messages.filter(({ role }) => role !== 'system')));
    return JSON.stringify(messages.at(-1)).includes('for ever') ? { text: 'well', breaks: 'stall' } : { text: 'noted' };
  });
  using project = opencodeProject(model.baseUrl('chat'));
  const log = new FakeSessionLog({ cwd: project.folder });
  const before = acpBackend({ agent: project.agent, start: spawnLink, version: '0.0.0' });
  const after = acpBackend({ agent: project.agent, start: spawnLink, version: '0.0.0' });
  try {
    await runTurn(before, log, 'the word is apricot');
    await before.stop?.();
    const again = log.reopened();
    const turn = await runTurn(after, again, 'which word?');
    assert.equal(turn.answerText, 'noted');
    assert.match(seen.at(-1)!, /apricot.*noted.*which word/);
    assert.equal(again.record.settings.agentSession?.id, log.record.settings.agentSession?.id);
    assert.doesNotMatch(seen.at(-1)!, /continues an earlier conversation/);

    const endless = new FakeTurn({
      log: again,
      cwd: project.folder,
      settings: again.record.settings,
      text: 'think for ever',
      onDeed: ({ kind }, running) => kind === 'answer' && running.interrupt(),
    });
    assert.deepEqual(await after.run(endless), { stopReason: 'interrupted' });
    assert.equal((await runTurn(after, again, 'and now?')).answerText, 'noted');
  } finally {
    await Promise.all([before.stop?.(), after.stop?.()]);
  }
});

test('opencode writes a file it was allowed to edit through the tools of the session, and the user is asked once', {
  skip,
}, async (t) => {
  await using model = await modelWith((messages) =>
    messages.at(-1)?.role === 'tool'
      ? { text: 'I wrote it' }
      : {
          tool_calls: [
            { id: 'c1', name: 'write', input: { filePath: join(project.folder, 'new.txt'), content: 'new\n' } },
          ],
        },
  );
  using project = opencodeProject(model.baseUrl('chat'));
  const { environments } = hostEnvironments(t);
  const backend = acpBackend({ agent: project.agent, start: spawnLink, version: '0.0.0', environments });
  try {
    const answer = { decision: 'allow' as const, remember: 'once' as const };
    const log = new FakeSessionLog({ cwd: project.folder });
    const turn = await runTurn(backend, log, 'write a file', { answers: () => ({ state: 'allowed', answer }) });
    assert.equal(turn.answerText, 'I wrote it');
    assert.equal(readFileSync(join(project.folder, 'new.txt'), 'utf8'), 'new\n');
    // FakeTurn answers everything; a request that is confirmed would not be asked.
    assert.deepEqual(
      turn.asked.map(({ confirmed = false, tool }) => `${tool?.name} ${confirmed}`),
      ['edit false', 'write_file true'],
    );
  } finally {
    await backend.stop?.();
  }
});
