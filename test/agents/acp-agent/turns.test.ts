/** Turns in an editor: answers, tools, permissions, questions, cancels, modes, commands, failures. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { choose, served } from './editor.ts';

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

test('an editor receives name and capabilities of its server', async (t) => {
  const { editor } = await served(t);
  const answer = await (await editor()).initialize();
  assert.equal(answer.protocolVersion, 1);
  assert.deepEqual(answer.agentInfo, { name: 'handfast', title: 'Handfast', version: '1.2.3' });
  assert.deepEqual(
    answer.authMethods?.map(({ id }) => id),
    ['sign-in-openai', 'sign-in-antigravity', 'key'],
  );
  assert.deepEqual(answer.agentCapabilities?.auth, { logout: {} });
  const { loadSession, promptCapabilities, sessionCapabilities } = answer.agentCapabilities ?? {};
  assert.equal(loadSession, true);
  assert.deepEqual(promptCapabilities, { image: true, audio: false, embeddedContext: true });
  for (const name of ['list', 'resume', 'close', 'delete'] as const) assert.deepEqual(sessionCapabilities?.[name], {});
});

test('a prompt is held until its turn ends; answer, thoughts and tools are sent before', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const { sessionId, modes, configOptions } = await editor.agent.request('session/new', {
    cwd: project,
    mcpServers: [],
  });
  assert.equal(modes?.currentModeId, 'ask');
  assert.deepEqual(
    modes?.availableModes.map(({ id }) => id),
    ['ask', 'allow', 'deny'],
  );
  assert.deepEqual(
    configOptions?.map(({ id, category, currentValue }) => [id, category, currentValue]),
    [['mode', 'mode', 'ask']],
    'a rehearsal asks no model that could be chosen',
  );
  const words = 'think "first look" then read notes.txt and count its lines';
  assert.deepEqual(await editor.prompt(sessionId, words), { stopReason: 'end_turn' });
  assert.match(editor.said(sessionId), /2 lines/);
  assert.match(editor.said(sessionId, 'agent_thought_chunk'), /first look/);
  assert.equal(editor.said(sessionId, 'user_message_chunk'), '', 'its own prompt it shows already');
  const [call] = editor.told('tool_call');
  assert.deepEqual(
    { ...call, toolCallId: undefined },
    {
      sessionUpdate: 'tool_call',
      toolCallId: undefined,
      title: 'read_file: notes.txt',
      name: 'read_file',
      kind: 'read',
      status: 'in_progress',
      rawInput: { path: 'notes.txt' },
      locations: [{ path: join(project, 'notes.txt') }],
    },
  );
  const [end] = editor.told('tool_call_update');
  assert.deepEqual([end?.toolCallId, end?.status], [call?.toolCallId, 'completed']);
  assert.deepEqual(end?.content, [{ type: 'content', content: { type: 'text', text: '```\none\ntwo\n```' } }]);
  assert.equal((end?.rawOutput as { total_lines?: number } | undefined)?.total_lines, 2);
});

test('calls of two turns that have the same id of their model are two calls to the editor', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  await editor.prompt(sessionId, 'read notes.txt');
  await editor.prompt(sessionId, 'read notes.txt');
  const ids = editor.told('tool_call').map(({ toolCallId }) => toolCallId);
  assert.equal(ids.length, 2);
  assert.equal(new Set(ids).size, 2);
});

test('before a tool acts the editor is asked, with what would change; its answer is what happens', async (t) => {
  const choices = ['deny', 'session', 'once'];
  const { editor: start, project } = await served(t);
  const editor = await start({ permission: () => choose(choices.shift() ?? 'none') });
  const sessionId = await editor.open(project);
  const at = (name: string) => join(project, name);
  await editor.prompt(sessionId, 'write "a" to a.txt');
  assert.equal(existsSync(at('a.txt')), false);
  assert.equal(editor.told('tool_call_update').at(-1)?.status, 'failed');
  await editor.prompt(sessionId, 'write "b" to b.txt');
  await editor.prompt(sessionId, 'write "c" to c.txt');
  assert.deepEqual([existsSync(at('b.txt')), existsSync(at('c.txt'))], [true, true]);
  assert.equal(editor.permissions.length, 2, 'the second answer holds for this session');
  await editor.prompt(sessionId, 'edit b.txt replace "b" with "bee"');
  assert.equal(readFileSync(at('b.txt'), 'utf8'), 'bee');

  const [first, , edit] = editor.permissions;
  assert.deepEqual(first?.toolCall.toolCallId, editor.told('tool_call')[0]?.toolCallId);
  assert.deepEqual(
    first?.options.map(({ optionId, kind }) => `${optionId} ${kind}`),
    ['once allow_once', 'session allow_always', 'directory allow_always', 'deny reject_once'],
  );
  assert.match(first?.options[1]?.name ?? '', /^Allow for this session: write_file: files directly in/);
  assert.deepEqual([first?.toolCall.title, first?.toolCall.kind], ['write_file: a.txt', 'edit']);
  assert.deepEqual(first?.toolCall.content, [{ type: 'diff', path: at('a.txt'), newText: 'a' }]);
  const diff = { type: 'diff', path: at('b.txt'), oldText: 'b', newText: 'bee' };
  assert.deepEqual(edit?.toolCall.content, [diff]);
  assert.deepEqual(editor.told('tool_call_update').at(-1)?.content, [diff]);
});

test('an option that was never offered permits nothing', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start({ permission: () => choose('allow_everything') });
  const sessionId = await editor.open(project);
  assert.equal((await editor.prompt(sessionId, 'write "a" to a.txt')).stopReason, 'cancelled');
  assert.equal(existsSync(join(project, 'a.txt')), false);
});

test('an editor that cannot ask has its tools denied, and the turn continues', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start({
    permission: () => {
      throw new Error('no dialogues here');
    },
  });
  const sessionId = await editor.open(project);
  const { stopReason } = await editor.prompt(sessionId, 'write "a" to a.txt then say "went on"');
  assert.equal(stopReason, 'end_turn');
  assert.match(editor.said(sessionId), /went on/);
  assert.equal(existsSync(join(project, 'a.txt')), false);
  assert.match(editor.notes.join('\n'), /the editor could not ask/);
});

test('what a program prints is shown while it runs', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start({ permission: () => choose('once') });
  const sessionId = await editor.open(project);
  const words = `call shell with ${JSON.stringify({ command: 'echo begun; while [ ! -e go ]; do sleep 0.05; done; echo over' })}`;
  const turn = editor.prompt(sessionId, words);
  const outputs = () => editor.told('tool_call_update').filter(({ status }) => status == null);
  await editor.until(() => JSON.stringify(outputs().at(-1)?.content ?? '').includes('begun'));
  const other = await start({ permission: () => choose('once') });
  await other.prompt(await other.open(project), 'write "x" to go');
  assert.equal((await turn).stopReason, 'end_turn');
  const end = editor.told('tool_call_update').at(-1);
  assert.equal(end?.status, 'completed');
  assert.deepEqual(end?.content, [{ type: 'content', content: { type: 'text', text: '```\nbegun\nover\n```' } }]);
});

test('a question is a form where the editor has them, a choice where it has none, and told where it is neither', async (t) => {
  const { editor: start, project } = await served(t);
  const words = 'ask "which colour?" with choices "red", "blue"';
  const withForms = await start({ form: () => ({ action: 'accept', content: { answer: 'blue' } }) });
  const first = await withForms.open(project);
  await withForms.prompt(first, words);
  assert.match(withForms.said(first), /blue/);
  assert.equal(withForms.forms[0]?.message, 'which colour?');

  const plain = await start({ permission: ({ options }) => choose(options[0]!.optionId) });
  const second = await plain.open(project);
  await plain.prompt(second, words);
  assert.deepEqual(
    plain.permissions[0]?.options.map(({ name }) => name),
    ['red', 'blue', 'No answer'],
  );
  assert.match(plain.said(second), /red/);

  const { stopReason } = await plain.prompt(second, 'ask "what is your name?"');
  assert.equal(stopReason, 'end_turn');
  assert.match(plain.said(second), /> The agent asks: what is your name\?/);
  assert.equal(plain.permissions.length, 1);
});

test('a cancel ends the running prompt and those that wait behind it, and takes questions back', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  const running = editor.prompt(sessionId, 'say "on it" then write "a" to a.txt');
  await editor.until(() => editor.permissions.length === 1);
  const queued = editor.prompt(sessionId, 'say "never"');
  await editor.agent.notify('session/cancel', { sessionId });
  assert.deepEqual(await Promise.all([running, queued]), [{ stopReason: 'cancelled' }, { stopReason: 'cancelled' }]);
  await editor.takenBack[0];
  assert.doesNotMatch(editor.said(sessionId), /never/);
  assert.equal((await editor.prompt(sessionId, 'say "still here"')).stopReason, 'end_turn');
});

test('a cancel right behind its prompt finds it', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  const turn = editor.prompt(sessionId, 'wait 60000 ms');
  await editor.agent.notify('session/cancel', { sessionId });
  assert.equal((await turn).stopReason, 'cancelled');
});

test('a prompt while another one runs waits for its turn', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start({ permission: () => choose('once') });
  const sessionId = await editor.open(project);
  const turns = ['write "1" to a.txt then say "first"', 'say "second"'].map((each) => editor.prompt(sessionId, each));
  assert.deepEqual(await Promise.all(turns), [{ stopReason: 'end_turn' }, { stopReason: 'end_turn' }]);
  assert.match(editor.said(sessionId), /first[\s\S]*second/);
});

test('the mode is the approval setting of the session, changed by any client', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  await editor.agent.request('session/set_mode', { sessionId, modeId: 'allow' });
  await editor.prompt(sessionId, 'write "a" to a.txt');
  assert.equal(existsSync(join(project, 'a.txt')), true);
  assert.equal(editor.permissions.length, 0);
  await assert.rejects(editor.agent.request('session/set_mode', { sessionId, modeId: 'unheard-of' }), { code: -32602 });

  const answer = await editor.agent.request('session/set_config_option', {
    sessionId,
    configId: 'mode',
    value: 'deny',
  });
  assert.equal(answer.configOptions[0]?.currentValue, 'deny');
  await editor.control.rpc.sessionConfigure({ session_id: sessionId, approvals: 'ask' });
  await editor.until(() => editor.told('current_mode_update').at(-1)?.currentModeId === 'ask');
  await editor.until(() => editor.told('config_option_update').at(-1)?.configOptions[0]?.currentValue === 'ask');
  const wrong = { sessionId, configId: 'colour', value: 'red' };
  await assert.rejects(editor.agent.request('session/set_config_option', wrong), { code: -32602 });
});

test('slash commands of the server are offered and run; those that end it are not', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  await editor.until(() => editor.told('available_commands_update').length > 0);
  const names = editor.told('available_commands_update')[0]?.availableCommands.map(({ name }) => name) ?? [];
  assert.ok(names.includes('help') && names.includes('compress'));
  assert.deepEqual(
    names.filter((name) => ['quit', 'exit', 'forgeteverything'].includes(name)),
    [],
  );
  assert.deepEqual(await editor.prompt(sessionId, '/tools'), { stopReason: 'end_turn' });
  assert.match(editor.said(sessionId), /^- `edit_file`: Replaces exact pieces/m);
  await editor.prompt(sessionId, '/quit');
  assert.match(editor.said(sessionId), /I do not understand "\/quit"/, 'a prompt like any other');
});

test('a prompt keeps its mentions, contents and pictures', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  await editor.prompt(sessionId, [
    { type: 'text', text: 'look at ' },
    { type: 'resource_link', name: 'notes.txt', uri: `file://${project}/notes.txt` },
    { type: 'text', text: ' and ' },
    { type: 'resource', resource: { uri: `file://${project}/sub/a%20b.md`, text: 'the content' } },
    { type: 'image', mimeType: 'image/png', data: PIXEL },
  ]);
  const { messages } = await editor.control.rpc.sessionGet({ session_id: sessionId });
  assert.equal(
    messages[0]?.text,
    'look at [@notes.txt](notes.txt) and [@a b.md](<sub/a b.md>)\n\n<content of="sub/a b.md">\nthe content\n</content> [Image 1]',
  );
  assert.deepEqual(
    messages[0]?.images?.map(({ mimeType, dataUrl }) => [mimeType, dataUrl]),
    [['image/png', `data:image/png;base64,${PIXEL}`]],
  );
  const resource = { uri: 'file:///data.json', mimeType: 'application/json', blob: btoa('{"a": 1}') };
  const archive = { uri: 'file:///all.zip', mimeType: 'application/zip', blob: btoa('PK\0\x01') };
  await editor.prompt(sessionId, [
    { type: 'resource', resource },
    { type: 'resource', resource: archive },
  ]);
  const left = '/all.zip is not included: application/zip (4 bytes) is neither text, an image nor audio';
  const [, , prompt] = (await editor.control.rpc.sessionGet({ session_id: sessionId })).messages;
  assert.equal(
    prompt?.text,
    `[@data.json](/data.json)[@all.zip](/all.zip)\n\n<content of="/data.json">\n{"a": 1}\n</content>\n\n[${left}]`,
  );
  assert.match(editor.said(sessionId, 'agent_thought_chunk'), new RegExp(left.replaceAll(/[()]/g, '.')));
});

test('what fails is an error with its kind, and the session continues', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  await assert.rejects(editor.prompt(sessionId, 'fail "out of luck"'), (error: { data?: { kind?: string } }) => {
    assert.deepEqual([(error as { code?: number }).code, error.data?.kind], [-32603, 'provider_error']);
    assert.match((error as unknown as Error).message, /out of luck/);
    return true;
  });
  await assert.rejects(editor.prompt(sessionId, '  '), { code: -32602 });
  await assert.rejects(editor.prompt('unheard-of', 'say "x"'), { code: -32002 });
  const lost = { sessionId: 'unheard-of', cwd: project, mcpServers: [] };
  await assert.rejects(editor.agent.request('session/load', lost), { code: -32002 });
  const nowhere = { cwd: join(project, 'missing'), mcpServers: [], sessionId };
  await assert.rejects(editor.agent.request('session/new', nowhere), { code: -32602 });
  assert.equal((await editor.prompt(sessionId, 'say "fine"')).stopReason, 'end_turn');
});

test('a turn that takes exceeded its time limit is an error, and one that runs out of rounds is not', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  await editor.control.rpc.sessionConfigure({ session_id: sessionId, max_rounds: 1 });
  assert.equal((await editor.prompt(sessionId, 'read notes.txt then read notes.txt')).stopReason, 'max_turn_requests');
  await editor.control.rpc.sessionConfigure({ session_id: sessionId, turn_timeout_ms: 50 });
  await assert.rejects(editor.prompt(sessionId, 'wait 60000 ms'), { code: -32004, message: /exceeded its time limit/ });
});

test('notices are for editors that show them', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start({ capabilities: { session: { notices: {} } } });
  const sessionId = await editor.open(project);
  const turn = editor.prompt(sessionId, 'say "on it" then wait 60000 ms');
  await editor.until(() => editor.said(sessionId).includes('on it'));
  await editor.agent.notify('session/cancel', { sessionId });
  await turn;
  assert.match(editor.told('notice')[0]?.title ?? '', /interrupted by user/);
});
