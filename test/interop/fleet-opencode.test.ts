/**
 * The real `opencode run` as an executor, against a scripted model, in a real git repository: it changes files, its tokens
 * are counted, the next turn knows the conversation, and it ends when it is stopped.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeExecutor } from '../../src/fleet/executors/make.ts';
import { tokensSpent } from '../../src/fleet/executors/usage.ts';
import { extractReply } from '../../src/fleet/phases/reply.ts';
import { type ModelRequest, startModelServer } from '../../src/testing/model-server.ts';
import { spawnLink } from '../../src/transport/subprocess.ts';
import { fakeContext, fakeLog, isAlive, taskOf } from '../fleet/executors/fake-context.ts';
import { changesIn, makeRepository } from './git-repository.ts';
import { opencodeProject, skip } from './opencode.ts';
import { readinessOf } from './readiness.ts';

const RESULT = '```json\n{"type":"TASK_RESULT","protocol_version":"2.0","task_id":"t-1","status":"done"}\n```';

test('opencode changes files of a repository, is counted, continues a conversation, and is stopped', {
  skip,
}, async () => {
  const seen: string[] = [];
  await using model = await startModelServer({
    otherwise: ({ body }: ModelRequest) => {
      if (body.tools === undefined) return { text: 'a title' };
      const said = body.messages.filter(({ role }: { role: string }) => role !== 'system');
      seen.push(JSON.stringify(said));
      const last = said.at(-1);
      if (last.role === 'tool')
        return { text: ['Written.\n\n', RESULT], usage: { input: 500, output: 30, cached: 200 } };
      if (JSON.stringify(last).includes('for ever')) return { text: 'well', breaks: 'stall' };
      const input = { command: 'echo hello >> note.txt', description: 'Writes a note' };
      const calls = [{ id: `c${said.length}`, name: 'bash', input }];
      return { text: 'I write it.', tool_calls: calls, usage: { input: 300, output: 20, cached: 100 } };
    },
  });
  using project = opencodeProject(model.baseUrl('chat'));
  makeRepository(project.folder);
  const { command, env } = project.agent;
  const home = join(env?.HOME as string, 'worker');
  const make = () => makeExecutor({ kind: 'opencode', command, env }, { home, log: fakeLog() });
  const executor = make();

  const readiness = await readinessOf(executor);
  assert.equal(readiness.present, true);
  assert.match(readiness.version ?? '', /^\d+\.\d+/);

  const context = fakeContext(project.folder);
  const first = await executor.start(taskOf('Write a note. The word is apricot.'), context).outcome;
  assert.equal(first.failure, undefined);
  assert.equal(readFileSync(join(project.folder, 'note.txt'), 'utf8'), 'hello\n');
  assert.deepEqual(changesIn(project.folder), ['?? note.txt']);
  assert.equal(tokensSpent(first.usage), 200 + 20 + 300 + 30);
  assert.equal(first.usage.cache_read, 300);
  assert.deepEqual(
    context.used.map((usage) => tokensSpent(usage)),
    [220, 550],
  );
  const { text, exitCode } = first;
  const { result } = extractReply({ text, taskId: 't-1', replySchema: 'structured', exitCode });
  assert.equal(result?.status, 'done');

  const again = make();
  assert.equal(again.hasConversation('c-1'), true);
  const second = await again.start(taskOf('And once more.'), fakeContext(project.folder)).outcome;
  assert.equal(second.failure, undefined);
  assert.match(seen.at(-1) ?? '', /apricot.*once more/);
  assert.equal(readFileSync(join(project.folder, 'note.txt'), 'utf8'), 'hello\nhello\n');

  const endless = fakeContext(project.folder);
  const asked = model.requests.length;
  const running = again.start(taskOf('Think for ever.'), endless).outcome;
  await model.request(asked);
  endless.stop(new Error('the deadline came'));
  const stopped = await running;
  assert.equal(stopped.ending, 'stopped');
  assert.equal(isAlive(endless.pids[0]!), false);
});

test('opencode over the Agent Client Protocol asks first, accepts steering, and continues after a restart', {
  skip,
}, async () => {
  const seen: string[] = [];
  await using model = await startModelServer({
    otherwise: ({ body }: ModelRequest) => {
      if (body.tools === undefined) return { text: 'a title' };
      const said = body.messages.filter(({ role }: { role: string }) => role !== 'system');
      seen.push(JSON.stringify(said));
      if (said.at(-1).role === 'tool' || seen.length > 2) return { text: 'Noted.', usage: { input: 500, output: 30 } };
      const input = { command: 'echo hello >> note.txt', description: 'Writes a note' };
      return { tool_calls: [{ id: `c${said.length}`, name: 'bash', input }] };
    },
  });
  using project = opencodeProject(model.baseUrl('chat'));
  makeRepository(project.folder);
  const { command, args, env } = project.agent;
  const home = join(env?.HOME as string, 'worker');
  const make = () => makeExecutor({ kind: 'acp', command, args, env }, { home, log: fakeLog(), start: spawnLink });
  const before = make();
  try {
    const context = fakeContext(project.folder, {
      answer: async () => {
        assert.equal(await execution.steer?.('The word is apricot.'), 'queued');
        return { allowed: true };
      },
    });
    const execution = before.start(taskOf('Write a note.'), context);
    const outcome = await execution.outcome;
    assert.deepEqual([outcome.failure, outcome.ending], [undefined, 'completed']);
    assert.match(outcome.text, /Noted\.\s+Noted\./);
    assert.deepEqual(context.asked[0]?.risks, ['exec']);
    assert.equal(context.asked[0]?.tool?.input.command, 'echo hello >> note.txt');
    assert.deepEqual(changesIn(project.folder), ['?? note.txt']);
    assert.equal(outcome.usage.source, 'provider');
    assert.ok((tokensSpent(outcome.usage) ?? 0) >= 530);
    await before.stop();
    const restarted = make();
    try {
      assert.equal(restarted.hasConversation('c-1'), true);
      const again = await restarted.start(taskOf('Which word?'), fakeContext(project.folder)).outcome;
      assert.equal(again.text, 'Noted.');
      assert.equal(again.warnings, undefined);
      assert.match(seen.at(-1) ?? '', /apricot.*Which word/);
    } finally {
      await restarted.stop();
    }
  } finally {
    await before.stop();
  }
});
