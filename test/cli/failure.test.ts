/** The line a command fails with. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failureOf, nextStepOf } from '../../src/cli/failure.ts';
import { fail } from '../../src/wire/errors.ts';

test('work that may have run is named as such, once', () => {
  const detail = { may_have_run: true };
  const cut = fail('connection_lost', 'the connection was lost', detail);
  assert.equal(nextStepOf(failureOf(cut)), '; it may have run: look at what it did before you repeat it');
  assert.equal(nextStepOf(failureOf(fail('connection_lost', 'it may have run', detail))), '');
  assert.equal(nextStepOf(failureOf(fail('connection_lost', 'the call was not sent'))), '');
});

test('a message without a next step gets the command that shows it', () => {
  assert.match(nextStepOf(failureOf(fail('unknown_tool', 'no tool "x"'))), /handfast tools ls/);
  assert.equal(nextStepOf(failureOf(fail('unknown_tool', 'no tool "x"; did you mean "y"?'))), '');
});
