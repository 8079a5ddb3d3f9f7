/**
 * The screen of `handfast chat` when its connection is lost while a turn runs: its messages, the shown part of the text, and
 * the fate of typed text.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, describe, test } from 'node:test';
import { ownPort } from '../support/own-port.ts';
import { User } from './command.ts';
import { noTmux, TmuxTerminal } from './tmux.ts';

const ENV = { HANDFAST_KEYRING: 'off' };
const users: User[] = [];
const terminals: TmuxTerminal[] = [];
const cutters: Cutter[] = [];

after(async () => {
  for (const terminal of terminals) terminal.close();
  for (const cutter of cutters) cutter.close();
  await Promise.all(users.map((user) => user.leave()));
});

/** Carries connections to a port, and breaks them on demand. */
class Cutter {
  readonly #server = createServer((near) => this.#carry(near));
  readonly #sockets = new Set<Socket>();
  readonly #to: number;
  connections = 0;

  constructor(to: number) {
    this.#to = to;
    cutters.push(this);
  }

  /** Gives its own port. */
  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  /** Ends all connections without a word. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Carries nothing more on the open connections, and does not end them. */
  swallow(): void {
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #carry(near: Socket): void {
    this.connections++;
    const far = connect(this.#to, '127.0.0.1');
    for (const socket of [near, far]) {
      this.#sockets.add(socket);
      socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket));
    }
    near.on('close', () => far.destroy()).pipe(far);
    far.on('close', () => near.destroy()).pipe(near);
  }
}

async function chatAt(user: User, words: readonly string[] = []): Promise<TmuxTerminal> {
  const line = user.line(['chat', ...words]);
  const terminal = new TmuxTerminal(line, { cwd: user.cwd, env: user.environment(ENV) });
  terminals.push(terminal);
  await terminal.shows(/rehearsal.*\/help\n*$/);
  return terminal;
}

function newUser(): User {
  const user = new User();
  users.push(user);
  return user;
}

/** Numbered words, a pause between some, as one prompt. */
const COUNTED = 120;
const countingPrompt = Array.from({ length: COUNTED / 20 }, (_, part) => {
  const words = Array.from({ length: 20 }, (__, at) => `w${part * 20 + at}`);
  return `say "${words.join(' ')}"`;
}).join(' then wait 700 ms then ');

/** Returns the numbered words of the answer, as they are on the screen. */
function counted(screen: string): number[] {
  const answer = screen.slice(screen.indexOf('I follow simple directives. Token'));
  return [...answer.matchAll(/\bw(\d+)\b/g)].map(([, number]) => Number(number));
}

const ALL = Array.from({ length: COUNTED }, (_, at) => at);

describe('a chat whose connection is lost while a turn runs', { skip: noTmux }, () => {
  test('says so, stores what is typed, and continues with the server that returns', async () => {
    const user = newUser();
    const place = ['--port', String(await ownPort())];
    const { command: up } = await user.up(place, { env: ENV });
    const terminal = await chatAt(user);
    terminal.type('say "begun" then wait 60000 ms');
    terminal.press('Enter');
    await terminal.shows(/^begun$/m);
    terminal.type('say "typed meanwhile"');
    up.child.kill('SIGKILL');
    await up.ended();
    await terminal.shows(/· connection lost \([^)]*\);\s+reconnecting\n─+\n› say "typed meanwhile"\nreconnecting · /);
    terminal.press('Enter');
    terminal.type('a draft');
    await terminal.shows(/unsent: say "typed meanwhile"\n─+\n› a draft\nreconnecting · /);
    await user.up(place, { env: ENV });
    const screen = await terminal.shows(/\n› say "typed meanwhile"\n\ntyped meanwhile\n─+\n› a draft\nrehearsal · /);
    assert.match(screen, /· connected again\n/);
    assert.match(screen, /· response interrupted by a restart of the server/);
    assert.equal(screen.match(/^begun$/gm)?.length, 1);
    assert.doesNotMatch(screen, /unsent/);
    terminal.press('C-c', 'C-c');
    assert.equal(await terminal.ended(), 0);
  });

  test('shows every word of the answer once, wherever the connection was cut', async () => {
    const user = newUser();
    const port = await ownPort();
    // The cutter's port is none of the server's own.
    const config = user.write('server.yaml', 'http: { allowed_hosts: [127.0.0.1] }\n');
    await user.up(['--port', String(port), '--config', config], { env: ENV });
    const cutter = new Cutter(port);
    const terminal = await chatAt(user, ['--connect', `http://127.0.0.1:${await cutter.listen()}`]);
    terminal.type(countingPrompt);
    terminal.press('Enter');
    for (const word of ['w10', 'w50', 'w90']) {
      await terminal.shows(new RegExp(`I follow(?:.*\\n)*.*\\b${word}\\b`), { history: true });
      cutter.cut();
    }
    const screen = await terminal.shows(/tokens · \/help\n*$/, { history: true });
    assert.deepEqual(counted(screen), ALL);
    assert.ok(cutter.connections >= 4, `${cutter.connections} connections`);
    terminal.press('C-d');
    assert.equal(await terminal.ended(), 0);
  });

  test('notices a connection that swallows everything, and misses nothing', async () => {
    const user = newUser();
    const port = await ownPort();
    // The cutter's port is none of the server's own.
    const config = user.write('server.yaml', 'http: { allowed_hosts: [127.0.0.1] }\n');
    await user.up(['--port', String(port), '--config', config], { env: ENV });
    const cutter = new Cutter(port);
    const terminal = await chatAt(user, ['--connect', `http://127.0.0.1:${await cutter.listen()}`]);
    terminal.type(countingPrompt);
    terminal.press('Enter');
    await terminal.shows(/I follow(?:.*\n)*.*\bw10\b/, { history: true });
    cutter.swallow();
    terminal.type('stays here');
    await terminal.shows(/· connection lost \([^)]*\);\s+reconnecting\n/);
    const screen = await terminal.shows(/tokens · \/help\n*$/, { history: true });
    assert.deepEqual(counted(screen), ALL);
    assert.match(screen, /· connected again/);
    assert.match(screen, /─\n› stays here\n/);
    terminal.press('C-c', 'C-c');
    assert.equal(await terminal.ended(), 0);
  });

  test('ends with what was not sent and how to continue, when the server does not return', async () => {
    const user = newUser();
    const { command: up } = await user.up([], { env: ENV });
    const terminal = await chatAt(user);
    const [{ session_id: session }] = await user.json(['session', 'ls']);
    terminal.type('say "begun" then wait 60000 ms');
    terminal.press('Enter');
    await terminal.shows(/^begun$/m);
    up.child.kill('SIGKILL');
    await terminal.shows(/reconnecting · /);
    terminal.type('say "sent too late"');
    terminal.press('Enter');
    await terminal.shows('unsent: say "sent too late"');
    terminal.type('a draft');
    assert.equal(await terminal.ended(), 4);
    const screen = terminal.screen();
    assert.match(screen, /^✗ the connection could not be restored: [^✗]*\[connection_lost\]$/m);
    assert.doesNotMatch(screen, /turn continues/);
    assert.match(screen, /^· not sent: say "sent too late"\n· not sent: a draft$/m);
    assert.ok(
      screen.includes(`· continue when the server runs again: handfast chat --session ${session.slice(0, 8)}`),
      screen,
    );
  });
});
