/** Toolboxes on real hosts: the built-in tools of in-process hosts, each on its own folder of the disk. */

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import type { RpcCall } from '../../../src/control/contract/handlers.ts';
import type { EnvironmentAgent } from '../../../src/control/rounds/environment.ts';
import { Environments } from '../../../src/control/rounds/environments.ts';
import type { Toolbox } from '../../../src/control/rounds/toolbox.ts';
import { toolsListHandler } from '../../../src/control/rounds/tools-list.ts';
import type { ToolCall } from '../../../src/protocol/session-types.ts';
import type { Session } from '../../../src/session/session.ts';
import { fail } from '../../../src/wire/errors.ts';
import { hostEnvironments } from '../support/host-environments.ts';

const local = { name: 'local', admin: true };

async function folder(t: TestContext, files: Record<string, string> = {}): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'handfast-environment-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) await writeFile(join(path, name), content);
  return path;
}

const made = (name: string, input: ToolCall['input'] = {}): ToolCall => ({
  name,
  input,
  providerToolName: name,
  callId: 'c1',
});

const never = new AbortController().signal;

async function callOn(toolbox: Toolbox, name: string, input?: ToolCall['input'], signal: AbortSignal = never) {
  const output: [string, string][] = [];
  const done = await toolbox.call(made(name, input), signal, (stream, text) => output.push([stream, text]));
  return { ...done, output };
}

test('the tools of a host are offered sorted, with schema, kind and risks', async (t) => {
  const { environments } = hostEnvironments(t);
  const toolbox = environments.for('s', { cwd: await folder(t), principal: local });
  assert.equal(toolbox.find('read_file'), undefined, 'nothing is known before the first list');
  const offers = await toolbox.list();
  const names = offers.map(({ name }) => name);
  assert.deepEqual(names, [...names].sort());
  assert.ok(names.includes('shell') && names.includes('read_file'));
  const read = toolbox.find('read_file')!;
  assert.deepEqual([read.kind, read.risks, read.inputSchema.type], ['file', ['reads'], 'object']);
  assert.equal(toolbox.find('no_such_tool'), undefined);
});

test('a tool is called in the working directory of the session', async (t) => {
  const { environments } = hostEnvironments(t);
  const [one, other] = [await folder(t, { 'a.txt': 'one' }), await folder(t, { 'a.txt': 'other' })];
  const contentIn = async (session: string, cwd: string) => {
    const done = await callOn(environments.for(session, { cwd, principal: local }), 'read_file', { path: 'a.txt' });
    return [done.ok, (done.result as { content: string }).content, done.callId];
  };
  assert.deepEqual(await contentIn('s1', one), [true, 'one', 'c1']);
  assert.deepEqual(await contentIn('s2', other), [true, 'other', 'c1']);
  assert.deepEqual(await contentIn('s1', other), [true, 'other', 'c1'], 'a session may change its directory');
});

test('weakness 13: the shell of one session knows nothing of the directory and environment of another', async (t) => {
  const { environments } = hostEnvironments(t);
  const [one, other] = [await folder(t), await folder(t)];
  const shellIn = (session: string, cwd: string, command: string) =>
    callOn(environments.for(session, { cwd, principal: local }), 'shell', { command });
  await shellIn('s1', one, 'cd / && export LEAK=1');
  const inOne = await shellIn('s1', one, 'pwd; echo "[$LEAK]"');
  const inOther = await shellIn('s2', other, 'pwd; echo "[$LEAK]"');
  assert.match((inOne.result as { stdout: string }).stdout, /handfast-environment-\S+\n\[\]\n$/);
  assert.notEqual((inOne.result as { stdout: string }).stdout, (inOther.result as { stdout: string }).stdout);
});

