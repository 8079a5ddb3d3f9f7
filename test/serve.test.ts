/**
 * `serve`: a program gets everything that `handfast up` has, from a file, and closes it in order.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect, serve } from 'handfast';
import { connect as connectControl } from 'handfast/control';
import { temporaryFolder } from './host/temporary-folder.ts';
import { setVariable } from './support/variable.ts';

/** Writes a configuration file, with a separate home. */
function written(t: TestContext, yaml: string): string {
  const folder = temporaryFolder(t);
  setVariable(t, 'HANDFAST_HOME', join(folder, 'home'));
  const file = join(folder, 'handfast.yaml');
  writeFileSync(file, yaml);
  return file;
}

test('a configuration file serves tools and sessions, and closing ends both', async (t) => {
  const file = written(t, 'listen: ["http://127.0.0.1:0"]\n');
  writeFileSync(join(file, '..', 'a.txt'), 'hello');
  const server = await serve(file, { announce: false });
  t.after(() => server.close(0));
  assert.equal(server.state, 'open');
  const token = readFileSync(server.tokenFile!, 'utf8').trim();
  const agent = await connect(server.url!, { capabilities: ['tools'], token, reconnect: { maxMs: 500 } });
  assert.match(JSON.stringify((await agent.tools.call('read_file', { path: 'a.txt' })).data), /hello/);
  const control = await connectControl(`${server.url!.replace('http', 'ws')}/rpc`, { token });
  assert.equal((await control.create({ title: 'one' })).id.length > 0, true);
  await server.close();
  assert.equal(server.state, 'closed');
  assert.equal(await server.closed, undefined);
  assert.notEqual(await agent.closed, undefined);
  await control.close();
});

test('a client that ends the server closes it', async (t) => {
  const server = await serve(written(t, 'listen: ["http://127.0.0.1:0"]\n'), { announce: false });
  t.after(() => server.close(0));
  const token = readFileSync(server.tokenFile!, 'utf8').trim();
  await using control = await connectControl(`${server.url!.replace('http', 'ws')}/rpc`, { token });
  await control.call('system.shutdown', {}).catch(() => {});
  assert.equal(await server.closed, undefined);
  assert.equal(server.state, 'closed');
});

test('a broken file is refused with every problem by line, and nothing is left running', async (t) => {
  const file = written(t, 'listen: ["http://127.0.0.1:0"]\nlimits:\n  max_paralel: 1\n  queue_limit: -1\n');
  await assert.rejects(serve(file), (error: { code: string; message: string }) => {
    assert.equal(error.code, 'config_invalid');
    assert.match(error.message, /handfast\.yaml:3:3.*max_parallel/);
    assert.match(error.message, /handfast\.yaml:4:/);
    return true;
  });
});
