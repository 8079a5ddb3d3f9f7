/**
 * F-107: a host is lost after a call began. A loop that repeats `retryable` calls runs no unrepeatable call twice, at
 * any time of the kill, and repeats the safe ones. Real processes, killed with SIGKILL.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Agent, connect } from '../../src/index.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { ownPort } from '../support/own-port.ts';

const script = fileURLToPath(new URL('./fixtures/charging-host.ts', import.meta.url));
const MAX_ATTEMPTS = 50;

async function startHost(port: number, file: string, journal: readonly string[]): Promise<ChildProcess> {
  const child = fork(script, [String(port), file, ...journal]);
  const [said] = await Promise.race([once(child, 'message'), once(child, 'exit')]);
  assert.equal(said, 'listening');
  return child;
}

/** Calls until it worked, or until the error reports that repeating is not safe. */
async function obedient(
  agent: Agent<'tools'>,
  name: string,
  key: string,
  idempotent: boolean,
): Promise<HandfastError[]> {
  const errors: HandfastError[] = [];
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    try {
      await agent.tools.call(name, { key }, { idempotent });
      return errors;
    } catch (thrown) {
      const error = thrown as HandfastError;
      errors.push(error);
      if (!error.retryable) return errors;
      await delay(10);
    }
  }
  throw new Error(`${name} ${key} never ended`);
}

for (const kind of ['memory', 'sqlite'])
  test(`F-107: a loop that obeys retryable charges no card twice, with the host killed at every step, journal ${kind}`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'handfast-repeating-'));
    const file = join(folder, 'runs.txt');
    const port = await ownPort();
    const journal = kind === 'sqlite' ? [join(folder, 'journal.db')] : [];
    let host = await startHost(port, file, journal);
    const agent = await connect(`tcp://127.0.0.1:${port}`, { capabilities: ['tools'], reconnect: { maxMs: 60_000 } });
    const first = agent.sessionId;
    // With a record of the session in the file, every host from here on resumes it.
    await agent.tools.call('set_limit', { key: 'first' });
    await delay(300);
    const charges: HandfastError[] = [];
    const limits: HandfastError[] = [];
    try {
      for (let round = 0; round < 12; round++) {
        const charge = obedient(agent, 'charge_card', `c${round}`, false);
        const limit = obedient(agent, 'set_limit', `l${round}`, true);
        await delay(round * 4);
        host.kill('SIGKILL');
        await once(host, 'exit');
        host = await startHost(port, file, journal);
        charges.push(...(await charge));
        limits.push(...(await limit));
      }
      const runs = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
      const charged = runs.filter((run) => run.startsWith('charge '));
      assert.equal(new Set(charged).size, charged.length, `a card was charged twice: ${charged}`);
      // Every limit was set in the end, however often its host was lost.
      assert.equal(new Set(runs.filter((run) => run.startsWith('limit '))).size, 13);
      assert.equal(agent.sessionId === first, kind === 'sqlite', 'the session of a journal on disk outlives its host');
      const unsafe = charges.filter(({ retryable }) => !retryable);
      assert.ok(unsafe.length > 0, 'no call was lost after it began: the test shows nothing');
      for (const { code, detail } of unsafe) assert.equal(detail.may_have_run, true, code);
      for (const { code, detail } of limits) assert.equal(detail.may_have_run, undefined, code);
    } finally {
      await agent.close();
      host.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    }
  });
