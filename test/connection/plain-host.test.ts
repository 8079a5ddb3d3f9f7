/**
 * Clients of capabilities with a host that has A2E 1.0 alone: processes whose output is not requested, and replies
 * without an id.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Agent, connect } from '../../src/connect.ts';

const program = fileURLToPath(new URL('../support/plain-host.mjs', import.meta.url));

async function plainAgent(t: TestContext): Promise<Agent<'proc' | 'env'>> {
  const agent = await connect(`stdio:'${process.execPath}' '${program}'`, {
    capabilities: ['proc', 'env'],
    timeoutMs: 30_000,
  });
  t.after(() => agent.close());
  return agent;
}

test('the output of a process is read as it comes, and again, with its end', async (t) => {
  const { proc } = await plainAgent(t);
  const child = await proc.spawn(['sh', '-c', 'echo one; read line; echo "$line" >&2; exit 3']);
  const pieces = child.output();
  assert.deepEqual((await pieces.next()).value, { stream: 'stdout', text: 'one\n', seq: 0 });
  // A silent refusal: the existing process was written to.
  await child.write('two\n');
  assert.deepEqual((await pieces.next()).value, { stream: 'stderr', text: 'two\n', seq: 1 });
  assert.deepEqual(await pieces.next(), { done: true, value: { code: 3, signal: '', reason: 'exited' } });
  assert.deepEqual(await child.wait(), { code: 3, signal: '', reason: 'exited' });
  const again = await Array.fromAsync(child.output({ from: 1 }));
  assert.deepEqual(
    again.map(({ text }) => text),
    ['two\n'],
  );
});

test('a process is found and listed with what is known of it', async (t) => {
  const { proc } = await plainAgent(t);
  const child = await proc.spawn(['cat']);
  const [info] = await proc.list();
  assert.deepEqual([info?.cmd, info?.state, info?.pid, info?.exit_code], ['cat', 'running', child.pid, null]);
  assert.equal((await proc.find(child.id)).pid, child.pid);
  await assert.rejects(proc.find('nothing'), { code: 'unknown_proc' });
  await assert.rejects(child.resize({ cols: 1, rows: 1 }), { code: 'parse_error' });
});

test('a kill is done when the state says so, and ends the output', async (t) => {
  const { proc } = await plainAgent(t);
  const child = await proc.spawn(['sleep', '600']);
  const reading = child.wait();
  assert.equal(await child.kill('SIGKILL'), 'stopped');
  assert.deepEqual(await reading, { code: -9, signal: 'SIGKILL', reason: 'killed' });
  assert.deepEqual(await Array.fromAsync(child.output()), []);
  await assert.rejects(
    (await proc.find(child.id)).write('late', { timeoutMs: 30_000 }).then(() => proc.find('gone')),
    {
      code: 'unknown_proc',
    },
  );
});

test('output that nothing reads is stored within a bound: what was dropped is counted', async (t) => {
  const { proc } = await plainAgent(t);
  const child = await proc.spawn([
    'sh',
    '-c',
    'i=0; while [ $i -lt 3000 ]; do printf "%01000d\\n" $i; i=$((i+1)); done',
  ]);
  assert.equal((await child.wait()).code, 0);
  const [first, ...rest] = await Array.fromAsync(child.output());
  assert.ok(first !== undefined && (first.missed ?? 0) > 1_000, `${first?.missed}`);
  assert.equal(first.seq, first.missed);
  assert.equal(rest.at(-1)?.seq, 2_999);
  assert.equal((await child.info()).output.bytes, 3_000 * 1_001);
});

test('a reader ends with its signal, and with the link', async (t) => {
  const agent = await plainAgent(t);
  const child = await agent.proc.spawn(['cat']);
  const stop = new AbortController();
  const reading = child.wait({ signal: stop.signal });
  stop.abort();
  await assert.rejects(reading, { code: 'cancelled' });
  assert.deepEqual(await Array.fromAsync(child.output({ follow: false })), []);
  const left = assert.rejects(child.wait());
  await agent.close();
  await left;
});

test('episodes that are closed together get their replies one after another', async (t) => {
  const { env } = await plainAgent(t);
  const vector = await env.vector('corridor', 3);
  await vector.close({ timeoutMs: 30_000 });
});
