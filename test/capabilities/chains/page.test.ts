/** The chain of `docs/chains.md` is valid, and the page has its drawings. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { drawSvg } from '../../../src/capabilities/chains/draw/svg.ts';
import { drawText } from '../../../src/capabilities/chains/draw/text.ts';
import { loadChainFile } from '../../../src/capabilities/chains/files/chain-file.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { root } from '../../rules/scan.ts';

const page = readFileSync(join(root, 'docs/chains.md'), 'utf8');

/** Returns the first block of the page in a language. */
function block(language: string): string {
  const from = page.indexOf(`\`\`\`${language}\n`) + language.length + 4;
  return page.slice(from, page.indexOf('\n```', from));
}

function chainOf(t: TestContext) {
  const file = join(temporaryFolder(t), 'review.yaml');
  writeFileSync(file, block('yaml'));
  return loadChainFile(file);
}

test('the page shows its chain as the command draws it', async (t) => {
  const { graph } = await chainOf(t);
  assert.equal(drawText(graph, { width: 80 }), block('text'));
});

test('the picture of the page is that of its chain while it runs', async (t) => {
  const { graph, definition } = await chainOf(t);
  const states = [
    ...['changes', 'any', 'files', 'build'].map((node_id) => ({ node_id, state: 'done' as const })),
    { node_id: 'each_file', state: 'running' as const, items: 24, items_done: 17 },
    { node_id: 'review', state: 'running' as const },
  ];
  const picture = readFileSync(join(root, 'docs/images/chain.svg'), 'utf8');
  assert.equal(drawSvg(graph, { states, title: definition.name }), picture);
});
