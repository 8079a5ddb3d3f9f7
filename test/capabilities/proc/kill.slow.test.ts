/** Lost links, killed agents and killed hosts: a process outlives the first and ends with the others, with all it started. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { AgentSession } from '../../../src/agent/agent.ts';
import { ProcClient } from '../../../src/capabilities/proc/client.ts';
import { connect } from '../../../src/connect.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import type { Link } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { User } from '../../cli/command.ts';
import { isAlive, procHost, until } from './support.ts';

const users: User[] = [];
after(() => Promise.all(users.map((user) => user.leave())));

/** Starts a process that starts others: in its group, out of it, and one that ignores SIGTERM. Prints their ids. */
const FAMILY = `sleep 600 & echo $!
setsid sh -c 'echo $$; exec sleep 600' &
sh -c 'trap "" TERM; echo $$; while :; do sleep 1; done' &
echo $$; wait`;

async function hostOf(
  limits = '',
): Promise<{ user: User; token: string; url: string; kill: (signal: NodeJS.Signals) => void }> {
  const user = new User();
  users.push(user);
  const config = user.write(
    'proc.yaml',
    `listen: http://127.0.0.1:0\nplugins: [{ use: proc, options: { programs: [sh, sleep, setsid] } }]\n${limits}`,
  );
  const { command, ready } = await user.up(['--config', config]);
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  return { user, token, url: ready.url, kill: (signal) => command.child.kill(signal) };
}

async function familyOf(agent: Pick<AgentSession, 'calls'>): Promise<number[]> {
  const child = await new ProcClient(agent as AgentSession).spawn(['sh', '-c', FAMILY]);
  const pids: number[] = [];
  for await (const { text } of child.output()) {
    pids.push(Number(text));
    if (pids.length === 4) break;
  }
  assert.ok(pids.every(isAlive));
  return pids;
}

for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
  test(`a host that ends by ${signal} leaves no process`, { timeout: 120_000 }, async () => {
    const { token, url, kill } = await hostOf();
    const agent = await connect(url, { capabilities: ['proc'], token, resume: false });
    const pids = await familyOf(agent);
    kill(signal);
    await until(() => !pids.some(isAlive), 'the end of all processes');
    await agent.close();
  });
}

test('an agent that is killed loses its session, and its processes end', { timeout: 120_000 }, async () => {
  const { user } = await hostOf('limits: { resume_window_ms: 500 }\n');
  const running = user.start(['proc', 'run', '--', 'sh', '-c', FAMILY]);
  const pidsOf = () => running.stdout.trim().split('\n').map(Number);
  await until(() => pidsOf().length === 4, 'four processes');
  const pids = pidsOf();
  running.child.kill('SIGKILL');
  await until(() => !pids.some(isAlive), 'the end of all processes');
});

test('a link that is lost again and again costs neither output nor input', { timeout: 120_000 }, async (t) => {
  const { host } = await procHost(t, { journal: memoryJournal() });
  let link: Link | undefined;
  const agent = await AgentSession.open(
    async () => {
      const [ours, theirs] = memoryPair();
      host.accept(theirs);
      link = ours;
      return ours;
    },
    ['proc'],
    { reconnect: { backoff: { firstDelayMs: 1, maxDelayMs: 5 } } },
  );
  t.after(() => agent.close());
  const proc = new ProcClient(agent);
  const flood = await proc.spawn(['sh', '-c', 'i=0; while [ $i -lt 50000 ]; do echo $i; i=$((i+1)); done']);
  const echo = await proc.spawn(['cat']);
  const cutting = setInterval(() => link?.destroy('cut by the test'), 5);
  t.after(() => clearInterval(cutting));
  const typing = (async () => {
    for (let at = 0; at < 100; at++) await echo.write(`${at}\n`);
    await echo.eof();
  })();
  let next = 0;
  for await (const { text, missed } of flood.output()) {
    assert.deepEqual([text, missed], [`${next++}\n`, undefined]);
  }
  assert.equal(next, 50_000);
  await typing;
  const echoed: string[] = [];
  for await (const { text } of echo.output()) echoed.push(text);
  assert.deepEqual(
    echoed,
    Array.from({ length: 100 }, (_, at) => `${at}\n`),
  );
});
