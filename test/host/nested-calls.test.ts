import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { toolCall, toolList } from '../../src/capabilities/tools/messages.ts';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { connect } from '../../src/connect.ts';
import type { AuditRecord } from '../../src/host/audit/audit.ts';
import type { CallContext } from '../../src/host/context.ts';
import { createHost, type Host, type HostOptions } from '../../src/host/host.ts';
import { definePlugin, handle, type Plugin } from '../../src/host/plugin.ts';
import { method } from '../../src/protocol/method.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import type { Principal } from '../../src/session/principal.ts';

const hosts: Host[] = [];
after(() => Promise.all(hosts.map((one) => one.close(0))));

interface Run {
  readonly depth: number;
  readonly tool?: string;
  readonly timeout?: number;
}
const isRun = Object.assign((value: unknown): boolean => typeof (value as { depth?: unknown }).depth === 'number', {
  errors: [{ instancePath: '/depth', keyword: 'type', params: {}, message: 'must be number' }],
});
/** A chain of `depth` calls of itself, the last of which calls a tool. */
const chainRun = method<Run, { done: unknown; depth: number }>({
  request: 'chain/req',
  reply: 'chain/resp',
  event: 'chain/event',
  capability: 'chains',
  checkRequest: isRun,
  limitMs: ({ timeout }: Run) => timeout,
});

const chains = (run?: (request: Run, context: CallContext) => Promise<{ done: unknown; depth: number }>): Plugin =>
  definePlugin({
    name: 'chains',
    type: 'chains',
    methods: [
      handle(
        chainRun,
        run ??
          (async ({ depth, tool = 'echo' }, context) => {
            if (depth > 0) return context.call(chainRun, { depth: depth - 1, tool });
            const { data } = await context.call(toolCall, { tool_name: tool, arguments: { a: 1 } });
            return { done: data.data, depth: context.depth };
          }),
      ),
    ],
  });

const echo = tool({ name: 'echo', description: 'Says it again', run: (args) => args });
const secret = tool({ name: 'secret', description: 'Not for all', run: () => ({}) });
const slow = tool({
  name: 'slow',
  description: 'Waits until it is aborted',
  run: (_, { signal }) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true })),
});

async function start(options: Partial<HostOptions> = {}, principals: readonly Principal[] = []) {
  const records: AuditRecord[] = [];
  const host = createHost({
    plugins: [toolsPlugin({ tools: [echo, secret, slow] }), chains()],
    audit: { record: (record) => records.push(record) },
    auth: createAuthenticator(principals.map((principal) => ({ principal, digests: [tokenDigest(principal.name)] }))),
    limits: { maxParallel: 2 },
    ...options,
  });
  await host.start();
  hosts.push(host);
  const open = (token = '') => connect(host, { capabilities: ['chains'], token });
  const run = async (body: Run, token?: string) =>
    (await open(token)).calls.call(chainRun, body, { timeoutMs: 10_000 });
  return { host, records, run, open };
}

test('calls between capabilities use no place of the session, however deep they are', async () => {
  const { run, records } = await start();
  const { done, depth } = await run({ depth: 20 });
  assert.deepEqual({ done, depth }, { done: { a: 1 }, depth: 20 });
  const nested = records.filter(({ via }) => via !== undefined);
  assert.equal(nested.length, 21);
  assert.deepEqual(
    nested.slice(0, 2).map(({ type, via, tool, outcome }) => ({ type, via, tool, outcome })),
    [
      { type: 'tool/call/req', via: 'chain/req', tool: 'echo', outcome: 'ok' },
      { type: 'chain/req', via: 'chain/req', tool: undefined, outcome: 'ok' },
    ],
  );
});

test('calls that go too deep fail, and the failure reaches the agent', async () => {
  const { run } = await start();
  await assert.rejects(run({ depth: 40 }), {
    code: 'call_depth_exceeded',
    detail: { reason: 'call_depth_exceeded', limit: 32 },
  });
});

test('the rights of the principal hold for what its capabilities call', async () => {
  const { run } = await start({}, [
    { name: 'all', capabilities: ['*'] },
    { name: 'some', capabilities: ['*'], tools: { deny: ['secret'] } },
    { name: 'chains-only', capabilities: ['chain'] },
  ]);
  assert.deepEqual((await run({ depth: 0, tool: 'secret' }, 'all')).done, {});
  await assert.rejects(run({ depth: 1, tool: 'secret' }, 'some'), { code: 'tool_denied' });
  await assert.rejects(run({ depth: 1 }, 'chains-only'), { code: 'capability_missing' });
});

test('a call between capabilities ends when its right is withdrawn while it runs, and others continue', async () => {
  const granted = (grants: Partial<Principal>): Principal => ({ name: 'one', capabilities: ['*'], ...grants });
  const tokens = (principal: Principal) => [{ principal, digests: [tokenDigest(principal.name)] }];
  const other = tokens({ name: 'other', capabilities: ['*'] });
  for (const [grants, code] of [
    [{ tools: { deny: ['slow'] } }, 'tool_denied'],
    [{ capabilities: ['chains'] }, 'capability_missing'],
  ] as const) {
    const auth = createAuthenticator([...tokens(granted({})), ...other]);
    const called = Promise.withResolvers<void>();
    let calls = 0;
    const counted = tool({
      ...slow,
      run: (args, context) => {
        calls += 1;
        if (calls === 2) called.resolve();
        return slow.run(args as never, context);
      },
    });
    const { open } = await start({ auth, plugins: [toolsPlugin({ tools: [counted] }), chains()] });
    const run = async (token: string) =>
      (await open(token)).calls.call(chainRun, { depth: 1, tool: 'slow' }, { timeoutMs: 60_000 });
    const ended = assert.rejects(run('one'), { code });
    let isOver = false;
    void run('other').then(
      () => (isOver = true),
      () => (isOver = true),
    );
    await called.promise;
    auth.replace([...tokens(granted(grants)), ...other]);
    await ended;
    assert.equal(isOver, false);
  }
});