test('what a program prints is live output; one that fails is a failed call with its whole result', async (t) => {
  const { environments } = hostEnvironments(t);
  const toolbox = environments.for('s', { cwd: await folder(t), principal: local });
  const done = await callOn(toolbox, 'shell', { command: 'echo out; echo err >&2; exit 3' });
  assert.deepEqual([done.ok, done.error], [false, 'exit code 3']);
  const { stdout, stderr, exit_code } = done.result as Record<string, unknown>;
  assert.deepEqual([stdout, stderr, exit_code], ['out\n', 'err\n', 3]);
  assert.deepEqual(done.output.sort(), [
    ['stderr', 'err\n'],
    ['stdout', 'out\n'],
  ]);
});

test('progress, status and artifacts of a tool are live output too', async (t) => {
  const talker = tool({
    name: 'talker',
    description: 'Sends one event of each kind',
    async run(_args, context) {
      await context.emit('progress', { pct: 49.6, message: 'half' });
      await context.emit('status', { message: 'resting' });
      await context.emit('artifact', { name: 'a.bin', mime: 'x/y', chunk: 'AA==', final: false });
      await context.emit('artifact', { name: 'a.bin', mime: 'x/y', chunk: '', final: true });
      return { ok: 1 };
    },
  });
  const { environments } = hostEnvironments(t, { tools: [talker] });
  const done = await callOn(environments.for('s', { cwd: await folder(t), principal: local }), 'talker');
  assert.deepEqual(done.output, [
    ['progress', '50 % half'],
    ['status', 'resting'],
    ['artifact', 'a.bin (x/y)'],
  ]);
});

test('failures are reported by their cause', async (t) => {
  const breaker = tool({
    name: 'breaker',
    description: 'Fails with a reason',
    run() {
      throw fail('tool_error', 'out of luck', { reason: 'luck' });
    },
  });
  const { environments } = hostEnvironments(t, { tools: [breaker] });
  const denied = { name: 'guest', capabilities: ['tools'], tools: { deny: ['shell'] } };
  const cwd = await folder(t);
  const toolbox = environments.for('s', { cwd, principal: local });
  const told = async (box: Toolbox, name: string, input: ToolCall['input'] = {}) => {
    const { ok, error, result } = await callOn(box, name, input);
    const { callId, tool: called, status, ...more } = result as Record<string, unknown>;
    assert.deepEqual([ok, callId, called], [false, 'c1', name]);
    return { status, error, ...more };
  };
  assert.deepEqual(await told(toolbox, 'breaker'), {
    status: 'failed',
    error: 'out of luck',
    code: 'tool_error',
    detail: { reason: 'luck' },
  });
  assert.deepEqual(await told(toolbox, 'nothing'), { status: 'not_found', error: 'unknown tool: nothing' });
  assert.equal((await told(toolbox, 'read_file', { path: 1 })).status, 'invalid_input');
  assert.equal((await told(toolbox, 'read_file', { path: '../x' })).status, 'denied');
  assert.equal(
    (await told(environments.for('g', { cwd, principal: denied }), 'shell', { command: 'ls' })).status,
    'denied',
  );
});

test('an abort ends the tool and its program at once', async (t) => {
  const { environments } = hostEnvironments(t);
  const cwd = await folder(t);
  const toolbox = environments.for('s', { cwd, principal: local });
  const controller = new AbortController();
  const begun = Promise.withResolvers<void>();
  const running = toolbox.call(made('shell', { command: 'echo begun; sleep 60' }), controller.signal, () =>
    begun.resolve(),
  );
  await begun.promise;
  controller.abort(fail('interrupted', 'interrupted by the user'));
  const done = await running;
  assert.deepEqual([done.ok, done.error], [false, 'stopped: interrupted by the user']);
  assert.equal((done.result as { status: string }).status, 'cancelled');
});

