/**
 * The proc API of the A2E Python SDK against Handfast's host over stdio: its calls, its events, its statuses and its
 * refusals.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { commandOf, skip, start } from './python-sdk.ts';

const COMMAND = join(import.meta.dirname, '../../src/cli/main.ts');

describe('the proc API of the Python SDK’s agent', { skip }, () => {
  const home = mkdtempSync(join(tmpdir(), 'handfast-interop-proc-'));
  // biome-ignore lint/suspicious/noExplicitAny: plain JSON, as the SDK decoded it
  let results: Record<string, any> = {};

  before(async () => {
    const config = join(home, 'host.yaml');
    writeFileSync(config, 'plugins: [{ use: proc, options: { programs: [cat, sh, sleep] } }]\n');
    const target = ['stdio', process.execPath, '-C', 'handfast-source', COMMAND, 'stdio', '--config', config];
    process.env.HANDFAST_HOME = home;
    const agent = start(commandOf('python-proc.py', JSON.stringify(target)), home);
    const lines = await agent.rest();
    assert.equal(agent.child.exitCode, 0, agent.stderr());
    results = JSON.parse(lines.at(-1) as string);
  });
  after(() => rmSync(home, { recursive: true, force: true }));

  test('spawns a process, writes to it, reads its output by line to its end', () => {
    const { proc_id, pid, ok, error } = results.spawn;
    assert.match(proc_id, /^[0-9a-f]{32}$/);
    assert.ok(pid > 1);
    assert.deepEqual([ok, error], [true, '']);
    assert.deepEqual(results.output, [
      ['stdout', { text: 'one\n' }],
      ['stdout', { text: 'two\n' }],
      ['stdout', { text: 'three' }],
      ['stdout', { code: 0 }],
    ]);
    const { ok: written, error: reason } = results['write to an ended one'];
    assert.deepEqual([written, reason.split(':')[0]], [false, 'proc_dead']);
  });

  test('its on_output hears only what comes before the reply: output follows it, as pushed events', () => {
    assert.equal(results['calls of on_output'], 0);
  });

  test('reads statuses: running, completed, failed, killed, timed out, of all, of none', () => {
    const statusOf = (name: string) => [results[name].status, results[name].error];
    assert.deepEqual(statusOf('running'), ['running', '']);
    assert.deepEqual(statusOf('completed'), ['completed', '']);
    assert.deepEqual(statusOf('failed'), ['failed', 'exit code 3']);
    assert.deepEqual(statusOf('killed'), ['killed', 'SIGTERM']);
    assert.deepEqual(statusOf('timed out'), ['killed', 'timed out']);
    assert.deepEqual(statusOf('all'), ['completed', '']);
    assert.equal(results.unknown.status, 'not_found');
    assert.match(results.unknown.error, /^unknown_proc: there is no process "nothing"/);
    assert.deepEqual(results['output of one that fails'], [
      ['stderr', { text: 'oops\n' }],
      ['stderr', { code: 3 }],
    ]);
    assert.equal(results['output of the killed one'].at(-1)[1].code, -15);
  });

  test('kills a process, also one that has ended', () => {
    assert.deepEqual([results.kill.ok, results.kill.state], [true, 'stopped']);
    assert.deepEqual([results['kill again'].ok, results['kill again'].state], [true, 'stopped']);
    assert.equal(results['kill of nothing'].ok, false);
  });

  test('is refused by reply, not by error', () => {
    const refusals = ['denied', 'empty', 'outside'].map((name) => {
      const { ok, pid, proc_id, error } = results[name];
      return [ok, pid, proc_id, error];
    });
    assert.deepEqual(refusals[0], [false, 0, '', 'Command not allowed']);
    assert.deepEqual(refusals[1], [false, 0, '', 'Empty command']);
    assert.deepEqual(refusals[2]?.slice(0, 3), [false, 0, '']);
    assert.match(String(refusals[2]?.[3]), /workspace/);
  });
});
