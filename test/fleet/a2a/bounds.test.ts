/** Bounds of one request of an A2A client: of lists, of metadata, and of pages of tasks, because the SDK reads each at once. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { served, TOKEN } from './agent-stand.ts';

type Fields = Record<string, unknown>;
interface Reply {
  readonly result?: {
    readonly tasks: { readonly id: string }[];
    readonly nextPageToken?: string;
    readonly task: Fields;
  };
  readonly error?: { readonly code: number; readonly message: string };
}

async function caller(t: TestContext): Promise<(method: string, params: Fields) => Promise<Reply>> {
  const { address } = await served(t, new ScriptedWorker({ resultOf: () => ({ prose: 'done' }) }));
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${TOKEN}`, 'a2a-version': '1.0' };
  return async (method, params) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    return (await (await fetch(`${address}/a2a`, { method: 'POST', headers, body })).json()) as Reply;
  };
}

let sent = 0;
const message = (more: Fields) => ({ messageId: `m${sent++}`, role: 'ROLE_USER', parts: [{ text: 'hi' }], ...more });
const list = (length: number) => Array.from({ length }, (_, at) => `x${at}`);
const times = (length: number, part: Fields) => Array.from({ length }, () => part);

test('a list or metadata of a message that is too long is refused with its limit, and one that is not is taken', async (t) => {
  const call = await caller(t);
  const bounds: readonly [string, number, string, (length: number) => Fields][] = [
    ['message.referenceTaskIds', 32, 'items', (n) => ({ message: message({ referenceTaskIds: list(n) }) })],
    ['message.referenceTaskIds', 32, 'items', (n) => ({ message: message({ reference_task_ids: list(n) }) })],
    ['message.extensions', 1_024, 'items', (n) => ({ message: message({ extensions: list(n) }) })],
    ['message.parts', 1_024, 'items', (n) => ({ message: message({ parts: times(n, { text: 'hi' }) }) })],
    [
      'configuration.acceptedOutputModes',
      1_024,
      'items',
      (n) => ({ message: message({}), configuration: { acceptedOutputModes: list(n) } }),
    ],
    ['metadata', 4_096, 'values', (n) => ({ message: message({}), metadata: { list: list(n - 2) } })],
    ['message.metadata', 4_096, 'values', (n) => ({ message: message({ metadata: { list: list(n - 2) } }) })],
    [
      'message.parts[0].metadata',
      4_096,
      'values',
      (n) => ({ message: message({ parts: [{ text: 'hi', metadata: { list: list(n - 2) } }] }) }),
    ],
    [
      'message.parts.metadata',
      4_096,
      'values',
      // The metadata of each part has twelve values.
      (n) => ({
        message: message({ parts: times(Math.floor(n / 12) + 1, { text: 'hi', metadata: { list: list(10) } }) }),
      }),
    ],
  ];
  for (const [name, most, unit, params] of bounds) {
    for (const method of ['SendMessage', 'SendStreamingMessage']) {
      const { error } = await call(method, params(most + 1));
      assert.deepEqual([error?.code, error?.message], [-32602, `params.${name} has more than ${most} ${unit}`]);
    }
    const least = name === 'message.parts.metadata' ? most / 2 : most;
    const { result, error } = await call('SendMessage', params(least));
    assert.ok(result?.task !== undefined, `${name}: ${error?.message}`);
  }
  for (const id of ['a\u001b[31m', '', 7, null]) {
    const { error } = await call('SendMessage', { message: message({ referenceTaskIds: [id] }) });
    assert.equal(error?.message, 'params.message.referenceTaskIds must be a list of ids');
  }
  // Data is what workers are sent: it has the bounds of each message.
  const { result } = await call('SendMessage', { message: message({ parts: [{ data: { list: list(60_000) } }] }) });
  assert.ok(result?.task !== undefined);
});

test('a page of tasks ends before it is too large; all pages together have each task once', async (t) => {
  const call = await caller(t);
  for (let at = 0; at < 5; at += 1)
    await call('SendMessage', { message: message({ parts: [{ text: 'x'.repeat(100_000) }] }) });
  const pages: string[][] = [];
  for (let pageToken = ''; ; ) {
    const { result } = await call('ListTasks', { pageToken });
    pages.push((result?.tasks ?? []).map(({ id }) => id));
    pageToken = result?.nextPageToken ?? '';
    if (pageToken === '') break;
  }
  assert.ok(
    pages.length > 1 && pages.every((page) => page.length > 0),
    JSON.stringify(pages.map(({ length }) => length)),
  );
  assert.equal(new Set(pages.flat()).size, 5);
  assert.equal(pages.flat().length, 5);
});
