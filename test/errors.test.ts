/**
 * The error table: each row can be found again from the members that a dialect carries, the page about it is fresh, and
 * no source names an error that is not in it.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { errorsPage, exitCodes } from '../scripts/generate-errors.ts';
import {
  asError,
  type ErrorName,
  type ErrorRow,
  errorTable,
  exitCodeOf,
  fail,
  HandfastError,
  nameOfA2E,
  nameOfJsonRpc,
} from '../src/wire/errors.ts';
import { blank, root, sourcesBelow } from './rules/scan.ts';

const rows = Object.entries(errorTable) as [ErrorName, ErrorRow][];

describe('the error table', () => {
  test('every row is found again from its A2E code and its name as the reason', () => {
    for (const [name, row] of rows) assert.equal(nameOfA2E(row.a2e, name), name);
  });

  test('every A2E code without a reason, or with an unknown one, is the row of the same name', () => {
    for (const [, row] of rows) {
      assert.equal(nameOfA2E(row.a2e), row.a2e);
      assert.equal(nameOfA2E(row.a2e, 'disk on fire'), row.a2e);
      assert.equal(nameOfA2E(row.a2e, 7), row.a2e);
    }
  });

  test('a reason never turns an error of one A2E code into a row of another', () => {
    assert.equal(nameOfA2E('timeout', 'auth_failed'), 'timeout');
    assert.equal(nameOfA2E('somebody_elses_code', 'auth_failed'), undefined);
    assert.equal(nameOfA2E('constructor'), undefined);
  });

  test('every row is found again from its JSON-RPC number and its name as the reason', () => {
    for (const [name, row] of rows) assert.equal(nameOfJsonRpc(row.jsonrpc, name), name);
  });

  test('every JSON-RPC number without a reason stands for one row with that number', () => {
    for (const [, row] of rows) {
      const name = nameOfJsonRpc(row.jsonrpc);
      assert.ok(name !== undefined, `${row.jsonrpc} has no default row`);
      assert.equal(errorTable[name].jsonrpc, row.jsonrpc);
      assert.equal(nameOfJsonRpc(row.jsonrpc, 'disk on fire'), name);
    }
    assert.equal(nameOfJsonRpc(-1), undefined);
  });

  test('numbers are JSON-RPC error numbers, statuses are HTTP error statuses', () => {
    for (const [name, row] of rows) {
      assert.ok(Number.isInteger(row.jsonrpc) && row.jsonrpc >= -32800 && row.jsonrpc <= -32000, name);
      assert.ok(Number.isInteger(row.http) && row.http >= 400 && row.http <= 599, name);
    }
  });

  test('exit codes are the documented ones, and failing never exits with 0', () => {
    assert.deepEqual(Object.keys(exitCodes).map(Number), [0, 1, 2, 3, 4, 5, 6, 7, 130]);
    for (const [name, row] of rows) {
      assert.ok(row.exit > 1 && row.exit in exitCodes, `${name} exits with ${row.exit}`);
      assert.equal(exitCodeOf(name), row.exit);
    }
    assert.equal(exitCodeOf('somebody_elses_code'), 5);
  });
});

describe('errors as values', () => {
  test('an error of the table is retryable as its row says', () => {
    for (const [name, row] of rows) assert.equal(fail(name, 'x').retryable, row.retryable);
    assert.equal(new HandfastError('somebody_elses_code', 'x').retryable, false);
    assert.equal(new HandfastError('tool_error', 'x', { retryable: true }).retryable, true);
  });

  test('an error keeps its detail and its cause', () => {
    const cause = new Error('below');
    const error = fail('unknown_tool', 'no tool named "x"', { tool: 'x' }, cause);
    assert.deepEqual([error.code, error.message, error.detail], ['unknown_tool', 'no tool named "x"', { tool: 'x' }]);
    assert.equal(error.cause, cause);
    assert.equal('cause' in fail('timeout', 'x'), false);
  });

  test('anything thrown becomes an error of ours, and one of ours stays the same object', () => {
    const ours = fail('timeout', 'late');
    assert.equal(asError(ours), ours);
    const theirs = new TypeError('bad');
    assert.deepEqual([asError(theirs).code, asError(theirs).cause], ['runtime_error', theirs]);
    assert.deepEqual(
      [asError('text', 'tool_error').code, asError('text', 'tool_error').message],
      ['tool_error', 'text'],
    );
    assert.equal(asError(undefined).message, 'undefined');
  });
});

describe('the error reference', () => {
  const page = readFileSync(join(root, 'docs', 'errors.md'), 'utf8');

  test('docs/errors.md is what the table says', () => {
    assert.equal(page, errorsPage(), 'run "npm run generate"');
  });

  test('every name the sources fail with has a section on the page', () => {
    const used = new Set<string>();
    for (const { text } of sourcesBelow('src')) {
      for (const match of blank(text).withStrings.matchAll(/\bfail\(\s*'(\w+)'/g)) used.add(match[1]!);
    }
    const undocumented = [...used].filter((name) => !page.includes(`\n### ${name}\n`));
    assert.deepEqual(undocumented, []);
    assert.ok(used.size > 0);
  });
});
