/**
 * The id that a prefix names, and the ids that tables show.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { shortId, shownIds } from '../../src/cli/short-id.ts';
import { byPrefix } from '../../src/packages/named-id.ts';
import { asError } from '../../src/wire/errors.ts';

const A = '3f2a91c0-0000-4000-8000-000000000001';
const B = '3f2a91c0-7777-4000-8000-000000000002';
const C = '90000000-0000-4000-8000-000000000003';
const sought = { noun: 'session', missing: 'session_not_found', see: 'handfast session ls' } as const;
const find = (given: string, ids: readonly string[]): string => byPrefix(given, ids, (id) => id, sought);
const refusal = (given: string, ids: readonly string[]) => {
  try {
    return find(given, ids);
  } catch (thrown) {
    const { code, message } = asError(thrown);
    return `${code}: ${message}`;
  }
};

describe('an id is named', () => {
  test('by its first characters, where they fit one', () => {
    assert.deepEqual([find('9', [A, B, C]), find('3f2a91c0-7', [A, B, C])], [C, B]);
  });

  test('whole, also where another one starts with it', () => {
    assert.equal(find('nightly', ['nightly-2', 'nightly']), 'nightly');
  });

  test('not by characters that fit several: the error lists them', () => {
    assert.equal(refusal('3f2a', [A, B, C]), `usage: 2 sessions start with "3f2a"; give more characters: ${A}, ${B}`);
    const many = Array.from({ length: 7 }, (_, at) => `a${at}`);
    assert.equal(refusal('a', many), 'usage: 7 sessions start with "a"; give more characters: a0, a1, a2, a3, a4, …');
  });

  test('not by what fits none, and not by nothing', () => {
    assert.equal(
      refusal('ff', [A]),
      'session_not_found: no session has an id that starts with "ff"; see: handfast session ls',
    );
    assert.equal(
      refusal('', [A]),
      'usage: pass the id of a session, or its first characters; see: handfast session ls',
    );
  });
});

describe('a table shows', () => {
  const terminal = { width: 80 };

  test('8 characters of ids on a terminal, and as many more as tell them apart', () => {
    assert.deepEqual(shownIds([A, C], terminal), ['3f2a91c0', '90000000']);
    const shown = shownIds([B, A, C], terminal);
    assert.deepEqual(shown, ['3f2a91c0-7', '3f2a91c0-0', '90000000-0']);
    assert.deepEqual(
      shown.map((id) => find(id, [A, B, C])),
      [B, A, C],
    );
  });

  test('whole ids to programs, and names that users gave whole', () => {
    assert.deepEqual(shownIds([A], { width: Number.POSITIVE_INFINITY }), [A]);
    assert.deepEqual(shownIds(['nightly-build-of-everything', A], terminal), [
      'nightly-build-of-everything',
      '3f2a91c0',
    ]);
    assert.deepEqual([shortId(A), shortId('nightly-build')], ['3f2a91c0', 'nightly-build']);
  });
});
