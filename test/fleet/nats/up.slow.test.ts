/**
 * A fleet on NATS as its users type it: two machines with the same file, of which one stands by, and a worker on a third; each
 * command a separate process.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { type Json, User } from '../../cli/command.ts';
import { NatsServer, natsTest } from './server.ts';

const ENV = { NATS_PASSWORD: 'open-sesame' };
const ACCESS = 'user: fleet, password_env: NATS_PASSWORD';

function machine(context: TestContext): User {
  const user = new User();
  context.after(() => user.leave());
  return user;
}

const fleetFile = (user: User, server: NatsServer): string =>
  user.write(
    'fleet.yaml',
    `name: main\nbus: ${server.url}\nnats: { ${ACCESS}, store_tasks: true }\nlisten: http://127.0.0.1:0\nlease_ttl_s: 2\n`,
  );

natsTest(
  'a second machine is the standby, and continues the tasks of the first when that is killed',
  async (context, installed) => {
    const config = 'authorization { users = [ { user: fleet, password: "open-sesame" } ] }';
    const server = await NatsServer.start(context, installed, { config });
    const [one, two, three] = [machine(context), machine(context), machine(context)];
    const file = one.write(
      'worker.yaml',
      `id: guest\nexecutor: rehearsal\nrepo: .\noverhead_tokens: 0\nnats: { ${ACCESS} }\n`,
    );
    const provisioned = await one.run(['worker', file, '--join', server.url, '--provision'], { env: ENV });
    assert.deepEqual([provisioned.code, provisioned.stderr], [0, '']);
    const first = one.start(['fleet', 'up', fleetFile(one, server), '--json'], { env: ENV });
    await first.says('"ready":true');
    const worker = one.start(['worker', file, '--join', server.url, '--json'], { env: ENV });
    await worker.says('"ready":true');
    const standby = two.start(['fleet', 'up', fleetFile(two, server), '--json'], { env: ENV });
    const another = three.start(['fleet', 'up', fleetFile(three, server), '--json'], { env: ENV });
    await Promise.all([standby, another].map((command) => command.says('running as standby', 'stderr')));
    another.child.kill('SIGTERM');
    assert.equal((await another.ended()).code, 0);
    const submit = (text: string, id: string) => one.json(['task', 'submit', text, '--access', 'read', '--id', id]);
    await submit('say "hi"', 'short');
    assert.equal((await one.run(['task', 'result', 'short'])).code, 0);
    await submit('wait 12 s', 'long');
    const started = async (): Promise<boolean> =>
      (await one.json(['task', 'show', 'long'])).state === 'running' || Promise.reject(new Error('it does not run'));
    for (let look = 0; !(await started().catch(() => false)); look += 1) assert.ok(look < 60, 'the long task runs');
    assert.equal(standby.stdout, '');
    first.child.kill('SIGKILL');
    await first.ended();
    await standby.says('"ready":true');
    assert.equal((await two.run(['task', 'result', 'long'])).code, 0);
    const tasks = await two.json(['task', 'ls']);
    assert.deepEqual(
      tasks.map(({ task_id, state, attempt }: { task_id: string; state: string; attempt: number }) => [
        task_id,
        state,
        attempt,
      ]),
      [
        ['long', 'done', 1],
        ['short', 'done', 1],
      ],
    );
    for (const command of [standby, worker]) {
      command.child.kill('SIGTERM');
      assert.equal((await command.ended()).code, 0);
    }
  },
);

natsTest(
  'while the server is stopped, the workers on it are unknown; when it is back, they are ready',
  async (context, installed) => {
    const server = await NatsServer.start(context, installed);
    const user = machine(context);
    const file = user.write(
      'fleet.yaml',
      `name: main\nbus: ${server.url}\nworkers:\n  - { id: w, executor: rehearsal, repo: . }\n`,
    );
    const up = user.start(['fleet', 'up', file, '--json']);
    await up.says('"ready":true');
    const workers = async (): Promise<Json> => JSON.parse((await user.run(['fleet', 'workers', '--json'])).stdout)[0];
    const until = async (status: string): Promise<Json> => {
      for (let look = 0; ; look += 1) {
        const worker = await workers();
        if (worker.status === status) return worker;
        assert.ok(look < 60, `${worker.status} instead of ${status}`);
        await setTimeout(250);
      }
    };
    assert.equal((await until('ready')).unknown_since, null);
    const before = Date.now();
    await server.kill('SIGTERM');
    const lost = await until('unknown');
    assert.ok(lost.unknown_since >= before && lost.unknown_since <= Date.now());
    const { stdout, stderr } = await user.run(['fleet', 'workers']);
    const clock = `${new Date(lost.unknown_since).toISOString().slice(11, 19)}Z`;
    assert.match(stderr, new RegExp(`^NATS at ${server.url} does not respond \\(since ${clock}, \\d+ s\\):`));
    assert.match(stdout, /^w +unknown /m);
    await server.up();
    assert.equal((await until('ready')).unknown_since, null);
    assert.equal((await user.run(['fleet', 'workers'])).stderr, '');
  },
);

natsTest(
  'what is wrong with the way in is said in one line, without the secret',
  async (context, installed) => {
    const config = 'authorization { users = [ { user: fleet, password: "open-sesame" } ] }';
    const server = await NatsServer.start(context, installed, { config });
    const user = machine(context);
    const wrong = await user.run(['fleet', 'up', fleetFile(user, server)], { env: { NATS_PASSWORD: 'open-barley' } });
    assert.equal(wrong.code, 3);
    assert.match(wrong.stderr, /check the password of user fleet in the environment variable NATS_PASSWORD/);
    assert.ok(!wrong.stderr.includes('open-barley'));
    const join = server.url.replace('nats://', 'nats://fleet:open-sesame@');
    const told = await user.run(['worker', '--id', 'w', '--executor', 'rehearsal', '--join', join]);
    assert.equal(told.code, 2);
    assert.match(told.stderr, /without user and password/);
    assert.ok(!told.stderr.includes('open-sesame'));
  },
  { only: 'newest' },
);
