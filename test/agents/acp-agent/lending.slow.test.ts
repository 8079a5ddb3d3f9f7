/**
 * The files of the editor: tools read the editor's content, and write into it.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { SessionUpdate } from '@agentclientprotocol/sdk';
import { User } from '../../cli/command.ts';
import { choose, desktop, served, startEditor, terminals } from './editor.ts';

/** Returns the results of the calls of a session, in their order. */
const results = (updates: readonly { readonly update: SessionUpdate }[]) =>
  updates.flatMap(({ update }) =>
    update.sessionUpdate === 'tool_call_update' && 'rawOutput' in update ? [update.rawOutput as never] : [],
  ) as Record<string, unknown>[];

test('the files and terminals of an editor are used within one process', async (t) => {
  const { editor: start, project } = await served(t);
  const path = join(project, 'notes.txt');
  const buffers = new Map([[path, 'one\nunsaved\nthree\n']]);
  const { serve, released } = terminals(t);
  const capabilities = { fs: { readTextFile: true, writeTextFile: true }, terminal: true };
  const editor = await start({ buffers, serve, capabilities, permission: () => choose('once') });
  const session = await editor.open(project);
  await editor.prompt(session, 'edit notes.txt replace "unsaved" with "edited" then run cat notes.txt');
  assert.equal(buffers.get(path), 'one\nedited\nthree\n');
  assert.equal(readFileSync(path, 'utf8'), 'one\ntwo\n');
  assert.deepEqual(
    results(editor.updates).map(({ by, stdout }) => [by, stdout]),
    [
      ['editor', undefined],
      ['editor', 'one\ntwo\n'],
    ],
  );
  assert.deepEqual(released, ['terminal-1']);
});

test('tools see what is not saved, and their changes appear in the editor; the result says so', async (t) => {
  const place = desktop(t);
  const path = (name: string) => join(place.project, name);
  const buffers = new Map([[path('notes.txt'), 'one\nunsaved\nthree\n']]);
  const editor = await startEditor(t, place, { buffers, permission: () => choose('once') });
  const session = await editor.open(place.project);
  await editor.prompt(session, 'read notes.txt and count its lines');
  assert.match(editor.said(session), /3 lines/);
  await editor.prompt(session, 'edit notes.txt replace "unsaved" with "edited" then write "new" to new.txt');
  assert.equal(buffers.get(path('notes.txt')), 'one\nedited\nthree\n');
  assert.equal(buffers.get(path('new.txt')), 'new');
  assert.equal(readFileSync(path('notes.txt'), 'utf8'), 'one\ntwo\n');
  assert.equal(existsSync(path('new.txt')), false);
  assert.deepEqual(
    results(editor.updates).map(({ by }) => by),
    ['editor', 'editor', 'editor'],
  );
  // The text written there is in the journal too: the next process replays it.
  assert.equal(await editor.quit(), 0);
  const second = await startEditor(t, place, { buffers });
  await second.agent.request('session/load', { sessionId: session, cwd: place.project, mcpServers: [] });
  await second.until(() => results(second.updates).length === 3);
  assert.deepEqual(
    results(second.updates).map(({ by }) => by),
    ['editor', 'editor', 'editor'],
  );
});

test('the disk serves what an editor refuses, does not hold, or does not offer', async (t) => {
  const place = desktop(t);
  const buffers = new Map<string, string>();
  writeFileSync(join(place.project, 'image.bin'), Buffer.from([1, 0, 2]));
  const editor = await startEditor(t, place, { buffers, permission: () => choose('once') });
  const session = await editor.open(place.project);
  await editor.prompt(session, 'read notes.txt and count its lines');
  assert.match(editor.said(session), /2 lines/);
  await editor.prompt(session, 'call read_file with {"path": "image.bin", "encoding": "base64"}');
  await editor.prompt(session, 'call write_file with {"path": "image.bin", "content": "AAEC", "encoding": "base64"}');
  assert.deepEqual(readFileSync(join(place.project, 'image.bin')), Buffer.from([0, 1, 2]));
  assert.deepEqual(
    editor.lent.map(({ method, params }) => [method, params.path]),
    [['fs/read_text_file', join(place.project, 'notes.txt')]],
  );
  assert.equal(await editor.quit(), 0);

  const reader = await startEditor(t, place, {
    capabilities: { fs: { readTextFile: true, writeTextFile: false } },
    buffers: new Map([[join(place.project, 'notes.txt'), 'from the editor\n']]),
    permission: () => choose('once'),
  });
  const other = await reader.open(place.project);
  await reader.prompt(other, 'edit notes.txt replace "two" with "2"');
  assert.equal(readFileSync(join(place.project, 'notes.txt'), 'utf8'), 'one\n2\n');
  await reader.prompt(other, 'read notes.txt');
  assert.deepEqual(
    results(reader.updates).map(({ by }) => by),
    [undefined, 'editor'],
  );
});

