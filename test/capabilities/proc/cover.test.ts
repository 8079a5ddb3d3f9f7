/** Restricted principals, whose programs run with protected paths covered: signals and keys reach the program, not the cover. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canCover } from '../../../src/base/workspace/path-cover.ts';
import type { RemoteProcess } from '../../../src/capabilities/proc/client.ts';
import { connect } from '../../../src/connect.ts';
import { User } from '../../cli/command.ts';
import { Reading } from './kill-steps.ts';
import { isAlive } from './support.ts';

const TOKEN = 'token-of-a-restricted-one-0001';
const CONFIG = `listen: http://127.0.0.1:0
plugins: [{ use: proc, options: { programs: [sh, cat] } }]
auth: { tokens: [{ name: restricted, token: ${TOKEN}, capabilities: [proc] }] }
`;
const pty = { cols: 80, rows: 24 };

/** Reports each signal that it gets, and ends at SIGTERM. */
const LISTENING = `
trap 'echo INT' INT; trap 'echo HUP' HUP; trap 'echo USR1' USR1; trap 'echo TERM; exit 0' TERM
echo ready
while :; do sleep 0.05; done
`;

test('a program in a cover gets signals and keys, and ends as it wants to', {
  skip: !(await canCover()) && 'needs bubblewrap',
  timeout: 240_000,
}, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const { ready } = await user.up(['--config', user.write('proc.yaml', CONFIG)]);
  const agent = await connect(ready.url, { capabilities: ['proc'], token: TOKEN });
  t.after(() => agent.close());
  const ends = async (child: RemoteProcess, send: (name: string) => Promise<unknown>): Promise<void> => {
    const reading = new Reading(child);
    await reading.until('ready');
    for (const name of ['HUP', 'USR1', 'INT', 'TERM']) {
      await send(name);
      await reading.until(name);
    }
    const exit = await reading.until();
    assert.deepEqual([exit?.code, exit?.reason], [0, 'exited']);
  };
  const piped = await agent.proc.spawn(['sh', '-c', LISTENING]);
  await ends(piped, (name) => piped.kill(`SIG${name}`));
  const shown = await agent.proc.spawn(['sh', '-c', LISTENING], { pty });
  await ends(shown, (name) => (name === 'INT' ? shown.write('\x03') : shown.kill(`SIG${name}`)));

  // A program that handles nothing ends by the signal, all of it.
  const plain = await agent.proc.spawn(['cat']);
  assert.equal(await plain.kill('SIGTERM'), 'stopped');
  assert.deepEqual(await plain.wait(), { code: 143, signal: '', reason: 'killed' });
  const killed = await agent.proc.spawn(['sh', '-c', LISTENING]);
  assert.equal(await killed.kill('SIGKILL'), 'stopped');
  assert.deepEqual(await killed.wait(), { code: -9, signal: 'SIGKILL', reason: 'killed' });
  for (const { pid } of [piped, shown, plain, killed]) assert.ok(!isAlive(pid));
  // The cover ignores no signal on behalf of the program.
  const child = await agent.proc.spawn(['sh', '-c', 'grep SigIgn /proc/$$/status']);
  const reading = new Reading(child);
  await reading.until();
  assert.match(reading.text, /^SigIgn:\t0+$/m);
});