test('deadline, cancel and the end of the session reach the innermost call', async () => {
  const seen: unknown[] = [];
  const { open, host } = await start({
    plugins: [
      toolsPlugin({ tools: [slow] }),
      chains(async (_, context) => {
        const error = await context.call(toolCall, { tool_name: 'slow', arguments: {} }).catch((thrown) => thrown);
        seen.push((error as { code: string }).code);
        throw error;
      }),
    ],
  });
  const agent = await open();
  await assert.rejects(agent.calls.call(chainRun, { depth: 0, timeout: 20 }), { code: 'timeout' });
  const call = agent.calls.call(chainRun, { depth: 0 });
  await new Promise((resolve) => setTimeout(resolve, 10));
  call.cancel();
  await assert.rejects(call, { code: 'cancelled' });
  void agent.calls.call(chainRun, { depth: 0 }).catch(() => {});
  await agent.ping();
  await agent.close();
  for (let tries = 0; seen.length < 3 || host.health().abandoned > 0; tries++) {
    assert.ok(tries < 400, `${seen}, ${host.health().abandoned} abandoned`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.deepEqual(seen.sort(), ['cancelled', 'interrupted', 'timeout']);
});

test('a call has a deadline, a cancel and events of its own', async () => {
  const events: unknown[] = [];
  const ticking = tool({
    name: 'ticking',
    description: 'Reports twice',
    run: async (_, { emit }) => {
      await emit('status', { n: 1 });
      await emit('status', { n: 2 });
      return {};
    },
  });
  const { run } = await start({
    plugins: [
      toolsPlugin({ tools: [ticking, slow] }),
      chains(async (_, context) => {
        await context.call(
          toolCall,
          { tool_name: 'ticking', arguments: {} },
          { onEvent: (event) => void events.push(event) },
        );
        await context.call(toolCall, { tool_name: 'ticking', arguments: {} });
        const stop = new AbortController();
        const cancelled = context.call(toolCall, { tool_name: 'slow', arguments: {} }, { signal: stop.signal });
        stop.abort();
        await assert.rejects(cancelled, { code: 'cancelled' });
        const late = context.call(toolCall, { tool_name: 'slow', arguments: {} }, { timeoutMs: 10 });
        await assert.rejects(late, { code: 'timeout' });
        await assert.rejects(context.call(chainRun, {} as Run), { code: 'schema_violation' });
        await assert.rejects(context.call({ ...chainRun, request: 'memory/init/req' }, { depth: 1 }), {
          code: 'capability_missing',
        });
        await assert.rejects(context.call({ ...chainRun, request: 'x/y/req' }, { depth: 1 }), { code: 'unknown_type' });
        return { done: true, depth: 0 };
      }),
    ],
  });
  assert.equal((await run({ depth: 0 })).done, true);
  assert.deepEqual(events, [
    { kind: 'status', data: { n: 1 }, seq: 0 },
    { kind: 'status', data: { n: 2 }, seq: 1 },
  ]);
});

test('a call that outlives its request runs when that was given up, with the rights of the principal and within its own time', async () => {
  const begun = Promise.withResolvers<void>();
  const seen = Promise.withResolvers<unknown[]>();
  const cleaning = chains(async (_request, context) => {
    const codeOf = (tool_name: string, options: object): Promise<unknown> =>
      context.call(toolCall, { tool_name, arguments: { a: 1 } }, options).then(
        ({ data }) => data.data,
        ({ code }) => code,
      );
    begun.resolve();
    await new Promise<void>((resolve) => context.signal.addEventListener('abort', () => resolve(), { once: true }));
    seen.resolve([
      await codeOf('echo', {}),
      await codeOf('echo', { outlives: true }),
      await codeOf('secret', { outlives: true }),
      await codeOf('slow', { outlives: true, timeoutMs: 20 }),
    ]);
    return { done: true, depth: 0 };
  });
  const ana: Principal = { name: 'ana', capabilities: ['chains', 'tools'], tools: { deny: ['secret'] } };
  const { open } = await start({ plugins: [toolsPlugin({ tools: [echo, secret, slow] }), cleaning] }, [ana]);
  const agent = await open('ana');
  const call = agent.calls.call(chainRun, { depth: 0 });
  call.catch(() => {});
  await begun.promise;
  call.cancel();
  await assert.rejects(call, { code: 'cancelled' });
  assert.deepEqual(await seen.promise, ['cancelled', { a: 1 }, 'tool_denied', 'timeout']);
});

test('plugins that serve one list each have their own state', async () => {
  const counting = (name: string): Plugin =>
    definePlugin({
      name,
      type: 'tools',
      store: {},
      methods: [
        handle(toolList, async (_, context) => {
          const count = await context.store.principal.update<number>('lists', (n = 0) => n + 1);
          return { tools: [{ name: `${name}-${count}`, description: '' }] };
        }),
      ],
    });
  const host = createHost({ plugins: [counting('a'), counting('b')] });
  await host.start();
  hosts.push(host);
  const agent = await connect(host, { capabilities: ['tools'] });
  const other = await connect(host, { capabilities: ['tools'] });
  await agent.tools.list();
  assert.deepEqual(
    (await other.tools.list()).map(({ name }) => name),
    ['a-2', 'b-2'],
  );
});
