/** The token of a user goes to hosts of that user and to no other listener, on every kind of address and with every command. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { listenersAt, listenersIn, processOf } from '../../src/base/tcp-listeners.ts';
import { foreignSocket } from '../../src/base/this-user.ts';
import { findHost, operatorOf, routeOf } from '../../src/cli/connect/find-host.ts';
import { askOperator } from '../../src/cli/connect/operator.ts';
import { onlyToOwn, requireOwnListener } from '../../src/cli/connect/own-listener.ts';
import { connectTcp } from '../../src/transport/socket.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { type Json, User } from './command.ts';

const NOBODY = 65_534;
const isRoot = process.geteuid?.() === 0;
const linux = process.platform === 'linux' ? false : 'only Linux tells which user listens';
const asRoot = isRoot && !linux ? false : 'needs root, to be another user too';

const users: User[] = [];
const newUser = (): User => {
  const user = new User();
  users.push(user);
  return user;
};
after(() => Promise.all(users.map((user) => user.leave())));

async function listening(t: TestContext, where: object): Promise<Server> {
  const server = createServer((socket) => socket.on('error', () => {})).listen(where);
  await once(server, 'listening');
  t.after(() => server.close());
  return server;
}

/**
 * Starts a process of another user that accepts connections and prints all bytes that it gets; it replies over HTTP as a host
 * would.
 */
async function squatter(
  t: TestContext,
  where: string,
): Promise<{ child: ChildProcess; heard: () => string; port: number }> {
  const script = `
    const server = require('node:net').createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (data) => {
        process.stdout.write(data);
        if (data.includes('HTTP/1.1')) socket.write('HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}');
      });
    });
    server.listen(${where}, () => process.stdout.write('port ' + server.address().port + '\\n'));`;
  const child = spawn(process.execPath, ['-e', script], { uid: NOBODY, gid: NOBODY, cwd: '/', env: {} });
  t.after(() => child.kill('SIGKILL'));
  let said = '';
  child.stderr.resume();
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  while (!said.includes('\n')) await once(child.stdout, 'data');
  return { child, heard: () => said, port: Number(/port (\d+)/.exec(said)?.[1] ?? 0) };
}

test('a table of the system names the listeners of an address, the most specific first', () => {
  const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:125C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1
   1: 00000000:125C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 78 1
   2: 0100007F:125C 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1001        0 79 1
   3: 0100007F:125D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 80 1\n`;
  assert.deepEqual(
    listenersIn(table, 4700).map(({ uid, inode }) => [uid, inode]),
    [
      [1000, 77],
      [0, 78],
    ],
  );
});

test('the listener of a port is found by every address it accepts', { skip: linux }, async (t) => {
  const cases: readonly [object, readonly string[]][] = [
    [{ port: 0, host: '127.0.0.1' }, ['127.0.0.1', '::ffff:127.0.0.1', 'localhost']],
    [{ port: 0, host: '0.0.0.0' }, ['127.0.0.1', '127.0.0.2']],
    [{ port: 0, host: '::1' }, ['::1', '0:0:0:0:0:0:0:1']],
    [{ port: 0, host: '::' }, ['::1', '127.0.0.1']],
  ];
  for (const [where, addresses] of cases) {
    const server = await listening(t, where);
    const { port } = server.address() as AddressInfo;
    for (const address of addresses) {
      const found = await listenersAt(address, port);
      assert.equal(found?.length, 1, `${JSON.stringify(where)} by ${address}`);
      assert.equal(found?.[0]?.uid, process.geteuid?.());
      assert.equal(processOf(found![0]!), process.pid);
    }
    server.close();
    await once(server, 'close');
    assert.deepEqual(await listenersAt(addresses[0]!, port), []);
  }
});

test('no listener of another user gets the token, at any address, also when a lost link is dialled again', async (t) => {
  const home = temporaryFolder(t);
  let uid = process.geteuid!();
  const own = { home: join(home, 'none'), listenersAt: async () => [{ uid, inode: 1 }] };
  const server = await listening(t, { port: 0, host: '127.0.0.1' });
  const { port } = server.address() as AddressInfo;
  const address = `tcp://127.0.0.1:${port}`;
  const route = onlyToOwn({ reconnects: true, dial: () => connectTcp(address) }, address, own);
  (await route.dial(undefined)).destroy();
  uid += 1;
  for (const scheme of ['http', 'ws', 'tcp', 'https', 'wss']) {
    await assert.rejects(requireOwnListener(`${scheme}://127.0.0.1:${port}`, own), { code: 'foreign_listener' });
  }
  await assert.rejects(route.dial(undefined), { code: 'foreign_listener' });
  // It took the port between the check and the connection.
  let looks = 0;
  const late = { ...own, listenersAt: async () => [{ uid: process.geteuid!() + (looks++ === 0 ? 0 : 1), inode: 1 }] };
  const raced = onlyToOwn({ reconnects: true, dial: () => connectTcp(address) }, address, late);
  await assert.rejects(raced.dial(undefined), { code: 'foreign_listener' });
});

