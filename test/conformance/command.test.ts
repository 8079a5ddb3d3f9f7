/**
 * The command: its reports, its selection of cases, and its exit codes.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Outcome } from '../../src/conformance/case.ts';
import { LinePeer, Transcript } from '../../src/conformance/line-peer.ts';
import { junitText, tapLines } from '../../src/conformance/report.ts';
import type { Host } from '../../src/host/host.ts';
import type { Listener } from '../../src/transport/link.ts';
import { listenTcp, parseTcpAddress } from '../../src/transport/socket.ts';
import { User } from '../cli/command.ts';
import { faultyRelay } from './support/faulty-relay.ts';
import { fullHost, TOKEN } from './support/full-host.ts';

const user = new User();
let host: Host;
let listener: Listener;

before(async () => {
  host = await fullHost();
  listener = await listenTcp({ port: 0 }, (link) => host.accept(link));
  user.write('token', `${TOKEN}\n`);
  user.write('wrong', `${TOKEN}x\n`);
});
after(async () => {
  await listener?.close();
  await host?.close(0);
  user.leave();
});

const words = (...more: string[]): string[] => ['conformance', 'a2e', ...more];

test('every case has an id of its own', async () => {
  for (const protocol of ['a2e', 'session-rpc', 'fleet']) {
    const { stdout } = await user.run(['conformance', protocol, '--list', '--json']);
    const ids = (JSON.parse(stdout) as { id: string }[]).map(({ id }) => id);
    assert.ok(ids.length > 50, `${protocol}: ${ids.length}`);
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ids) assert.match(id, /^(?:A2E|RPC|FLT)-[A-Z]{2}-\d{3}$/);
  }
});

test('a target without a fault: TAP, JUnit, exit code 0', async () => {
  const flags = ['--token-file', 'token', '--filter', 'A2E-HS-00*', '--filter', 'A2E-ST-001', '--junit', 'report.xml'];
  const { code, stdout, stderr } = await user.run(words('--target', listener.address, ...flags));
  assert.equal(code, 0, stderr);
  const lines = stdout.trimEnd().split('\n');
  assert.equal(lines[0], 'TAP version 14');
  assert.ok(lines.includes('1..10'), stdout);
  assert.equal(lines.filter((line) => line.startsWith('ok ')).length, 10);
  assert.match(stdout, /^ok 10 - A2E-ST-001 MUST .* # SKIP only over stdio$/m);
  assert.equal(lines.at(-1), '# 9 passed, 0 failed, 1 skipped');
  const junit = readFileSync(join(user.cwd, 'report.xml'), 'utf8');
  assert.match(junit, /<testsuites [^>]*tests="10" failures="0" skipped="1"/);
});

test('a target with a fault: what was expected, what came, what crossed without the token, exit code 1', async (t) => {
  const fault = { name: 'ms', caught: [], outgoing: (m: { ts: number }) => ({ ...m, ts: m.ts * 1000 }) };
  const address = await faultyRelay(t, parseTcpAddress(listener.address).port, fault);
  const flags = ['--target', address, '--token-file', 'token', '--filter', 'A2E-HS-004'];
  const { code, stdout } = await user.run(words(...flags));
  assert.equal(code, 1);
  assert.match(stdout, /^not ok 1 - A2E-HS-004 SHOULD ts is in seconds since 1970\n {2}---\n {2}section: /m);
  assert.match(stdout, /\n {2}expected: "ts between 1e9 and 1e11"\n {2}got: /);
  assert.match(stdout, /\n {4}- sent: .*<token>.*\n {4}- received: .*handshake\/resp/);
  assert.ok(!stdout.includes(TOKEN));
  assert.equal((await user.run(words(...flags, '--level', 'must'))).code, 2, 'no MUST case fits');
});

test('a target that is not there, refuses the token or is not named', async () => {
  assert.equal((await user.run(words('--target', 'tcp://127.0.0.1:1'))).code, 4);
  const refused = await user.run(words('--target', listener.address, '--token-file', 'wrong'));
  assert.match(refused.stderr, /\[auth_failed\]/);
  assert.equal((await user.run(words())).code, 2);
  assert.equal((await user.run(words('--target', 'gopher://127.0.0.1'))).code, 2);
});

test('anything that accepts connections is no orchestrator, and what it sends is taken within bounds', async (t) => {
  const pong = '{"type":"pong"}\n'.repeat(5_000);
  const behaviours: Readonly<Record<string, (socket: Socket) => void>> = {
    silent: (socket) => socket.resume(),
    endless: (socket) => {
      socket.resume();
      const write = (): void => {
        while (!socket.destroyed && socket.write(pong));
      };
      socket.on('drain', write);
      write();
    },
    echo: (socket) => socket.pipe(socket),
  };
  for (const [name, behaviour] of Object.entries(behaviours)) {
    const server = createTcpServer((socket) => behaviour(socket.on('error', () => {})));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const address = `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { code, stdout, stderr } = await user.run(['conformance', 'fleet', '--target', address, '--timeout', '0.5']);
    assert.deepEqual([name, code, stdout], [name, 7, ''], stderr);
    assert.match(stderr, /expected SESSION_ACCEPT/);
    // The connection that is over the bound is dropped; a peer holds no more of it.
    const transcript = new Transcript('');
    const peer = await LinePeer.open({ address, patienceMs: 20_000, transcript });
    if (name === 'endless') {
      assert.ok(await peer.ended());
      assert.ok(peer.lines.length < 200_000);
    }
    await peer.close();
  }
});

test('reports hold any text', () => {
  const failed: Outcome = {
    id: 'A2E-XX-001',
    level: 'MUST',
    section: 's',
    title: 'a # in\na title',
    status: 'failed',
    reason: '<&"\u0000\n',
    transcript: [{ direction: 'sent', text: '{"a":"\u2028"}' }],
    duration_ms: 12,
  };
  assert.match(tapLines(failed, 3), /^not ok 3 - A2E-XX-001 MUST a \\# in a title\n {2}---\n(?:.|\n)*\n {2}\.\.\.\n$/);
  const junit = junitText([failed], { protocol: 'a2e', target: 'x', version: '1' });
  assert.match(junit, /message="&lt;&amp;&quot;\n"/);
  assert.match(junit, /time="0\.012"/);
});

/** Writes as long as it is read. */
function endlessly(response: ServerResponse, piece: string): void {
  const write = (): void => {
    while (!response.destroyed && response.write(piece));
  };
  response.on('drain', write).on('error', () => {});
  write();
}

test('targets over HTTP whose answers never end, or never get a line break', { timeout: 240_000 }, async (t) => {
  const endless = async (isAnswer: (path: string) => boolean): Promise<string> => {
    const server = createServer((request, response) => {
      const path = request.url ?? '';
      request.resume();
      if (isAnswer(path)) return endlessly(response, 'x'.repeat(65_536));
      if (path !== '/stream') return response.end('{"session_id":"one"}');
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      return endlessly(response, `data: ${'y'.repeat(65_536)}`);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };
  const flags = ['--timeout', '1', '--filter', 'A2E-HT-0*', '--target'];
  const bodies = await user.run(words(...flags, await endless(() => true)));
  assert.equal(bodies.code, 4, bodies.stderr);
  assert.match(bodies.stderr, /POST \/session answered 200: xxx/);
  const streams = await user.run(words(...flags, await endless((path) => path === '/send')));
  assert.equal(streams.code, 7, streams.stderr);
  assert.match(streams.stderr, /handshake\/req/);
});
