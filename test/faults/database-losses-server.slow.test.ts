/**
 * F-120 over a whole server: the state of its plugins, or a memory, lost its newest writes after a kill. The server starts, and reports
 * the loss in its log, in `GET /health`, in `GET /status` and in `handfast doctor`, until the loss is acknowledged.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect as connectControl } from '../../src/control-client/connect.ts';
import { connect } from '../../src/index.ts';
import { type Json, User } from '../cli/command.ts';
import { ownPort } from '../support/own-port.ts';

const ENV = { HANDFAST_KEYRING: 'off' };

const damages: Record<string, (file: string) => void> = {
  'a log cut to half': (file) => truncateSync(`${file}-wal`, Math.floor(statSync(`${file}-wal`).size / 2)),
  'its files deleted': (file) => {
    for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true });
  },
};

for (const [damage, doIt] of Object.entries(damages)) {
  test(`F-120: a server whose plans and memories have ${damage} says so until it is acknowledged`, async (t) => {
    const user = new User();
    t.after(() => user.leave());
    const config = user.write('handfast.yaml', 'plugins: [planning, memory]\n');
    const place = ['--config', config, '--port', String(await ownPort())];
    const agentAt = async ({ url, token_file }: { url: string; token_file: string }) => {
      const token = readFileSync(token_file, 'utf8').trim();
      return { token, agent: await connect(url, { capabilities: ['planning', 'memory'], agentId: 'ana', token }) };
    };
    const before = await user.up(place, { env: ENV });
    const first = await agentAt(before.ready as never);
    const { plan_id } = await first.agent.planning.createPlan('p');
    const memory = await first.agent.memory.open({ namespace: 'n' });
    for (let number = 0; number < 30; number += 1) {
      await first.agent.planning.add(plan_id, `t${number}`);
      await memory.store({ key: `k${number}`, content: 'v' });
    }
    before.command.child.kill('SIGKILL');
    await before.command.ended();
    await first.agent.close();
    const host = join(user.home, 'hosts', 'handfast');
    const memories = join(host, 'data', 'memory');
    const name = readdirSync(memories).find((each) => /^[0-9a-f]{32}\.db$/.test(each)) as string;
    const files = [join(host, 'state.db'), join(memories, name)];
    for (const file of files) doIt(file);

    const again = await user.up(place, { env: ENV });
    // Before a request has asked for them.
    await again.command.says('the newest writes of the store of the plugins are lost', 'stderr');
    const later = await agentAt(again.ready as never);
    const told = ({ losses = [] }: { losses?: unknown }) => (losses as Json[]).map(({ message }) => message);
    const LOST_STATE = 'the newest writes of the store of the plugins are lost';
    assert.deepEqual(told(later.agent.capabilities.get('planning')?.metadata ?? {}), [LOST_STATE]);
    const control = await connectControl(again.ready.url as string, { token: later.token });
    assert.deepEqual(told(control.server), [LOST_STATE]);
    const found = Promise.withResolvers<unknown>();
    void (async () => {
      for await (const event of control.events())
        if (event.type === 'state.changed' && event.payload.reason === 'data_lost')
          found.resolve(event.payload.snapshot);
    })().catch(found.reject);
    await later.agent.planning.plans();
    await (await later.agent.memory.open({ namespace: 'n' })).get('k29');
    await again.command.says('the newest writes of the store of the plugins are lost', 'stderr');
    await again.command.says('the newest writes of the memory are lost', 'stderr');
    assert.match(again.command.stderr, /journal_damaged/);
    const health = (await (await fetch(`${again.ready.url}/health`)).json()) as Json;
    assert.equal(health.status, 'ok');
    assert.deepEqual(
      health.losses.map(({ code, message, acknowledged }: Json) => [code, message, acknowledged]).sort(),
      [
        ['journal_damaged', 'the newest writes of the memory are lost', true],
        ['journal_damaged', 'the newest writes of the store of the plugins are lost', true],
      ],
    );
    const headers = { authorization: `Bearer ${later.token}` };
    const status = (await (await fetch(`${again.ready.url}/status`, { headers })).json()) as Json;
    assert.deepEqual(status.losses.map(({ file }: Json) => file).sort(), files.toSorted());
    assert.deepEqual(told((await found.promise) as Json).sort(), [
      'the newest writes of the memory are lost',
      LOST_STATE,
    ]);
    assert.deepEqual(told(await control.rpc.stateGet({})).sort(), [
      'the newest writes of the memory are lost',
      LOST_STATE,
    ]);
    await control.close();
    const listed = await user.run(['memory', 'ls', '--namespace', 'n'], { env: ENV });
    assert.match(listed.stderr, /warning: the newest writes of the memory are lost; see handfast doctor/);
    const doctor = JSON.parse((await user.run(['doctor', '--json'], { env: ENV })).stdout) as Json;
    const checks = (doctor.checks ?? doctor).filter((check: Json) => check.name === 'losses');
    assert.equal(checks.length, 2);
    for (const { status, fix } of checks) {
      assert.equal(status, 'warn');
      rmSync(/rm (\S+)$/.exec(fix)?.[1] as string);
    }
    assert.deepEqual(await (await fetch(`${again.ready.url}/health`)).json(), { status: 'ok' });
    await later.agent.close();
  });
}
