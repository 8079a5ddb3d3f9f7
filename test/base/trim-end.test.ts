import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skillNamesIn } from '../../src/base/skills/text.ts';
import { trimmedEnd } from '../../src/base/trim-end.ts';
import { holds, parseCondition } from '../../src/capabilities/chains/definition/paths.ts';

test('the end of a text is trimmed of some characters, and nothing else of it', () => {
  assert.equal(trimmedEnd('https://host//', '/'), 'https://host');
  assert.equal(trimmedEnd('python3.12', '0123456789.-'), 'python');
  assert.equal(trimmedEnd('a-b', '-'), 'a-b');
  assert.equal(trimmedEnd('---', '-'), '');
  assert.equal(trimmedEnd('', '-'), '');
});

test('texts of a megabyte that almost end with such characters are read', () => {
  const many = 1024 * 1024;
  // With an expression that tries each place again, each of these takes minutes.
  assert.deepEqual(skillNamesIn(`$a${'.'.repeat(many)}b. and $c.`), [`a${'.'.repeat(many)}b`, 'c']);
  const condition = parseCondition(`$.a == 'b${'"'.repeat(many)}c'`);
  assert.ok(typeof condition !== 'string');
  assert.equal(holds(condition, new Map([['a', `b${'"'.repeat(many)}c`]]) as never), true);
});
