/** A killed host: its subagents' programs end, the next host has their finished results, running tasks were interrupted. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { connect } from '../../../src/connect.ts';
import { statOf } from '../../support/system-processes.ts';

const pathOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

test('programs end with a killed host, and the next host has what they had done', { timeout: 180_000 }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'subagents-kill-'));
  const hosts: ChildProcess[] = [];
  t.after(async () => {
    for (const host of hosts) {
      if (host.exitCode !== null || host.signalCode !== null) continue;
      host.kill('SIGKILL');
      await once(host, 'exit');
    }
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  const socket = join(folder, 'socket');
  const command = [process.execPath, '-C', 'handfast-source', pathOf('child-agent.ts')];
  const config = {
    listen: [`unix://${socket}`],
    plugins: [
      { use: 'tools' },
      {
        use: 'multi_agent',
        options: { kinds: [{ name: 'child', command, cwd: pathOf('../../../'), env: { SECRET_OF_HOST: 'given' } }] },
      },
    ],
  };
  const file = join(folder, 'handfast.yaml');
  writeFileSync(file, JSON.stringify(config));

  const start = async () => {
    const script = pathOf('../../support/serve-process.ts');
    const host = spawn(process.execPath, ['-C', 'handfast-source', script, file], {
      cwd: folder,
      env: { ...process.env, HANDFAST_HOME: join(folder, 'home') },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    hosts.push(host);
    const [{ tokenFile }] = (await once(host, 'message')) as [{ tokenFile: string }];
    const token = readFileSync(tokenFile, 'utf8').trim();
    return { host, open: () => connect(`unix://${socket}`, { capabilities: ['multi_agent'], agentId: 'lead', token }) };
  };

  const before = await start();
  const agent = await before.open();
  const done = await agent.multi_agent.spawn('done');
  const hanging = await agent.multi_agent.spawn('hanging');
  const pids = await Promise.all([done, hanging].map(async (one) => Number((await one.run('work')).result?.pid)));
  for (const pid of pids) assert.ok(statOf(pid) !== undefined);
  await hanging.delegate('hang');
  before.host.kill('SIGKILL');
  await once(before.host, 'exit');
  const end = Date.now() + 30_000;
  while (pids.some((pid) => statOf(pid) !== undefined && statOf(pid)?.state !== 'Z')) {
    assert.ok(Date.now() < end, 'a program outlived its host');
    await sleep(50);
  }
  await agent.close();

  const after = await start();
  await using next = await after.open();
  const listed = await next.multi_agent.list();
  assert.deepEqual(
    listed.map(({ name, status, open }) => [name, status, open]),
    [
      ['done', 'TERMINATED', false],
      ['hanging', 'FAILED', false],
    ],
  );
  assert.equal((await next.multi_agent.subagent(done.id).result()).result?.pid, pids[0]);
  const lost = await next.multi_agent.subagent(hanging.id).result();
  assert.deepEqual([lost.status, lost.code], ['FAILED', 'multi_agent.interrupted']);
  const another = await next.multi_agent.spawn('another');
  const worked = await another.run('work');
  assert.deepEqual([worked.status, worked.result?.secret], ['COMPLETED', 'given']);
});
