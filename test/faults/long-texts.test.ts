/**
 * Naming texts are short: a title of megabytes would be sent with every list, to every principal that reads them, and
 * an id of megabytes back in its error. Over a real server's wire.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { composed, type WireError } from '../control/support/composed-control.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const LONG = 'x'.repeat(1024 * 1024);

test('titles, names, ids and searches of a megabyte are refused by field, and not repeated', async (t) => {
  const client = (await composed(t, { home: temporaryFolder(t), backend: 'rehearsal' })).client();
  const { session_id } = await client.call('session.create');
  const attempts: readonly (readonly [method: string, params: Readonly<Record<string, unknown>>, field: string])[] = [
    ['session.rename', { session_id, title: LONG }, 'title'],
    ['session.create', { title: LONG }, 'title'],
    ['session.create', { model: LONG }, 'model'],
    ['session.configure', { session_id, openrouter_provider: LONG }, 'openrouter_provider'],
    ['session.list', { query: LONG }, 'query'],
    ['session.get', { session_id: LONG }, 'session_id'],
    ['session.send', { session_id, text: 'say "x"', idempotency_key: LONG }, 'idempotency_key'],
  ];
  for (const [method, params, field] of attempts) {
    const refusal: WireError = await client.refusal(method, params);
    assert.deepEqual([refusal.code, refusal.data.field], [-32602, field], method);
    assert.ok(JSON.stringify(refusal).length < 1000, method);
  }
  assert.equal((await client.call('session.list')).total, 1);
});

test('prompts may be long, and the title of an import is cut', async (t) => {
  const client = (await composed(t, { home: temporaryFolder(t), backend: 'rehearsal' })).client();
  const { session_id } = await client.call('session.create');
  const { turn_id } = await client.call('session.send', { session_id, text: `say "${LONG.slice(0, 1_000_000)}"` });
  await client.ended(turn_id as string);
  const head = JSON.stringify({ format: 'handfast.session/1', title: LONG });
  const imported = await client.call('session.import', { lines: [head] });
  assert.equal((imported.state as { title: string }).title.length, 4096);
});