test('nothing outside the folder is asked of an editor, nothing without its approval', async (t) => {
  const place = desktop(t);
  const { project, home } = place;
  writeFileSync(join(home, 'secret.txt'), 'secret\n');
  symlinkSync(home, join(project, 'link'));
  mkdirSync(join(project, 'src'));
  const buffers = new Map([[join(home, 'secret.txt'), 'unsaved secret\n']]);
  const editor = await startEditor(t, place, { buffers, permission: () => choose('deny') });
  const session = await editor.open(project);
  for (const path of ['../home/secret.txt', 'link/secret.txt', join(home, 'secret.txt')]) {
    await editor.prompt(session, `call read_file with {"path": ${JSON.stringify(path)}}`);
  }
  await editor.prompt(session, 'write "x" to src/a.txt');
  assert.deepEqual(editor.lent, []);
  assert.equal(editor.permissions.length, 1);
  assert.equal(buffers.size, 1);
});

test('an editor that never answers costs a call its time, and the turn continues', async (t) => {
  const place = desktop(t);
  const serve = { 'fs/read_text_file': () => new Promise(() => {}) };
  const editor = await startEditor(t, place, { buffers: new Map(), serve });
  const session = await editor.open(place.project);
  const { stopReason } = await editor.prompt(session, 'read notes.txt then say "at last"');
  assert.equal(stopReason, 'end_turn');
  assert.match(editor.said(session), /at last/);
  const words = JSON.stringify(editor.told('tool_call_update'));
  assert.match(words, /the editor did not answer fs\/read_text_file within 10000 ms/);
});

test('an editor that disconnects while it is asked fails the call; the session of the server reads from the disk again', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  await user.up();
  const place = { home: user.home, project: user.cwd };
  writeFileSync(join(place.project, 'notes.txt'), 'one\ntwo\n');
  const serve = { 'fs/read_text_file': () => new Promise(() => {}) };
  const editor = await startEditor(t, place, { buffers: new Map(), serve });
  const session = await editor.open(place.project);
  const turn = editor.prompt(session, 'read notes.txt then read notes.txt and count its lines');
  turn.catch(() => {});
  await editor.until(() => editor.lent.length === 1);
  editor.child.kill('SIGKILL');
  const second = await startEditor(t, place);
  await second.agent.request('session/load', { sessionId: session, cwd: place.project, mcpServers: [] });
  await second.until(() => /2 lines/.test(second.said(session)));
  assert.match(JSON.stringify(second.told('tool_call_update')), /the editor has disconnected/);
});

test('a command runs in a terminal of the editor, which its call shows; output and exit code reach the agent', async (t) => {
  const place = desktop(t);
  const { serve, released } = terminals(t);
  const capabilities = { terminal: true };
  const editor = await startEditor(t, place, { capabilities, serve, permission: () => choose('once') });
  const session = await editor.open(place.project);
  await editor.prompt(session, 'run cat notes.txt');
  await editor.prompt(
    session,
    'call shell with {"argv": ["sh", "-c", "echo $WORD >&2; exit 3"], "env": {"WORD": "failed"}}',
  );
  const created = editor.lent.filter(({ method }) => method === 'terminal/create').map(({ params }) => params);
  assert.deepEqual(
    created.map(({ command, args, cwd, env }) => [command, args, cwd, env]),
    [
      ['/bin/sh', ['-c', 'cat notes.txt'], place.project, []],
      ['sh', ['-c', 'echo $WORD >&2; exit 3'], place.project, [{ name: 'WORD', value: 'failed' }]],
    ],
  );
  await editor.until(() => results(editor.updates).length === 2);
  assert.deepEqual(
    results(editor.updates).map(({ by, stdout, exit_code, timed_out }) => [by, stdout, exit_code, timed_out]),
    [
      ['editor', 'one\ntwo\n', 0, false],
      ['editor', 'failed\n', 3, false],
    ],
  );
  assert.deepEqual(released, ['terminal-1', 'terminal-2']);
  const shown = editor.told('tool_call_update').map(({ status, content }) => [status ?? null, content?.[0]]);
  assert.deepEqual(shown, [
    [null, { type: 'terminal', terminalId: 'terminal-1' }],
    ['completed', { type: 'terminal', terminalId: 'terminal-1' }],
    [null, { type: 'terminal', terminalId: 'terminal-2' }],
    ['failed', { type: 'terminal', terminalId: 'terminal-2' }],
  ]);
});

