/**
 * The multi_agent API of the A2E Python SDK against Handfast's host over stdio: every call of its client.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { commandOf, skip, start } from './python-sdk.ts';

const COMMAND = join(import.meta.dirname, '../../src/cli/main.ts');
const PROGRAM = join(import.meta.dirname, '../support/echo-subagent.mjs');

describe('the multi_agent API of the Python SDK’s agent', { skip }, () => {
  const home = mkdtempSync(join(tmpdir(), 'handfast-interop-agents-'));
  // biome-ignore lint/suspicious/noExplicitAny: plain JSON, as the SDK decoded it
  let results: Record<string, any> = {};

  before(async () => {
    const config = join(home, 'host.yaml');
    const kinds = [{ name: 'echo', command: [process.execPath, PROGRAM] }];
    writeFileSync(config, JSON.stringify({ plugins: [{ use: 'multi_agent', options: { kinds } }] }));
    const target = ['stdio', process.execPath, '-C', 'handfast-source', COMMAND, 'stdio', '--config', config];
    process.env.HANDFAST_HOME = home;
    const agent = start(commandOf('python-multi-agent.py', JSON.stringify(target)), home);
    const lines = await agent.rest();
    assert.equal(agent.child.exitCode, 0, agent.stderr());
    results = JSON.parse(lines.at(-1) as string);
  });
  after(() => rmSync(home, { recursive: true, force: true }));

  test('spawns, delegates and awaits', () => {
    assert.match(results.spawn.subagent_id, /^sub_[0-9a-f]{8}$/);
    assert.equal(results.spawn.status, 'READY');
    assert.deepEqual([results.delegate.accepted, results.delegate.status], [true, 'RUNNING']);
    const { subagent_id, status, result, error } = results.await;
    assert.deepEqual(
      [subagent_id, status, result, error],
      [results.spawn.subagent_id, 'COMPLETED', { summary: 'List three options' }, null],
    );
    assert.equal(results['await without a task'].failed, 'A2EClientError');
  });

  test('a failure is a result, as often as it is awaited', () => {
    for (const name of ['await the failure', 'await it again']) {
      const { status, result, error } = results[name];
      assert.deepEqual([status, result, error], ['FAILED', null, 'no luck']);
    }
  });

  test('lists and ends', () => {
    const statuses = (name: string) =>
      results[name].subagents.map((one: { name: string; status: string }) => [one.name, one.status]);
    assert.deepEqual(statuses('list'), [
      ['scout', 'FAILED'],
      ['second', 'READY'],
    ]);
    assert.deepEqual([results.terminate.success, results['terminate again'].success], [true, false]);
    const late = results['delegate to an ended one'];
    assert.deepEqual([late.accepted, late.status], [false, 'TERMINATED']);
    assert.deepEqual(statuses('list afterwards'), [
      ['scout', 'TERMINATED'],
      ['second', 'READY'],
    ]);
  });

  test('an unknown id is an error', () => {
    assert.match(JSON.stringify(results.unknown), /there is no subagent/);
  });
});
