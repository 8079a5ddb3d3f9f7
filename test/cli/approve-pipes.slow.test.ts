/**
 * Servers on pipes, whose client is an editor or a program that knows plain session RPC 1.0.0 only: its labels of a turn that
 * waits, the answer to the approval in another terminal, and users who may not answer.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, renameSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, afterEach, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect } from '../../src/control-client/connect.ts';
import { asError } from '../../src/wire/errors.ts';
import { PlainClient } from '../support/plain-client.ts';
import { type Json, plainEnvironment, User } from './command.ts';

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
const users: User[] = [];
const clients: PlainClient[] = [];
let user: User;
beforeEach(() => {
  user = new User();
  users.push(user);
});
afterEach(() => {
  for (const { child } of clients.splice(0)) child.kill('SIGKILL');
});
after(() => Promise.all(users.map((each) => each.leave())));

const sockets = (): string[] => (existsSync(join(user.home, 'sockets')) ? readdirSync(join(user.home, 'sockets')) : []);

/** Starts the server that an editor starts, and its client; the client has a session. */
async function editor(): Promise<{ client: PlainClient; session_id: string }> {
  const client = new PlainClient(process.execPath, ['-C', 'handfast-source', main, 'rpc', '--backend', 'rehearsal'], {
    cwd: user.cwd,
    env: plainEnvironment({ HOME: user.folder, HANDFAST_HOME: user.home }),
  });
  clients.push(client);
  await client.call('rpc.handshake', { protocol_version: '1.0.0' });
  const { session_id } = await client.call('session.create');
  return { client, session_id };
}

/** Starts a turn that waits for an approval; resolves with the label that its client shows. */
async function waiting(command = 'echo yes > allowed') {
  const { client, session_id } = await editor();
  const { turn_id } = await client.call('session.send', { session_id, text: `run "${command}"` });
  const { payload } = await client.event(({ payload: { status_label } }) => /^waiting for/.test(status_label));
  return { client, session_id, turn_id, label: payload.status_label as string };
}

/** Lists the approvals; the command line finds the socket as soon as it is open. */
async function listed(): Promise<Json> {
  for (const until = Date.now() + 60_000; ; ) {
    const { code, stdout, stderr } = await user.run(['approve', 'ls', '--json']);
    if (code === 0) return JSON.parse(stdout);
    assert.ok(Date.now() < until, stderr);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test('a plain client shows that the turn waits and for what; another terminal answers, and the turn continues', async () => {
  const { client, session_id, turn_id, label } = await waiting();
  const [, id = ''] =
    /^waiting for approval: shell: echo yes > allowed \(handfast approve yes\|no ([0-9a-f]{8})\)$/.exec(label) ?? [];
  const { pending, statusLabel } = await client.call('session.get', { session_id });
  assert.deepEqual([pending, statusLabel], [true, label]);
  const [approval] = await listed();
  assert.equal(approval.id.slice(0, 8), id);
  const answered = await user.run(['approve', 'yes', id]);
  assert.deepEqual([answered.code, answered.stderr], [0, 'allowed: shell: echo yes > allowed\n']);
  const { payload } = await client.event(({ type }) => type === 'session.completed');
  assert.equal(payload.turn_id, turn_id);
  assert.equal(existsSync(join(user.cwd, 'allowed')), true);
  const at = client.labels.indexOf(label);
  assert.equal(client.labels[at + 1], client.labels[at - 1], 'the earlier label returns');
  assert.equal(client.labels.at(-1), 'ready');
  client.child.stdin.end();
  await once(client.child, 'close');
  assert.deepEqual(sockets(), [], 'the socket ends with its server');
});

test('a denied call ends in the answer of the turn, not in silence', async () => {
  const { client, label } = await waiting('touch denied');
  await listed();
  const [, id = ''] = /yes\|no ([0-9a-f]{8})/.exec(label) ?? [];
  assert.equal((await user.run(['approve', 'no', id])).code, 0);
  const done = await client.event(({ type }) => type === 'session.tool.call.completed');
  assert.equal(done.payload.data.executed.ok, false);
  await client.event(({ type }) => type === 'session.completed');
  assert.equal(existsSync(join(user.cwd, 'denied')), false);
});

test('a killed server leaves a socket that the next command removes', async () => {
  const { client } = await waiting();
  await listed();
  client.child.kill('SIGKILL');
  await once(client.child, 'close');
  assert.equal(sockets().length, 1);
  const { code, message } = await user.failure(['approve', 'ls']);
  assert.equal(code, 'unreachable');
  assert.match(message, /no host of this user is running/);
  assert.deepEqual(sockets(), []);
});

test('the socket is for its user alone, and only for approvals', async () => {
  await waiting();
  await listed();
  const folder = join(user.home, 'sockets');
  const [name = ''] = sockets();
  const path = join(folder, name);
  assert.deepEqual([lstatSync(folder).mode & 0o777, lstatSync(path).mode & 0o777], [0o700, 0o600]);
  await using control = await connect(`unix://${path}`);
  const [session] = await Array.fromAsync(control.sessions());
  assert.equal(session?.approvals_pending, 1);
  for (const [method, params] of [
    ['session.send', { session_id: session?.session_id, text: 'hi', enqueue: true }],
    ['session.create', {}],
    ['session.delete', { session_id: session?.session_id }],
    ['session.configure', { session_id: session?.session_id, approvals: 'allow' }],
    ['auth.set.openrouter_key', { api_key: 'x' }],
    ['system.shutdown', {}],
  ] as const) {
    const refused = await control.call(method, params).then(
      () => 'done',
      (thrown) => asError(thrown).code,
    );
    assert.deepEqual([method, refused], [method, 'unauthorized']);
  }
});

test('another user of the machine cannot connect', { skip: process.geteuid?.() !== 0 }, async () => {
  await waiting();
  await listed();
  // Not even where the folders above are open to all.
  for (const folder of [user.folder, user.home]) chmodSync(folder, 0o755);
  const path = join(user.home, 'sockets', sockets()[0] as string);
  const script = `require('node:net').connect(${JSON.stringify(path)})
    .on('connect', () => process.exit(7)).on('error', ({ code }) => console.log(code))`;
  const { stdout, status } = spawnSync(process.execPath, ['-e', script], { uid: 65534, gid: 65534, cwd: '/' });
  assert.deepEqual([String(stdout), status], ['EACCES\n', 0]);
});

test('a socket that others may connect to, a link, and a folder that is not private are not asked', async () => {
  const folder = join(user.home, 'sockets');
  const asked: string[] = [];
  const listening = (path: string) =>
    once(
      createServer((socket) => {
        asked.push(path);
        socket.destroy();
      })
        .unref()
        .listen(path),
      'listening',
    );
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const open = join(folder, '12-0123abcd.sock');
  await listening(open);
  chmodSync(open, 0o666);
  const elsewhere = join(user.folder, 'elsewhere.sock');
  await listening(elsewhere);
  symlinkSync(elsewhere, join(folder, '13-0123abcd.sock'));
  assert.equal((await user.failure(['approve', 'ls'])).code, 'unreachable');
  chmodSync(open, 0o600);
  chmodSync(folder, 0o755);
  assert.equal((await user.failure(['approve', 'ls'])).code, 'unreachable');
  renameSync(folder, join(user.folder, 'planted'));
  symlinkSync(join(user.folder, 'planted'), folder);
  assert.equal((await user.failure(['approve', 'ls'])).code, 'unreachable');
  assert.deepEqual(asked, []);
});