test('arguments are copied: a tool that changes them does not change what was asked for', async (t) => {
  const greedy = tool({
    name: 'greedy',
    description: 'Changes its arguments',
    run(args: Record<string, unknown>) {
      args.path = 'changed';
      return { ok: 1 };
    },
  });
  const { environments } = hostEnvironments(t, { tools: [greedy] });
  const input = Object.freeze({ path: 'asked' });
  const done = await callOn(environments.for('s', { cwd: await folder(t), principal: local }), 'greedy', input);
  assert.deepEqual([done.ok, done.input, input.path], [true, { path: 'asked' }, 'asked']);
});

test('a host that went away is replaced: running calls are reported as lost, the next one finds a new session', async (t) => {
  const waits = tool({ name: 'waits', description: 'Waits', run: () => new Promise(() => {}) });
  const { environments, hosts } = hostEnvironments(t, { tools: [waits] });
  const cwd = await folder(t, { 'a.txt': 'x' });
  const toolbox = environments.for('s', { cwd, principal: local });
  assert.equal((await callOn(toolbox, 'read_file', { path: 'a.txt' })).ok, true);
  const [session] = [...hosts[0]!.host.sessions] as Session[];
  const lost = callOn(toolbox, 'waits');
  await new Promise(setImmediate);
  session!.connection.link!.destroy('gone');
  const done = await lost;
  assert.equal((done.result as { status: string }).status, 'lost');
  assert.match(String(done.error), /may or may not have taken effect$/);
  assert.equal((await callOn(toolbox, 'read_file', { path: 'a.txt' })).ok, true);
  assert.equal(hosts.length, 1, 'the host itself was still there');
});

test('sessions of one place share a host; what is released ends its session there', async (t) => {
  const { environments, hosts } = hostEnvironments(t);
  const cwd = await folder(t);
  for (const session of ['a', 'b']) await environments.for(session, { cwd, principal: local }).list();
  await environments.for('c', { cwd, principal: { name: 'other', capabilities: ['tools'] } }).list();
  assert.equal(hosts.length, 2, 'one for each principal');
  assert.equal([...hosts[0]!.host.sessions].length, 2);
  const released = environments.for('a', { cwd, principal: local });
  environments.release('a');
  await assert.rejects(async () => released.list(), { code: 'session_closed' });
  for (let turns = 0; [...hosts[0]!.host.sessions].length > 1 && turns < 100; turns += 1)
    await new Promise(setImmediate);
  assert.equal([...hosts[0]!.host.sessions].length, 1);
});

test('hosts are bounded: the one unused longest is stopped, and its sessions get a new one when they come back', async (t) => {
  const { environments, hosts } = hostEnvironments(t, { maxEnvironments: 2 });
  const places = [await folder(t), await folder(t), await folder(t)];
  const use = async (at: number) =>
    (await environments.for(`s${at}`, { cwd: places[at] as string, principal: local }).list()).length;
  for (const at of [0, 1, 0, 2, 1, 1]) assert.ok((await use(at)) > 0);
  assert.deepEqual(
    hosts.map(({ place }) => places.indexOf(place.cwd)),
    [0, 1, 2, 1],
  );
});

test('when tools run in as many places as there may be, the next place is refused for now', async (t) => {
  const gate = Promise.withResolvers<void>();
  const waits = tool({ name: 'waits', description: 'Waits', run: () => gate.promise.then(() => ({})) });
  const { environments } = hostEnvironments(t, { maxEnvironments: 1, tools: [waits] });
  const busy = callOn(environments.for('a', { cwd: await folder(t), principal: local }), 'waits');
  const other = environments.for('b', { cwd: await folder(t), principal: local });
  await assert.rejects(async () => other.list(), { code: 'over_capacity', retryable: true });
  assert.equal((await callOn(other, 'list_dir')).ok, false);
  gate.resolve();
  assert.equal((await busy).ok, true);
  assert.ok((await other.list()).length > 0);
});

