/** Sessions of an editor over time: listed, loaded with their past, resumed, forked, closed, deleted, and shared. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { choose, type LocalEditor, served } from './editor.ts';

/** Returns the lines that an editor would show of a session: messages with their authors, and calls with their ends. */
function shown(editor: LocalEditor, sessionId: string): string[] {
  const lines: string[] = [];
  let last = '';
  for (const one of editor.updates) {
    if (one.sessionId !== sessionId) continue;
    const { update } = one;
    if ('content' in update && update.sessionUpdate.endsWith('_chunk')) {
      const who = `${update.sessionUpdate} ${(update as { messageId?: string }).messageId}`;
      const { text } = update.content as { text: string };
      if (who === last) lines[lines.length - 1] += text;
      else lines.push(`${update.sessionUpdate.replace('_chunk', '')}: ${text}`);
      last = who;
    } else if (update.sessionUpdate === 'tool_call') lines.push(`${update.title} ${update.status}`);
    else if (update.sessionUpdate === 'tool_call_update' && update.status != null) lines.push(`ended ${update.status}`);
  }
  return lines;
}

const load = (editor: LocalEditor, sessionId: string, cwd: string) =>
  editor.agent.request('session/load', { sessionId, cwd, mcpServers: [] });

test('a session is loaded with its whole past as it was sent when it happened, and continues', async (t) => {
  const { editor: start, project } = await served(t);
  const first = await start({ permission: () => choose('deny') });
  const sessionId = await first.open(project);
  await first.prompt(sessionId, 'think "hm" then read notes.txt and count its lines');
  await first.prompt(sessionId, 'write "a" to a.txt then say "done"');
  const before = shown(first, sessionId);
  await first.leave();

  const second = await start();
  await load(second, sessionId, project);
  const past = shown(second, sessionId);
  assert.deepEqual(
    past.filter((line) => !line.startsWith('user_message')),
    before,
  );
  assert.deepEqual(
    past.filter((line) => line.startsWith('user_message')),
    [
      'user_message: think "hm" then read notes.txt and count its lines',
      'user_message: write "a" to a.txt then say "done"',
    ],
  );
  assert.ok(second.updates.length < 25, `streamed text is sent in larger pieces, not in ${second.updates.length}`);
  const title = 'think "hm" then read notes.txt and count its lines';
  await second.until(() => second.told('session_info_update').some((info) => info.title === title));
  await second.prompt(sessionId, 'say "onwards"');
  assert.equal(shown(second, sessionId).at(-1), 'agent_message: onwards');
});

test('only what is still part of a session is sent when it is loaded', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  await editor.prompt(sessionId, 'read notes.txt then say "forgotten"');
  await editor.control.rpc.historyClear({ session_id: sessionId });
  await editor.prompt(sessionId, 'say "kept"');
  const second = await start();
  await load(second, sessionId, project);
  const past = shown(second, sessionId);
  assert.equal(past[0], 'user_message: say "kept"');
  assert.match(past[1] ?? '', /kept$/);
  assert.equal(past.length, 2);
});

test('a fork begins with the conversation it was made from, which its own events do not tell', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  await editor.prompt(sessionId, 'say "common"');
  const forked = await editor.agent.request<{ sessionId: string }>('session/fork', { sessionId, cwd: project });
  await editor.prompt(forked.sessionId, 'say "apart"');
  assert.equal(shown(editor, forked.sessionId).join('\n'), 'agent_message: apart');
  const second = await start();
  await load(second, forked.sessionId, project);
  const past = shown(second, forked.sessionId);
  assert.equal(past.length, 4);
  assert.equal(past[0], 'user_message: say "common"');
  assert.match(past[1] ?? '', /^agent_message: [\s\S]*common$/);
  assert.deepEqual(past.slice(2), ['user_message: say "apart"', 'agent_message: apart']);
});

test('resuming tells nothing of the past', async (t) => {
  const { editor: start, project } = await served(t);
  const first = await start();
  const sessionId = await first.open(project);
  await first.prompt(sessionId, 'say "once"');
  const second = await start();
  const { modes } = await second.agent.request('session/resume', { sessionId, cwd: project });
  assert.equal(modes?.currentModeId, 'ask');
  await second.prompt(sessionId, 'say "twice"');
  assert.deepEqual(shown(second, sessionId), ['agent_message: twice']);
});