test('the check looks for the listener at the dialled port, also at the default port of another scheme', async (t) => {
  const asked: number[] = [];
  const own = {
    home: temporaryFolder(t),
    listenersAt: async (_host: string, port: number) => {
      asked.push(port);
      return [];
    },
  };
  for (const address of ['https://h:80', 'wss://h:80/rpc', 'https://h', 'http://h:443', 'http://h', 'tcp://h:80']) {
    await requireOwnListener(address, own);
  }
  assert.deepEqual(asked, [80, 80, 443, 443, 80, 80]);
});

test('a request to an operator address uses TLS at an IP address too', async (t) => {
  const heard = Promise.withResolvers<Buffer | string>();
  const server = createServer((socket) => socket.on('error', () => {}).once('data', (data) => heard.resolve(data)));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.close());
  const base = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const stop = new AbortController();
  const asked = assert.rejects(askOperator({ base, token: '', own: undefined }, '/status', stop.signal));
  const handshakeRecord = 0x16;
  assert.equal(Buffer.from((await Promise.race([heard.promise, asked])) ?? '')[0], handshakeRecord);
  stop.abort();
  await asked;
});

test('a socket file counts when this user alone could have made it', async (t) => {
  const folder = temporaryFolder(t);
  const path = join(folder, 'host.sock');
  await listening(t, { path });
  assert.equal(foreignSocket(path), undefined);
  symlinkSync(path, join(folder, 'link.sock'));
  assert.equal(foreignSocket(join(folder, 'link.sock')), undefined);
  writeFileSync(join(folder, 'file.sock'), '');
  assert.match(foreignSocket(join(folder, 'file.sock')) ?? '', /is not a socket/);
  const open = join(folder, 'open');
  mkdirSync(open);
  await listening(t, { path: join(open, 'host.sock') });
  assert.equal(foreignSocket(join(open, 'host.sock')), undefined);
  chmodSync(open, 0o777);
  assert.match(foreignSocket(join(open, 'host.sock')) ?? '', /other users may write to/);
  chmodSync(open, 0o1777);
  assert.equal(foreignSocket(join(open, 'host.sock')), undefined, 'as in /tmp: only the owner may replace a file');
  symlinkSync(join(open, 'host.sock'), join(folder, 'loop'));
  assert.throws(() => foreignSocket(join(folder, 'missing.sock')), { code: 'ENOENT' });
  if (!isRoot) return;
  chownSync(join(open, 'host.sock'), NOBODY, NOBODY);
  assert.match(foreignSocket(join(open, 'host.sock')) ?? '', /belongs to another user/);
  assert.match(foreignSocket(join(folder, 'loop')) ?? '', /belongs to another user/);
});

test('commands reach their host by a private socket, and without it where a system does not tell who listens', async (t) => {
  const user = newUser();
  const { ready } = await user.up([]);
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  const context = { env: { HANDFAST_HOME: user.home }, cwd: user.cwd };
  const found = await findHost({}, context);
  assert.equal(found.address, dialled(ready));
  const path = found.via.slice('unix://'.length);
  assert.equal(dirname(path), join(user.home, 'sockets'));
  assert.equal(lstatSync(path).mode & 0o777, 0o600);
  assert.equal(lstatSync(dirname(path)).mode & 0o777, 0o700);
  const { sessions } = await askOperator<Json>(operatorOf(found), '/sessions');
  assert.ok(Array.isArray(sessions));
  assert.equal(operatorOf(found).socketPath, path.replace(/sock$/, 'http'));

  const untold = { ...context, listenersAt: async () => undefined };
  for (const address of [ready.url, ready.url.replace('127.0.0.1', 'localhost'), ready.url.replace('http', 'ws')]) {
    assert.equal((await findHost({ connect: address }, untold)).via, found.via, address);
  }
  const server = await listening(t, { port: 0, host: '127.0.0.1' });
  const other = `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const unknown = await findHost({ connect: other }, untold);
  assert.equal(unknown.via, other);
  await assert.rejects(routeOf(unknown, { timeoutMs: 5000, maxMessageBytes: 1e6 }).dial(undefined), {
    code: 'foreign_listener',
    message: /this system does not tell which user listens there; .*--token-file/,
  });
  // A token that was named is sent where it was named for.
  const file = user.write('named.token', `${token}\n`);
  const named = await findHost({ connect: other, tokenFile: file }, untold);
  assert.equal(named.own, undefined);
  (await routeOf(named, { timeoutMs: 5000, maxMessageBytes: 1e6 }).dial(undefined)).destroy();
});

const dialled = ({ url }: Json): string => url as string;

test('the private socket is in another private folder where the path of the own one is too long', async (t) => {
  const user = newUser();
  const home = join(temporaryFolder(t), 'h'.repeat(100));
  const env = { HANDFAST_HOME: home };
  const host = user.start(['up', '--port', '0', '--json'], { env });
  await host.says('"ready"');
  const [record] = readdirSync(join(home, 'running')).map((name) =>
    JSON.parse(readFileSync(join(home, 'running', name), 'utf8')),
  );
  assert.ok(Buffer.byteLength(record.socket) <= 107, record.socket);
  assert.equal(lstatSync(dirname(record.socket)).mode & 0o777, 0o700);
  const { stdout, code } = await user.run(['ping', '--json'], { env });
  assert.equal(code, 0, stdout);
  host.child.kill('SIGTERM');
  await host.ended();
  assert.throws(() => lstatSync(record.socket), { code: 'ENOENT' });
});

test('of two hosts with one configuration each has its socket, which keeps its path over a restart', async () => {
  const user = newUser();
  const socketsOf = (): Json[] =>
    readdirSync(join(user.home, 'running')).map((name) =>
      JSON.parse(readFileSync(join(user.home, 'running', name), 'utf8')),
    );
  const { command } = await user.up([]);
  const [first] = socketsOf();
  const { ready } = await user.up([]);
  const other = socketsOf().find(({ pid }) => pid === ready.pid);
  assert.notEqual(other.socket, first.socket);
  assert.equal((await user.run(['ping', '--connect', `unix://${other.socket}`])).code, 0);
  command.child.kill('SIGKILL');
  await command.ended();
  const again = await user.up([]);
  assert.equal(socketsOf().find(({ pid }) => pid === again.ready.pid).socket, first.socket);
});