test('an environment that could not be opened is tried again the next time', async () => {
  let opened = 0;
  const environments = new Environments({
    async open() {
      opened += 1;
      throw fail('unreachable', 'no reply');
    },
  });
  const toolbox = environments.for('s', { cwd: '/x', principal: local });
  for (const expected of [1, 2]) {
    await assert.rejects(async () => toolbox.list(), { code: 'unreachable' });
    assert.equal(opened, expected);
  }
  assert.equal((await callOn(toolbox, 'read_file')).error, 'no reply');
  await environments.stop();
});

test('an abort is not kept waiting by an environment that cannot be reached, and nothing is called when it can', async () => {
  const opening = Promise.withResolvers<void>();
  const called: boolean[] = [];
  const agent: EnvironmentAgent = {
    state: 'open',
    tools: {
      list: async () => [],
      async call(_name, _input, { signal }) {
        called.push(signal?.aborted === true);
        return { data: {} };
      },
    },
    close: async () => {},
  };
  const environments = new Environments({
    open: () => opening.promise.then(() => ({ connect: async () => agent, stop: async () => {} })),
  });
  const controller = new AbortController();
  const running = callOn(environments.for('s', { cwd: '/x', principal: local }), 'any', {}, controller.signal);
  controller.abort(fail('interrupted', 'interrupted by the user'));
  assert.equal((await running).error, 'stopped: interrupted by the user');
  opening.resolve();
  await environments.stop();
  assert.ok(!called.includes(false), 'a call made after the abort carries the aborted signal');
});

test('a list whose session is lost is asked for once more', async () => {
  let lists = 0;
  const agent: EnvironmentAgent = {
    state: 'open',
    tools: {
      async list() {
        lists += 1;
        if (lists === 1) throw fail('connection_lost', 'gone');
        return [
          {
            name: 'x',
            description: 'y',
            input_parameters: [{ name: 'a', type: 'string', description: 'b', required: true }],
          },
        ];
      },
      call: () => Promise.reject(fail('unknown_tool', 'no')),
    },
    close: async () => {},
  };
  const environments = new Environments({ open: async () => ({ connect: async () => agent, stop: async () => {} }) });
  const [offer] = await environments.for('s', { cwd: '/x', principal: local }).list();
  assert.deepEqual(offer, {
    name: 'x',
    description: 'y',
    inputSchema: { type: 'object', properties: { a: { type: 'string', description: 'b' } }, required: ['a'] },
    risks: [],
  });
  await environments.stop();
});

test('a stopped server opens nothing any more', async (t) => {
  const { environments, hosts } = hostEnvironments(t);
  const toolbox = environments.for('s', { cwd: await folder(t), principal: local });
  await toolbox.list();
  await environments.stop();
  await assert.rejects(async () => toolbox.list(), { code: 'interrupted' });
  assert.equal([...hosts[0]!.host.sessions].length, 0);
});

test('files written by a tool are on the disk of the place', async (t) => {
  const { environments } = hostEnvironments(t);
  const cwd = await folder(t);
  await callOn(environments.for('s', { cwd, principal: local }), 'write_file', { path: 'x.txt', content: 'hello' });
  assert.equal(await readFile(join(cwd, 'x.txt'), 'utf8'), 'hello');
});

test('tools.list answers the tools of the server’s directory with the rights of the caller', async (t) => {
  const { environments } = hostEnvironments(t);
  const handler = toolsListHandler(environments, await folder(t));
  const call = (principal: object) => ({ caller: { principal } }) as unknown as RpcCall;
  const listed = async (principal: object) =>
    (await handler.handle({}, call(principal))) as { tools: { name: string; input_schema: Record<string, unknown> }[] };
  const { tools } = await listed(local);
  for (const { input_schema } of tools) {
    assert.equal(input_schema.type, 'object');
    assert.equal(typeof input_schema.properties, 'object');
  }
  const names = tools.map(({ name }) => name);
  assert.deepEqual(names, [...names].sort());
  const few = await listed({ name: 'guest', capabilities: ['tools'], tools: { allow: ['read_file'] } });
  assert.deepEqual(
    few.tools.map(({ name }) => name),
    ['read_file'],
  );
});