test('used sessions are listed, by folder and in pages, those that were closed too', async (t) => {
  const { editor: start, project, home } = await served(t);
  const editor = await start();
  const used = await editor.open(project);
  await editor.prompt(used, 'say "one"');
  await editor.open(project);
  await editor.agent.request('session/close', { sessionId: used });
  const { sessions } = await editor.agent.request('session/list', { cwd: project });
  assert.deepEqual(
    sessions.map(({ sessionId, cwd, title }) => [sessionId, cwd, title]),
    [[used, project, 'say "one"']],
  );
  assert.ok(Date.parse(sessions[0]?.updatedAt ?? '') > 0);
  assert.deepEqual((await editor.agent.request('session/list', { cwd: home })).sessions, []);
  await assert.rejects(editor.agent.request('session/list', { cursor: 'made up' }), { code: -32602 });
  await assert.rejects(editor.prompt(used, 'say "x"'), { code: -32002 });
  await load(editor, used, project);
  assert.equal((await editor.prompt(used, 'say "two"')).stopReason, 'end_turn');
});

test('a turn of a session that is closed, or deleted, ends as cancelled', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  for (const method of ['session/close', 'session/delete'] as const) {
    const sessionId = await editor.open(project);
    const turn = editor.prompt(sessionId, 'say "on it" then wait 60000 ms');
    await editor.until(() => editor.said(sessionId).includes('on it'));
    await editor.agent.request(method, { sessionId });
    assert.deepEqual(await turn, { stopReason: 'cancelled' });
  }
  const { sessions } = await editor.agent.request('session/list', {});
  assert.equal(sessions.length, 1, 'the deleted one is gone');
});

test('a session with a running prompt is not loaded again by the same editor', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  const turn = editor.prompt(sessionId, 'wait 60000 ms');
  await assert.rejects(load(editor, sessionId, project), { message: /in use by this editor/ });
  await editor.agent.notify('session/cancel', { sessionId });
  assert.equal((await turn).stopReason, 'cancelled');
});

test('two editors share a session: what one answers is taken back from the other, and a turn outlives its editor', async (t) => {
  const { editor: start, project } = await served(t);
  const first = await start();
  const answers: ((optionId: string) => void)[] = [];
  const second = await start({
    permission: () => new Promise((resolve) => answers.push((optionId) => resolve(choose(optionId)))),
  });
  const sessionId = await first.open(project);
  const turn = first.prompt(sessionId, 'write "a" to a.txt then say "written"');
  await first.until(() => first.permissions.length === 1);

  // Loaded while the question waits: it is asked there too.
  await load(second, sessionId, project);
  await second.until(() => second.permissions.length === 1);
  assert.match(second.said(sessionId, 'user_message_chunk'), /write "a"/);
  answers[0]?.('once');
  await first.takenBack[0];
  assert.equal((await turn).stopReason, 'end_turn');
  assert.equal(existsSync(join(project, 'a.txt')), true);
  await second.until(() => second.said(sessionId).includes('written'));

  const left = first.prompt(sessionId, 'write "b" to sub/b.txt then say "all done"');
  left.catch(() => {});
  await second.until(() => second.permissions.length === 2);
  await first.leave();
  answers[1]?.('once');
  await second.until(() => second.said(sessionId).includes('all done'));
  assert.match(second.said(sessionId, 'user_message_chunk'), /write "b"/, 'prompts of others are shown');
  assert.equal(existsSync(join(project, 'sub', 'b.txt')), true);
});

test('an editor stops what it asked for, not what others did', async (t) => {
  const { editor: start, project } = await served(t);
  const [first, second] = [await start(), await start()];
  const sessionId = await first.open(project);
  const running = first.prompt(sessionId, 'say "on it" then write "x" to x.txt');
  await first.until(() => first.permissions.length === 1);
  await load(second, sessionId, project);
  const waiting = second.prompt(sessionId, 'say "behind it"');
  await second.agent.notify('session/cancel', { sessionId });
  assert.equal((await waiting).stopReason, 'cancelled');
  assert.equal((await first.control.rpc.sessionGet({ session_id: sessionId })).pending, true);
  await first.agent.notify('session/cancel', { sessionId });
  assert.equal((await running).stopReason, 'cancelled');
});