test('a terminal is ended when its turn is cancelled, and at the time limit of its call', async (t) => {
  const place = desktop(t);
  const { serve, all, released } = terminals(t);
  const capabilities = { terminal: true };
  const editor = await startEditor(t, place, { capabilities, serve, permission: () => choose('once') });
  const session = await editor.open(place.project);
  const turn = editor.prompt(session, 'run sleep 600');
  await editor.until(() => editor.lent.some(({ method }) => method === 'terminal/wait_for_exit'));
  await editor.agent.notify('session/cancel', { sessionId: session });
  assert.equal((await turn).stopReason, 'cancelled');
  assert.equal((await all.get('terminal-1')?.exit)?.signal, 'SIGKILL');
  await editor.until(() => editor.lent.at(-1)?.method === 'terminal/release');

  const late = 'call shell with {"command": "echo begun; sleep 600", "timeout_seconds": 1}';
  assert.equal((await editor.prompt(session, late)).stopReason, 'end_turn');
  await editor.until(() => results(editor.updates).some(({ timed_out }) => timed_out === true));
  assert.match(JSON.stringify(results(editor.updates).at(-1)), /"stdout":"begun\\n"/);
  assert.deepEqual(released, ['terminal-1', 'terminal-2']);
});

test('a command is asked for before it runs in a terminal; one the editor cannot start is a failed call', async (t) => {
  const place = desktop(t);
  const serve = {
    'terminal/create': () => {
      throw new Error('no terminals left');
    },
  };
  const answers = ['deny', 'once'];
  const editor = await startEditor(t, place, {
    capabilities: { terminal: true },
    serve,
    permission: () => choose(answers.shift() ?? 'none'),
  });
  const session = await editor.open(place.project);
  await editor.prompt(session, 'run echo one');
  assert.deepEqual(editor.lent, []);
  assert.equal((await editor.prompt(session, 'run echo two then say "at last"')).stopReason, 'end_turn');
  assert.match(JSON.stringify(editor.told('tool_call_update')), /the editor refused: /);
  assert.match(editor.said(session), /at last/);
});

test('the terminals of an editor are ended when its server is killed', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const { ready } = await user.up();
  const place = { home: user.home, project: user.cwd };
  const { serve, all } = terminals(t);
  const capabilities = { terminal: true };
  const editor = await startEditor(t, place, { capabilities, serve, permission: () => choose('once') });
  const session = await editor.open(place.project);
  editor.prompt(session, 'run sleep 600').catch(() => {});
  await editor.until(() => editor.lent.some(({ method }) => method === 'terminal/wait_for_exit'));
  process.kill(ready.pid, 'SIGKILL');
  assert.equal((await all.get('terminal-1')?.exit)?.signal, 'SIGKILL');
});

test('a client that takes a request and does not come back is detached, and the disk is read', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const session = await editor.open(project);
  const request = editor.control.rpc.editorNext({ session_id: session, reads: true, writes: true });
  const turn = editor.prompt(session, 'read notes.txt then read notes.txt and count its lines');
  assert.equal((await request).method, 'fs/read_text_file');
  assert.equal((await turn).stopReason, 'end_turn');
  assert.match(editor.said(session), /2 lines/);
  assert.match(JSON.stringify(editor.told('tool_call_update')), /the editor has disconnected/);
});

for (const server of ['the server that runs', 'a server of its own']) {
  test(`the audit of ${server} says what the editor did: in its folder and in another one, and not for what the disk gave`, async (t) => {
    const user = new User();
    t.after(() => user.leave());
    if (server === 'the server that runs') await user.up();
    const other = join(user.folder, 'other');
    mkdirSync(other);
    const { serve } = terminals(t);
    for (const project of [user.cwd, other]) {
      writeFileSync(join(project, 'notes.txt'), 'one\n');
      writeFileSync(join(project, 'saved.txt'), 'two\n');
      const buffers = new Map([[join(project, 'notes.txt'), 'unsaved\n']]);
      const capabilities = { fs: { readTextFile: true, writeTextFile: true }, terminal: true };
      const answers = { buffers, serve, capabilities, permission: () => choose('once') };
      const editor = await startEditor(t, { home: user.home, project }, answers);
      const session = await editor.open(project);
      await editor.prompt(
        session,
        'read notes.txt then read saved.txt then write "x" to new.txt then run cat notes.txt',
      );
      assert.equal(await editor.quit(), 0);
    }
    const calls = ['read_file', 'read_file', 'write_file', 'shell'];
    const by = ['editor', null, 'editor', 'editor'];
    for (const until = Date.now() + 60_000; ; ) {
      const { stdout } = await user.run(['audit', 'ls', '--json']);
      const lines = stdout
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as { tool?: string; by?: string })
        .filter(({ tool }) => tool !== undefined);
      // A line is written behind the reply.
      if (lines.length < 2 * calls.length && Date.now() < until) continue;
      assert.deepEqual(
        lines.map(({ tool }) => tool),
        [...calls, ...calls],
      );
      assert.deepEqual(
        lines.map((line) => line.by ?? null),
        [...by, ...by],
      );
      break;
    }
  });
}
