/**
 * The wire reference `docs/protocol/fleet.md`: its examples are messages, and its tables of codes are complete.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { decode } from '../../../src/fleet/messages/decode.ts';
import { filesBelow, root } from '../../rules/scan.ts';
import { vectorNowMs } from '../vectors.ts';

const page = readFileSync(join(root, 'docs', 'protocol', 'fleet.md'), 'utf8');

test('every example of the page is a message without a finding', () => {
  const examples = [...page.matchAll(/^[→←] (\{.*\})$/gm)].map((match) => match[1] as string);
  assert.ok(examples.length >= 6);
  for (const text of examples) {
    const decoded = decode(text, { nowMs: vectorNowMs });
    assert.deepEqual([decoded.valid, decoded.errors, decoded.warnings], [true, [], []], text);
  }
});

test('the page has every code of the decoder and of preflight, and no other', () => {
  const sources = (folder: string) =>
    filesBelow(folder)
      .map((path) => readFileSync(join(root, path), 'utf8'))
      .join('\n');
  const codes = (text: string) => new Set([...text.matchAll(/\b[EW]_[A-Z_]+\b/g)].map(([code]) => code));
  const told = codes(page);
  const reported = codes(sources('src/fleet/messages') + sources('src/wire'));
  assert.deepEqual([...told].sort(), [...reported].sort());
  const preflight = readFileSync(join(root, 'src', 'fleet', 'phases', 'preflight.ts'), 'utf8');
  const refusals = [...preflight.matchAll(/refuse\(\s*'([a-z_]+)'|^ {2}\['([a-z_]+)', 'E_/gm)].map(
    (match) => match[1] ?? match[2],
  );
  assert.ok(refusals.length >= 16);
  for (const code of refusals) {
    if (code === 'in_flight' || code === 'replay') continue;
    assert.ok(page.includes(`| \`${code}\` |`), `${code} is not in the table of refusals`);
  }
});
