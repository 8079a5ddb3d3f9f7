/** Runs on a full disk: no answer, event, end or stop is acknowledged that is not stored, and the run continues once there is space. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import type { ChainNode } from '../../../src/capability.ts';
import { connect } from '../../../src/connect.ts';
import { asError } from '../../../src/wire/errors.ts';
import { Command, User } from '../../cli/command.ts';

const noLimit = spawnSync('prlimit', ['--fsize=1000000', 'true']).status === 0 ? false : 'prlimit is missing';

const users: User[] = [];
after(() => Promise.all(users.map((user) => user.leave())));

const wait = (wait: ChainNode['wait'], more: Partial<ChainNode> = {}): ChainNode => ({
  node_id: 'q',
  kind: 'wait',
  wait,
  ...more,
});

test('answers, events, ends and pauses that cannot be stored are refused with disk_full; then the runs are as they were', {
  skip: noLimit,
  timeout: 180_000,
}, async (t) => {
  const user = new User();
  users.push(user);
  const config = user.write('full.yaml', 'audit: { enabled: false }\nplugins: [chains]');
  const line = user.line(['up', '--json', '--port', '0', '--config', config]);
  const limited = new Command(spawn(line[0] as string, line.slice(1), { cwd: user.cwd, env: user.environment() }));
  t.after(() => limited.child.kill('SIGKILL'));
  await limited.says('\n');
  /** Sets the size above which files do not grow. */
  const limit = (bytes: string) =>
    spawnSync('prlimit', [`--fsize=${bytes}:unlimited`, '--pid', `${limited.child.pid}`]);
  const { url, token_file } = JSON.parse(limited.stdout) as { url: string; token_file: string };
  const asked = { capabilities: ['chains'], token: readFileSync(token_file, 'utf8').trim() } as const;
  const [runner, other] = await Promise.all([
    connect(url, { ...asked, agentId: 'runner' }),
    connect(url, { ...asked, agentId: 'other' }),
  ]);
  t.after(() => Promise.all([runner.close(), other.close()]));
  const codeOf = (one: PromiseLike<unknown>) =>
    Promise.resolve(one).then(
      () => 'ok',
      (thrown) => asError(thrown).code,
    );

  const chains: Record<string, ChainNode[]> = {
    allowed: [wait({ approval: 'allowed?' })],
    denied: [wait({ approval: 'denied?' })],
    delivered: [wait({ event: 'go' }), { node_id: 'z', kind: 'wait', wait: { approval: 'more?' }, after: ['q'] }],
    paused: [wait({ approval: 'paused?' })],
    cancelled: [wait({ approval: 'cancelled?' })],
    timed: [wait({ event: 'never' }, { timeout_ms: 3_000 })],
  };
  const done: string[] = [];
  const ends: Record<string, Promise<string>> = {};
  for (const [chainId, nodes] of Object.entries(chains)) {
    const waits = Promise.withResolvers<void>();
    const run = runner.chains.run(
      { nodes },
      {},
      {
        chainId,
        onEvent: ({ fields }) => {
          const { phase } = fields as { phase: string };
          if (phase === 'wait') waits.resolve();
          else if (phase !== 'pause') done.push(`${chainId} ${phase}`);
        },
      },
    );
    ends[chainId] = codeOf(run);
    await waits.promise;
  }

  limit('1000');
  assert.deepEqual(
    await Promise.all([
      codeOf(other.chains.approve('allowed', 'q', true)),
      codeOf(other.chains.approve('denied', 'q', false)),
      codeOf(other.chains.deliver('delivered', 'go', 1)),
      codeOf(other.chains.pause('paused')),
      codeOf(other.chains.cancel('cancelled')),
    ]),
    Array(5).fill('disk_full'),
  );
  for (const [chainId, end] of Object.entries(ends)) assert.equal(await end, 'disk_full', chainId);
  assert.deepEqual(done, [], 'no event of an entry that is not stored');
  const states = async (agent: typeof other) =>
    Object.fromEntries((await agent.chains.runs()).map(({ chain_id, state }) => [chain_id, state]));
  const interrupted = Object.fromEntries(Object.keys(chains).map((id) => [id, 'interrupted']));
  assert.deepEqual(await states(other), interrupted);

  limit('unlimited');
  const again = runner.chains.resume('allowed');
  const waits = Promise.withResolvers<void>();
  void (async () => {
    for await (const { fields } of again) if ((fields as { phase: string }).phase === 'wait') waits.resolve();
  })();
  await waits.promise;
  await other.chains.approve('allowed', 'q', true);
  assert.equal((await again).state, 'done');
  const before = await states(other);
  assert.deepEqual(before, { ...interrupted, allowed: 'done' });

  limited.child.kill('SIGKILL');
  await limited.ended();
  const { ready } = await user.up(['--config', config]);
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  const later = await connect(ready.url, { ...asked, token, agentId: 'later' });
  t.after(() => later.close());
  assert.deepEqual(await states(later), before);
});
