/** Audio in prompts of an editor: given to models and agents that take it, refused in words by the others, and shown again. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import type { ContentBlock } from '@agentclientprotocol/sdk';
import { startModelServer } from '../../../src/testing/model-server.ts';
import { calls, scriptFolder } from '../acp/scripted-agent.ts';
import { desktop, served, startEditor } from './editor.ts';

const SOUND = Buffer.from('RIFF\0\0\0\0WAVEfmt ').toString('base64');
const MP3 = Buffer.from('ID3\x04\0\0\0\0\0\0').toString('base64');
const sound: ContentBlock = { type: 'audio', mimeType: 'audio/x-wav', data: SOUND };
const prompt: ContentBlock[] = [{ type: 'text', text: 'what is said?' }, sound];

async function modelServer(t: TestContext) {
  const server = await startModelServer({ models: ['heard'], otherwise: () => ({ text: 'Hello.' }) });
  t.after(() => server[Symbol.asyncDispose]());
  return server;
}

test('a model that takes audio is given it, in a block or as a resource, and an editor that loads the session has it', async (t) => {
  const server = await modelServer(t);
  const place = desktop(t);
  const env = { HANDFAST_COMPATIBLE_BASE_URL: server.baseUrl('chat'), HANDFAST_COMPATIBLE_API_KEY: 'key-of-this-test' };
  const editor = await startEditor(t, place, { args: ['--backend', 'model', '--model', 'compatible/heard'], env });
  assert.equal((await editor.initialize()).agentCapabilities?.promptCapabilities?.audio, true);
  const sessionId = await editor.open(place.project);
  assert.equal((await editor.prompt(sessionId, prompt)).stopReason, 'end_turn');
  const resource = { uri: `file://${place.project}/said.mp3`, mimeType: 'audio/mp3', blob: MP3 };
  await editor.prompt(sessionId, [{ type: 'resource', resource }]);
  const messages: { content: unknown }[] = server.requests.at(-1)?.body.messages ?? [];
  const audio = messages
    .flatMap(({ content }) => (Array.isArray(content) ? content : []))
    .flatMap((part: { input_audio?: object }) => part.input_audio ?? []);
  assert.deepEqual(audio, [
    { data: SOUND, format: 'wav' },
    { data: MP3, format: 'mp3' },
  ]);
  await assert.rejects(editor.prompt(sessionId, [{ ...sound, mimeType: 'audio/midi' }]), /unsupported audio mime type/);
  assert.equal(await editor.quit(), 0);
  const second = await startEditor(t, place, { env });
  await second.agent.request('session/load', { sessionId, cwd: place.project, mcpServers: [] });
  await second.until(() => second.told('user_message_chunk').some(({ content }) => content.type === 'audio'));
  const [again] = second
    .told('user_message_chunk')
    .flatMap(({ content }) => (content.type === 'audio' ? [content] : []));
  assert.deepEqual(again, { type: 'audio', mimeType: 'audio/wav', data: SOUND });
});

test('a provider that takes no audio refuses it in words, and the session continues without it', async (t) => {
  const server = await modelServer(t);
  const place = desktop(t);
  const env = { ANTHROPIC_API_KEY: 'sk-ant-of-this-test', ANTHROPIC_BASE_URL: server.baseUrl('anthropic') };
  const editor = await startEditor(t, place, { args: ['--backend', 'model', '--model', 'anthropic/heard'], env });
  assert.equal((await editor.initialize()).agentCapabilities?.promptCapabilities?.audio, false);
  const sessionId = await editor.open(place.project);
  await assert.rejects(editor.prompt(sessionId, prompt), /anthropic\/heard is given no audio\/wav; choose a model/);
  assert.equal(server.requests.length, 0);
  assert.equal((await editor.prompt(sessionId, 'then not')).stopReason, 'end_turn');
  assert.ok(!JSON.stringify(server.requests.at(-1)?.body).includes(SOUND));
});

test('an agent behind the session gets audio where it announced it, and a rehearsal says that it cannot hear', async (t) => {
  for (const audio of [true, false]) {
    using files = scriptFolder();
    const script = { capabilities: { promptCapabilities: { audio } }, prompts: [[calls('tool_call', {})]] };
    const place = desktop(t);
    const agent = { name: 'scripted', command: process.execPath, args: files.args(script) };
    const config = `${place.home}/own.yaml`;
    writeFileSync(config, `control: { agents: [${JSON.stringify(agent)}] }\n`);
    const editor = await startEditor(t, place, { args: ['--backend', 'scripted', '--config', config] });
    const sessionId = await editor.open(place.project);
    if (audio) {
      await editor.prompt(sessionId, prompt);
      assert.deepEqual(files.told('session/prompt')[0].prompt, [
        { type: 'text', text: 'what is said? [Audio 1]' },
        { type: 'audio', data: SOUND, mimeType: 'audio/wav' },
      ]);
    } else await assert.rejects(editor.prompt(sessionId, prompt), /the agent scripted does not accept audio/);
    assert.equal(await editor.quit(), 0);
  }
  const { editor: start, project } = await served(t);
  const editor = await start();
  const sessionId = await editor.open(project);
  await editor.prompt(sessionId, [sound]);
  assert.match(editor.said(sessionId), /I was given audio and cannot hear/);
});
