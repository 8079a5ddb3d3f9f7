/** Images and audio beside a structured result reach the caller. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toolsOf } from '../../../src/capabilities/mcp/tools.ts';
import type { CallContext } from '../../../src/host/context.ts';
import type { McpResult } from '../../../src/mcp/definition.ts';
import type { PinnedTool } from '../../../src/mcp/tool-pins.ts';

const content = [
  { type: 'text', text: 'two shots' },
  { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' },
  { type: 'resource', resource: { uri: 'a:b', mimeType: 'audio/wav', blob: 'UklGRg==' } },
  { type: 'resource', resource: { uri: 'a:c', mimeType: 'text/plain', text: 'x' } },
];

/** Runs a tool whose server returns `result`; returns its data and the artifacts. */
async function run(result: McpResult) {
  const sent: unknown[] = [];
  const context = {
    emit: async (kind: string, data: object) => void sent.push({ kind, ...data }),
  } as unknown as CallContext;
  const [tool] = toolsOf(
    { id: 'srv', name: 'srv' },
    [{ name: 'shot', inputSchema: {}, digest: 'd' } as PinnedTool],
    async () => result,
  );
  const { data } = (await tool!.run({}, context)) as { data: unknown };
  return { data, sent };
}

test('images and audio are artifacts beside a structured result, and blocks of any other result', async () => {
  const structured = await run({ content, structuredContent: { shots: 2 } });
  assert.deepEqual(structured.data, { shots: 2 });
  assert.deepEqual(structured.sent, [
    { kind: 'artifact', name: 'image 2', mime: 'image/png', chunk: 'iVBORw0KGgo=', final: true },
    { kind: 'artifact', name: 'resource 3', mime: 'audio/wav', chunk: 'UklGRg==', final: true },
  ]);
  const plain = await run({ content });
  assert.deepEqual(plain, { data: { content }, sent: [] });
});
