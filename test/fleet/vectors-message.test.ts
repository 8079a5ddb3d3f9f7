/**
 * The vectors of kinds `message` and `message_text`: messages and raw texts as the decoder reads them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decode, decodeValue } from '../../src/fleet/messages/decode.ts';
import type { Decoded, Finding, Incoming } from '../../src/fleet/messages/decoded.ts';
import { manifest, vectorFiles, vectorNowMs, vectorsOf, vectorText } from './vectors.ts';

interface Expected {
  readonly valid: boolean;
  readonly type: string | null;
  readonly errors: readonly Finding[];
  readonly warnings: readonly Finding[];
  readonly normalized?: Readonly<Record<string, unknown>>;
}

/** Findings are sets. */
const asSet = (findings: readonly Finding[]): string[] => findings.map(({ code, path }) => `${code} ${path}`).sort();

/** Returns the view of a message that vectors show: the members that they name, maps as objects. */
function view(message: Incoming, members: readonly string[]): Record<string, unknown> {
  const seen = message as unknown as Record<string, unknown>;
  return Object.fromEntries(
    members.map((name) => [name, seen[name] instanceof Map ? Object.fromEntries(seen[name]) : seen[name]]),
  );
}

function compare(decoded: Decoded, expected: Expected, file: string): void {
  assert.equal(decoded.valid, expected.valid, file);
  assert.equal(decoded.valid ? decoded.message.type : decoded.type, expected.type, file);
  assert.deepEqual(asSet(decoded.errors), asSet(expected.errors), `${file}: errors`);
  assert.deepEqual(asSet(decoded.warnings), asSet(expected.warnings), `${file}: warnings`);
  if (!decoded.valid) return;
  const { normalized = {} } = expected;
  assert.deepEqual(view(decoded.message, Object.keys(normalized)), normalized, file);
  // A member that is set with one status only must not be there with another.
  assert.equal('error_summary' in decoded.message, 'error_summary' in normalized, file);
}

test('the manifest and the vector files agree', () => {
  assert.deepEqual(manifest.cases.map(({ file }) => file).sort(), vectorFiles().toSorted());
  assert.equal(manifest.cases.length, manifest.count);
  assert.equal(vectorsOf('message').length, 59);
  assert.equal(vectorsOf('message_text').length, 9);
});

test('every message vector decodes as it says, from text, from bytes and as a value', () => {
  for (const { file, expect, vector } of vectorsOf('message')) {
    const expected = expect as unknown as Expected;
    compare(decode(vectorText(file), { nowMs: vectorNowMs }), expected, file);
    compare(decode(Buffer.from(vectorText(file)), { nowMs: vectorNowMs }), expected, file);
    compare(decodeValue(vector, { nowMs: vectorNowMs }), expected, file);
  }
});

test('every raw text vector decodes as it says', () => {
  for (const { file, vector } of vectorsOf<{ input: { text: string }; expect: Expected }>('message_text')) {
    compare(decode(vector.input.text, { nowMs: vectorNowMs }), vector.expect, file);
  }
});
