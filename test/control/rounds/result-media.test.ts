/** Images and audio of tools: results keep notes of them, and the history has them as attachments. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { environmentToolbox } from '../../../src/control/rounds/environment.ts';
import { McpTools } from '../../../src/control/rounds/mcp-tools.ts';
import { ArtifactMedia, contentMedia, resultMedia } from '../../../src/control/rounds/result-media.ts';
import { runRounds } from '../../../src/control/rounds/rounds.ts';
import type { Toolbox } from '../../../src/control/rounds/toolbox.ts';
import { imageOf } from '../../support/pictures.ts';
import { FakeTurn } from '../support/fake-turn.ts';
import { call, say, scriptedModel, toolboxOf } from '../support/scripted-model.ts';

const png = imageOf('png');
const data = png.dataUrl.slice(png.dataUrl.indexOf(',') + 1);

test('blocks of every kind that holds an image or audio, in every spelling of base64', () => {
  const wav = Buffer.from('RIFF0000WAVEfmt ').toString('base64');
  const { blocks, images } = contentMedia([
    { type: 'text', text: 'here' },
    { type: 'image', data, mimeType: 'image/jpeg' },
    { type: 'image', data: png.dataUrl },
    { type: 'audio', data: wav, mimeType: 'audio/x-wav' },
    {
      type: 'resource',
      resource: { uri: 'a:b', mimeType: 'image/png', blob: data.replaceAll('+', '-').replaceAll('=', '') },
    },
    { type: 'resource', resource: { uri: 'a:c', mimeType: 'text/plain', text: 'words' } },
    { type: 'image', data: 'not base64!' },
    null,
  ]);
  assert.deepEqual(
    images.map(({ mimeType }) => mimeType),
    ['image/png', 'image/png', 'audio/wav', 'image/png'],
  );
  for (const { dataUrl, mimeType } of images) if (mimeType === 'image/png') assert.equal(dataUrl, png.dataUrl);
  assert.deepEqual(blocks[1], { type: 'image', mimeType: 'image/png', note: '[Image 1] of this result' });
  assert.deepEqual(blocks[5], { type: 'resource', resource: { uri: 'a:c', mimeType: 'text/plain', text: 'words' } });
  assert.doesNotMatch(JSON.stringify(blocks), new RegExp(data.slice(0, 12)));
});

test('a result has 16 attachments at most, each of 8 MiB at most', () => {
  const { images, blocks } = contentMedia(Array.from({ length: 18 }, () => ({ type: 'image', data })));
  assert.equal(images.length, 16);
  assert.match(JSON.stringify(blocks[17]), /left out: a result has 16/);
  const large = contentMedia([{ type: 'image', data: 'A'.repeat(12 * 1024 * 1024) }]);
  assert.equal(large.images.length, 0);
  assert.match(JSON.stringify(large.blocks), /left out: it has 9437184 bytes/);
});

test('bytes of an embedded resource are the text that they are, or are left out with a note', () => {
  const blob = (bytes: Buffer, mimeType?: string) => ({
    type: 'resource',
    resource: { uri: 'report 1', ...(mimeType && { mimeType }), blob: bytes.toString('base64') },
  });
  const { blocks, images } = contentMedia([
    blob(Buffer.from('a,b\nä,2\n'), 'text/csv'),
    blob(Buffer.from('{"a":1}')),
    blob(Buffer.from('%PDF-1.4\n\xff\xfe', 'latin1'), 'application/pdf'),
    { type: 'resource', resource: { uri: 'x', text: 'words', blob: 'AAAA' } },
    { type: 'resource', resource: { uri: 'x', blob: 'not base64!' } },
  ]);
  assert.equal(images.length, 0);
  assert.deepEqual(blocks, [
    { type: 'resource', resource: { uri: 'report 1', mimeType: 'text/csv', text: 'a,b\nä,2\n' } },
    { type: 'resource', resource: { uri: 'report 1', text: '{"a":1}' } },
    {
      type: 'resource',
      resource: { uri: 'report 1', mimeType: 'application/pdf', note: 'left out: 11 bytes that are no text' },
    },
    { type: 'resource', resource: { uri: 'x', text: 'words', blob: 'AAAA' } },
    { type: 'resource', resource: { uri: 'x', blob: 'not base64!' } },
  ]);
});

test('artifacts are attachments within the limits of a result, and none of those in pieces is one', () => {
  const media = new ArtifactMedia();
  const sent = (name: string, chunk: unknown, final?: boolean) => media.add({ name, mime: 'image/png', chunk, final });
  sent('pieces', data, false);
  sent('pieces', data, true);
  sent('large', 'A'.repeat(12 * 1024 * 1024), true);
  sent('broken', 'not base64!', true);
  sent('none', undefined, true);
  assert.equal(media.images.length, 0);
  for (let count = 0; count < 20; count += 1) sent(`whole ${count}`, data);
  assert.equal(media.images.length, 16);
  assert.equal(media.images[0]?.dataUrl, png.dataUrl);
});

test('a failed call of an MCP server keeps its images', async () => {
  const server = {
    start: async () => {},
    tools: [{ name: 'shot', inputSchema: {}, pin: 'accepted' }],
    call: async () => ({ isError: true, content: [{ type: 'image', data, mimeType: 'image/png' }] }),
  };
  const turn = new FakeTurn({ settings: { mcpServers: [{ name: 'eyes' }] } as never });
  const toolbox = new McpTools(async () => server as never).join(toolboxOf({}), turn);
  await runRounds(turn, scriptedModel([call('c1', 'eyes.shot')], [say('done')]), toolbox);
  const item = turn.log.record.history.find(({ role }) => role === 'tool');
  assert.ok(item?.role === 'tool');
  assert.equal(item.ok, false);
  assert.match(String(item.error), /\[Image 1\] of this result/);
  assert.equal(item.images?.[0]?.dataUrl, png.dataUrl);
});

test('any other result stays as it is', () => {
  for (const value of [undefined, null, 'x', 3, [], { content: 'text' }, { content: [{ type: 'text', text: 'x' }] }]) {
    assert.equal(resultMedia(value).value, value);
  }
});

test('the history has the image of a call, and neither the history nor clients have its bytes in the result', async () => {
  const turn = new FakeTurn();
  const toolbox = toolboxOf({ shot: () => ({ content: [{ type: 'image', data, mimeType: 'image/png' }] }) });
  await runRounds(turn, scriptedModel([call('c1', 'shot')], [say('done')]), toolbox);
  const item = turn.log.record.history.find(({ role }) => role === 'tool');
  assert.ok(item?.role === 'tool');
  assert.equal(item.images?.[0]?.dataUrl, png.dataUrl);
  assert.doesNotMatch(JSON.stringify({ ...item, images: [] }), new RegExp(data.slice(0, 12)));
});

test('an image that a call of the host sends as an artifact reaches the model', async () => {
  const agent = {
    state: 'open' as const,
    tools: {
      list: async () => [{ name: 'shot', description: 'd' }],
      call: async (_name: string, _args: object, options: { onEvent?: (event: never) => void }) => {
        const sent = (kind: string, event: object) => options.onEvent?.({ kind, data: event, seq: 1 } as never);
        sent('artifact', { name: 'image 1', mime: 'image/png', chunk: data, final: true });
        sent('artifact', { name: 'half', mime: 'image/png', chunk: data, final: false });
        sent('artifact', { name: 'log', mime: 'text/plain', chunk: 'eA==', final: true });
        return { data: { shots: 1 } };
      },
    },
    close: async () => {},
  };
  const toolbox: Toolbox = environmentToolbox((work) => Promise.resolve(work(agent as never)));
  await toolbox.list();
  const turn = new FakeTurn();
  await runRounds(turn, scriptedModel([call('c1', 'shot')], [say('done')]), toolbox);
  const item = turn.log.record.history.find(({ role }) => role === 'tool');
  assert.ok(item?.role === 'tool');
  assert.deepEqual(item.result, { shots: 1 });
  assert.equal(item.images?.length, 1);
});
