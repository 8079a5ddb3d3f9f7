/** Gymnasium code with environments of this host while the link is cut in the middle of steps, and while the host is killed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { Command, User } from '../../cli/command.ts';
import { gymPython, skip } from './gym-python.ts';

const SCRIPT = join(import.meta.dirname, 'python_links.py');

/** Returns ports that are free now: a restarted host must have the same ones. */
async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      return server;
    }),
  );
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** Returns a host that can be killed and restarted, and the Python that plays at it. */
async function hostFor(t: TestContext, durability: 'none' | 'step') {
  const user = new User();
  t.after(() => user.leave());
  const [http, tcp] = (await freePorts(2)) as [number, number];
  // A proxy has another port, which the Host header names.
  const config = user.write(
    'handfast.yaml',
    `listen: ["http://127.0.0.1:${http}", "tcp://127.0.0.1:${tcp}"]
http: { allowed_hosts: ["127.0.0.1"] }
plugins: [{ use: env${durability === 'none' ? '' : `, options: { durability: ${durability} }`} }]
`,
  );
  const up = async (): Promise<Command> => {
    const command = user.start(['up', '--config', config, '--json']);
    await command.says('\n');
    return command;
  };
  const command = await up();
  const { token_file } = JSON.parse(command.stdout) as { token_file: string };
  const token = readFileSync(token_file, 'utf8').trim();
  const addresses = { http: `http://127.0.0.1:${http}`, tcp: `tcp://127.0.0.1:${tcp}` };
  const python = (mode: string, kind: 'http' | 'tcp'): Command => {
    const child = spawn(gymPython(), [SCRIPT, mode, addresses[kind], token], { cwd: user.cwd });
    t.after(() => child.kill('SIGKILL'));
    return new Command(child);
  };
  return { command, up, python };
}

const facts = (text: string): Record<string, unknown>[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

describe('gymnasium', { skip }, () => {
  for (const kind of ['tcp', 'http'] as const) {
    test(`plays on over ${kind} when its connection is cut before and behind steps, none of which runs twice`, async (t) => {
      const { python } = await hostFor(t, 'none');
      const { stdout, stderr } = await python('cut', kind).ended();
      assert.equal(stderr, '');
      assert.deepEqual(facts(stdout), [{ equal: true, cuts: 6, steps: 30 }]);
    });

    test(`gets an error with words over ${kind} when its host is killed, in bounded time`, async (t) => {
      const { command, python } = await hostFor(t, 'none');
      const player = python('play', kind);
      await player.says('ready');
      command.child.kill('SIGKILL');
      const { stdout, stderr, code } = await player.ended();
      assert.deepEqual([stderr, code], ['', 0]);
      const [, { message, ...failed } = {}, ...rest] = facts(stdout);
      assert.deepEqual(failed, { code: 'unreachable', gymnasium: true });
      assert.match(
        String(message),
        /^unreachable: the link to \S+ was lost \(.+\), and did not come back within 1 s: /,
      );
      assert.deepEqual(rest, [{ code: 'unreachable', bounded: true }, { closed: true }]);
    });

    test(`plays on over ${kind} behind kill -9 of a host with durable steps`, async (t) => {
      const { command, python, up } = await hostFor(t, 'step');
      const player = python('restart', kind);
      await player.says('at');
      command.child.kill('SIGKILL');
      await command.ended();
      await up();
      const { stdout, stderr } = await player.ended();
      assert.equal(stderr, '');
      assert.deepEqual(facts(stdout).slice(1), [{ equal: true, steps: 40 }]);
    });
  }
});
