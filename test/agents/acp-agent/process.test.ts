/**
 * `handfast acp` as an editor starts it: the real command on its pipes, with its own server or one that runs, and kill
 * -9.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { plainEnvironment, User } from '../../cli/command.ts';
import { choose, desktop, startEditor } from './editor.ts';

test('an editor works with it, and the next process has what the first one did', async (t) => {
  const place = desktop(t);
  const choices = ['once', 'deny'];
  const first = await startEditor(t, place, { permission: () => choose(choices.shift() ?? 'none') });
  const sessionId = await first.open(place.project);
  const { stopReason } = await first.prompt(sessionId, 'read notes.txt and count its lines');
  assert.equal(stopReason, 'end_turn');
  assert.match(first.said(sessionId), /2 lines/);
  await first.prompt(sessionId, 'write "a" to a.txt then write "b" to other/b.txt');
  assert.deepEqual(
    ['a.txt', 'other/b.txt'].map((name) => existsSync(join(place.project, name))),
    [true, false],
  );
  assert.equal(await first.quit(), 0);
  assert.equal(first.stderr(), '');

  const second = await startEditor(t, place);
  const { sessions } = await second.agent.request('session/list', { cwd: place.project });
  assert.deepEqual(
    sessions.map((one) => one.sessionId),
    [sessionId],
  );
  await second.agent.request('session/load', { sessionId, cwd: place.project, mcpServers: [] });
  assert.equal(second.said(sessionId), first.said(sessionId));
  assert.deepEqual(
    second.told('tool_call').map(({ title }) => title),
    ['read_file: notes.txt', 'write_file: a.txt', 'write_file: other/b.txt'],
  );
  assert.equal(await second.quit(), 0);
});

test('a second editor without a running server receives what to do', async (t) => {
  const place = desktop(t);
  const first = await startEditor(t, place);
  await assert.rejects(startEditor(t, place), /no handshake[\s\S]*handfast up[\s\S]*\[journal_locked\]/);
  assert.equal(await first.quit(), 0);
});

test('killed in the middle of a turn, nothing that was sent is lost, and the question stays pending', async (t) => {
  const place = desktop(t);
  const first = await startEditor(t, place);
  const sessionId = await first.open(place.project);
  const turn = first.prompt(sessionId, 'read notes.txt then write "kept" to a.txt then say "at last"');
  turn.catch(() => {});
  await first.until(() => first.permissions.length === 1);
  first.child.kill('SIGKILL');
  await assert.rejects(turn);

  const second = await startEditor(t, place, { permission: () => choose('once') });
  await second.agent.request('session/load', { sessionId, cwd: place.project, mcpServers: [] });
  assert.match(second.said(sessionId, 'user_message_chunk'), /^read notes.txt then write/);
  assert.deepEqual(
    second.told('tool_call').map(({ title }) => title),
    ['read_file: notes.txt', 'write_file: a.txt'],
  );
  // The rehearsal continues where it was; with a backend that cannot, the turn would have ended.
  await second.until(() => second.said(sessionId).includes('at last'));
  assert.equal(existsSync(join(place.project, 'a.txt')), true);
  assert.equal(second.permissions[0]?.toolCall.toolCallId, first.permissions[0]?.toolCall.toolCallId);
  assert.equal(await second.quit(), 0);
});

test('sessions of a server that runs outlive the editor, whose turn continues without it', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  await user.up();
  const place = { home: user.home, project: user.cwd };
  const first = await startEditor(t, place);
  const sessionId = await first.open(place.project);
  const turn = first.prompt(sessionId, 'say "on it" then wait 300 ms then say "still at work"');
  turn.catch(() => {});
  await first.until(() => first.said(sessionId).includes('on it'));
  assert.equal(await first.quit(), 0);
  const second = await startEditor(t, place);
  await second.agent.request('session/load', { sessionId, cwd: place.project, mcpServers: [] });
  await second.until(() => second.said(sessionId).includes('still at work'));
});

test('only the protocol is on stdout, and what cannot start says why', (t) => {
  const place = desktop(t);
  const main = join(import.meta.dirname, '..', '..', '..', 'src', 'cli', 'main.ts');
  const run = (words: readonly string[], input: string) =>
    spawnSync(process.execPath, ['-C', 'handfast-source', main, 'acp', ...words], {
      cwd: place.project,
      env: plainEnvironment({ HANDFAST_HOME: place.home, HOME: place.home, HANDFAST_KEYRING: 'off' }),
      input,
      encoding: 'utf8',
      timeout: 60_000,
    });
  const hello = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: 1 } });
  writeFileSync(join(place.project, 'broken.yaml'), 'plugins: 7\n');
  const answered = run([], `no message\n${hello}\n`);
  assert.equal(answered.status, 0);
  const lines = answered.stdout.trimEnd().split('\n');
  assert.equal(lines.length, 1);
  assert.equal(JSON.parse(lines[0] ?? '').result.agentInfo.name, 'handfast');
  assert.match(answered.stderr, /skipped an invalid message: no message/);
  const broken = run(['--config', 'broken.yaml'], '');
  assert.deepEqual([broken.status, broken.stdout], [2, '']);
  assert.match(broken.stderr, /config_invalid/);
  const unreachable = run(['--connect', 'tcp://127.0.0.1:1'], '');
  assert.deepEqual([unreachable.status, unreachable.stdout], [4, '']);
});
