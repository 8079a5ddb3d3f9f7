/**
 * A call made while the host is away, on every transport: it waits while a lost link is dialled again, then fails with
 * one code and one text, and reports that repeating it is safe. A call that the host may have received reports the
 * opposite.
 *
 * Hosts are processes that are killed; the one in this process has its link dropped.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { type Agent, type ConnectOptions, connect } from '../../src/connect.ts';
import { createHost } from '../../src/host/host.ts';
import type { Link } from '../../src/transport/link.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { allTransports, type TransportName } from '../support/sites.ts';
import { within } from './recorder.ts';

const SCRIPT = fileURLToPath(new URL('../support/mortal-host.ts', import.meta.url));

/** The error for every caller whose call no link could carry. */
const NOT_SENT = 'the host is not connected and the call was not sent; connect again, then repeat it';

/** A connected agent and the function that removes its host. */
interface Pair {
  readonly agent: Agent<'tools'>;
  remove(): Promise<unknown>;
}

async function pairOver(t: TestContext, name: TransportName, options: ConnectOptions<'tools'>): Promise<Pair> {
  const dial = async (target: Parameters<typeof connect>[0]): Promise<Agent<'tools'>> => {
    const agent = await connect(target, { ...options, capabilities: ['tools'] });
    t.after(() => agent.close());
    return agent;
  };
  if (name === 'memory') {
    const wait = tool({ name: 'wait', description: 'Never replies', run: () => new Promise<never>(() => {}) });
    const host = createHost({ plugins: [toolsPlugin({ tools: [wait] })] });
    await host.start();
    t.after(() => host.close(0));
    let link: Link | undefined;
    const agent = await dial({
      accept(accepted) {
        link = accepted;
        host.accept(accepted);
      },
    });
    return { agent, remove: async () => link?.destroy() };
  }
  if (name === 'stdio') {
    const agent = await dial(`stdio:"${process.execPath}" -C handfast-source "${SCRIPT}" stdio`);
    const { data } = await agent.tools.call('pid');
    return { agent, remove: async () => process.kill((data as { value: number }).value, 'SIGKILL') };
  }
  const child = spawn(
    process.execPath,
    [...process.execArgv.filter((word) => !word.startsWith('--test')), SCRIPT, name],
    {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    },
  );
  const exit = once(child, 'exit');
  const remove = (): Promise<unknown> => {
    child.kill('SIGKILL');
    return exit;
  };
  t.after(remove);
  const [address] = (await once(child, 'message')) as [string];
  if (name === 'unix')
    t.after(() => rmSync(dirname(address.slice('unix://'.length)), { recursive: true, force: true }));
  return { agent: await dial(address), remove };
}

/** Returns the outcome of a call, as far as callers decide by it. */
const outcomeOf = (call: Promise<unknown>) =>
  within(
    call.then(
      () => assert.fail('the call had a reply'),
      ({ code, message, retryable, detail }: HandfastError) => ({
        code,
        message,
        retryable,
        mayHaveRun: detail.may_have_run === true,
      }),
    ),
    'the call to end',
  );

const notSent = { code: 'connection_lost', message: NOT_SENT, retryable: true, mayHaveRun: false };

for (const name of allTransports) {
  describe(`a call while the host is away, over ${name}`, () => {
    test('waits no longer than the link is dialled again, and then says that it was not sent', async (t) => {
      const { agent, remove } = await pairOver(t, name, { reconnect: { maxMs: 300 } });
      const running = outcomeOf(agent.tools.call('wait'));
      // Its request has left by then.
      await agent.ping();
      const lost = Promise.withResolvers<void>();
      const ended = agent.closed.then(() => lost.resolve());
      const seen = setInterval(() => agent.state !== 'open' && lost.resolve(), 5);
      t.after(() => clearInterval(seen));
      await remove();
      await within(lost.promise, 'the loss to be noticed');
      const away = await outcomeOf(agent.tools.call('wait'));
      assert.deepEqual(away, notSent);
      const { code, retryable, mayHaveRun } = await running;
      assert.deepEqual([code, retryable, mayHaveRun], ['connection_lost', false, true], 'the host had this one');
      await within(ended, 'the session to end');
      assert.deepEqual(await outcomeOf(agent.tools.call('wait')), notSent, 'also once the session has ended');
      assert.deepEqual(await outcomeOf(agent.ping().then(() => {})), notSent, 'and so does a ping');
    });
  });
}

for (const name of ['tcp', 'unix', 'websocket', 'http'] as const) {
  test(`over ${name} a call whose own time limit ends first says that it was not sent`, async (t) => {
    const { agent, remove } = await pairOver(t, name, { reconnect: { maxMs: 60_000 } });
    await remove();
    const seen = Promise.withResolvers<void>();
    const timer = setInterval(() => agent.state === 'lost' && seen.resolve(), 5);
    t.after(() => clearInterval(timer));
    await within(seen.promise, 'the loss to be noticed');
    assert.deepEqual(await outcomeOf(agent.tools.call('wait', {}, { timeoutMs: 50 })), {
      code: 'timeout',
      message: 'tool/call/req was not sent within 50 ms: there is no link to the peer',
      retryable: true,
      mayHaveRun: false,
    });
  });
}
