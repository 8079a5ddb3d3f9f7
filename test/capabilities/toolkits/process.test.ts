/** The toolkit `process`: programs by the capability `proc`, under its rules. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { procPlugin } from '../../../src/capabilities/proc/plugin.ts';
import { agentOf, errorOf, folder, toolkitsHost } from './support.ts';

interface Output {
  readonly process: string;
  readonly output: string;
  readonly next: number;
  readonly exit_code: number | null;
}

test('programs that the host allows are started, read, written to, listed and ended', async (t) => {
  const more = [procPlugin({ programs: ['cat', 'sh'] })];
  const host = await toolkitsHost(t, { workspace: folder(t), builtin: [{ name: 'process' }], more });
  const agent = await agentOf(t, host, { enable: ['process'] });
  const call = (name: string, args: object = {}) => agent.tools.call<Output>(`process_${name}`, { ...args });
  const done = await call('start', { argv: ['sh', '-c', 'echo hello; exit 3'], wait_ms: 60_000 });
  assert.deepEqual([done.data?.output, done.data?.exit_code, done.summary], ['hello\n', 3, 'sh ended with 3']);
  const fed = await call('start', { argv: ['cat'], input: 'text\n', wait_ms: 60_000 });
  assert.deepEqual([fed.data?.output, fed.data?.exit_code], ['text\n', 0]);
  const cat = (await call('start', { argv: ['cat'], wait_ms: 0 })).data as Output;
  assert.equal(cat.exit_code, null);
  const { process: id } = cat;
  await call('write', { process: id, text: 'one\n' });
  let read = (await call('output', { process: id, wait_ms: 200 })).data as Output;
  while (read.output === '') read = (await call('output', { process: id, wait_ms: 200 })).data as Output;
  assert.equal(read.output, 'one\n');
  await call('write', { process: id, text: 'two\n', eof: true });
  const rest = (await call('output', { process: id, from: read.next, wait_ms: 60_000 })).data as Output;
  assert.deepEqual([rest.output, rest.exit_code], ['two\n', 0]);
  const sleeping = (await call('start', { argv: ['sh', '-c', 'sleep 600'], wait_ms: 0 })).data as Output;
  assert.equal(((await call('kill', { process: sleeping.process })).data as { state?: string }).state, 'stopped');
  assert.equal((await errorOf(call('start', { argv: ['ls'] }))).code, 'proc.denied');
  assert.equal((await errorOf(call('output', { process: 'nothing' }))).code, 'unknown_proc');
  const { processes } = (await call('list')).data as unknown as { processes: { process: string }[] };
  assert.equal(processes.length, 4);
});

test('without the capability proc, or the risk, nothing runs', async (t) => {
  const grants = { toolkits: { names: ['process'] } };
  const principals = [
    { name: 'admin', admin: true },
    { name: 'some', capabilities: ['tools', 'proc'], grants },
    { name: 'more', capabilities: ['tools'], tools: { risks: ['exec'] }, grants },
  ];
  const more = [procPlugin({ programs: ['sh'] })];
  const host = await toolkitsHost(t, { builtin: [{ name: 'process' }], principals, more });
  const start = { argv: ['sh', '-c', 'true'] };
  const some = await agentOf(t, host, { principal: 'some', enable: ['process'] });
  assert.equal((await errorOf(some.tools.call('process_start', start))).code, 'tool_denied');
  const rich = await agentOf(t, host, { principal: 'more', enable: ['process'] });
  assert.equal((await errorOf(rich.tools.call('process_start', start))).code, 'capability_missing');
  const without = await toolkitsHost(t, { builtin: [{ name: 'process' }] });
  const agent = await agentOf(t, without, { enable: ['process'] });
  assert.equal((await errorOf(agent.tools.call('process_start', start))).code, 'capability_missing');
});