test('a record whose process id another process has now is no running host', { skip: linux }, async (t) => {
  const user = newUser();
  const { ready, command: host } = await user.up([]);
  const folder = join(user.home, 'running');
  const [name] = readdirSync(folder) as [string];
  const record = readFileSync(join(folder, name), 'utf8');
  host.child.kill('SIGKILL');
  await host.ended();
  const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'], isRoot ? { uid: NOBODY, cwd: '/' } : {});
  t.after(() => other.kill('SIGKILL'));
  await once(other, 'spawn');
  writeFileSync(join(folder, name), record.replace(`"pid":${ready.pid}`, `"pid":${other.pid}`));
  const { code, stderr } = await user.run(['session', 'ls']);
  assert.notEqual(code, 0);
  assert.match(stderr, /no host of this user is running/);
  assert.deepEqual(readdirSync(folder), []);
});

test('no command sends the token of its user to a process of another user', { skip: asRoot }, async (t) => {
  const user = newUser();
  const { ready, command: host } = await user.up([]);
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  host.child.kill('SIGKILL');
  await host.ended();
  const { heard, port, child } = await squatter(t, "0, '127.0.0.1'");
  // A socket file in a folder where all users may make files.
  const open = temporaryFolder(t);
  chmodSync(open, 0o1777);
  const atPath = join(open, 'host.sock');
  const all = ['http', 'ws', 'tcp'].map((scheme) => `${scheme}://127.0.0.1:${port}`);
  const lines: readonly (readonly string[])[] = [
    ...all.flatMap((address) => [
      ['ping', '--connect', address],
      ['session', 'ls', '--connect', address],
    ]),
    ['tail', '--connect', all[0]!],
    ['config', 'reload', '--connect', all[0]!],
    ['tools', 'ls', '--connect', `http://localhost:${port}`],
    ['task', 'ls', '--connect', all[0]!],
    ['approve', 'ls', '--connect', all[0]!],
    ['mcp', '--connect', all[0]!],
    ['acp', '--connect', all[0]!],
    ['chat', '--connect', all[0]!],
    ['worker', '--join', all[2]!, '--id', 'w', '--executor', 'rehearsal', '--repo', user.cwd],
  ];
  for (const line of lines) {
    const { stderr, code } = await user.run(line, { input: '' });
    assert.notEqual(code, 0, line.join(' '));
    assert.ok(!heard().includes(token), line.join(' '));
    const said = new RegExp(`user nobody, process ${child.pid}, listens there; .*--token-file`);
    assert.match(stderr, said, line.join(' '));
  }
  const onPath = await squatter(t, JSON.stringify(atPath));
  const { code, stderr } = await user.run(['ping', '--connect', `unix://${atPath}`]);
  assert.notEqual(code, 0);
  assert.match(stderr, /host\.sock belongs to another user; .*--token-file/);
  assert.ok(!onPath.heard().includes(token));
  // A token that was named goes where it was named for.
  await user.run(['tail', '--connect', all[0]!, '--token-file', ready.token_file as string]);
  assert.ok(heard().includes(token));
});
