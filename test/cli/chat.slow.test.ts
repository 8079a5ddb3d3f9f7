/**
 * `handfast chat`: prompts from a pipe, with the server that runs and with one that it starts; the session it continues; how it
 * is interrupted and left; and at a terminal, questions answered where they are asked.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { ownPort } from '../support/own-port.ts';
import { type Command, type Json, User, untimed } from './command.ts';

const users: User[] = [];
const ENV = { HANDFAST_KEYRING: 'off' };

function newUser(): User {
  const user = new User();
  users.push(user);
  user.write('notes.txt', 'one\ntwo\n');
  return user;
}

after(() => Promise.all(users.map((user) => user.leave())));

const chat = (user: User, input: string, ...words: string[]) => user.run(['chat', ...words], { input, env: ENV });

describe('prompts from a pipe', () => {
  test('are answered in order by a server of its own, which keeps the session for the next time', async () => {
    const user = newUser();
    const first = await chat(user, 'read notes.txt and count its lines\n\nlist .\n');
    assert.equal(first.code, 0);
    assert.match(first.stdout, /^Rehearsal backend: .*\nnotes\.txt has 2 lines\.\n\. has 1 entry: notes\.txt\n$/);
    const [model, ...tools] = untimed(first.stderr).split('\n');
    assert.match(model ?? '', /^no model can be used; .*handfast auth login/);
    assert.deepEqual(tools, ['✓ read_file notes.txt: 2 lines, 8 bytes', '✓ list_dir .: 1 entry', '']);

    const again = await chat(user, 'say "again"');
    assert.equal(again.stdout, 'again\n', 'the conversation continues, so the banner does not come again');
    const fresh = await chat(user, 'say "fresh"', '--new');
    assert.match(fresh.stdout, /^Rehearsal backend/);

    const { command } = await user.up([], { env: ENV });
    const sessions = await user.json(['session', 'ls']);
    assert.deepEqual(
      sessions.map((session: Json) => session.message_count),
      [2, 6],
    );
    const picked = sessions[1].session_id.slice(0, 8);
    assert.equal((await chat(user, 'say "picked"', '--session', picked)).stdout, 'picked\n');
    assert.equal((await chat(user, 'say "latest"')).stdout, 'latest\n', 'that is the last of this folder now');
    command.child.kill('SIGTERM');
    assert.equal((await command.ended()).code, 0);
  });

  test('are denied what needs asking where no user can be asked, unless allowed beforehand', async () => {
    const user = newUser();
    const denied = await chat(user, 'run "touch made"');
    assert.equal(denied.code, 0);
    assert.match(denied.stderr, /^no model .*\n✗ shell touch made: not run: it was not allowed/);
    assert.equal(existsSync(join(user.cwd, 'made')), false);
    const allowed = await chat(user, 'run "touch made"', '--approvals', 'allow');
    assert.match(untimed(allowed.stderr), /^no model .*\n✓ shell touch made: exit code 0\n$/);
    assert.equal(existsSync(join(user.cwd, 'made')), true);
  });

  test('go to the session whose id starts so, as everywhere on the command line', async () => {
    const user = newUser();
    await chat(user, 'say "first"');
    const { command: up } = await user.up([], { env: ENV });
    const [{ session_id: first }] = await user.json(['session', 'ls']);
    const moved = await chat(user, `/sessions ${first.slice(0, 8)}\nsay "here"`, '--new');
    assert.match(moved.stdout, /here\n$/);
    assert.equal((await user.json(['session', 'show', first])).messages.at(-1).text, 'here');
    const { code, stderr } = await chat(user, '/sessions zz');
    assert.equal(code, 3);
    assert.match(stderr, /no session has an id that starts with "zz"; see: handfast session ls --all/);
    assert.equal((await chat(user, '/sessions last\nsay "newest"')).code, 0);
    up.child.kill('SIGTERM');
    await up.ended();
  });

  test('come with every event as a line with --json', async () => {
    const { code, stdout, stderr } = await chat(newUser(), 'say "a"\n/queue\n', '--json');
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual([code, stderr], [0, '']);
    assert.ok(lines.some(({ type }) => type === 'session.completed'));
  });

  test('continue behind a turn that failed, and the exit code shows it', async () => {
    const { code, stdout, stderr } = await chat(newUser(), 'fail "out of luck"\nsay "on"');
    assert.equal(code, 5);
    assert.match(stderr, /✗ the turn failed: out of luck \[provider_error\]/);
    assert.match(stdout, /on\n$/);
  });
});

describe('leaving', () => {
  test('with Ctrl-C interrupts the turn that runs, and ends with 130', async () => {
    const user = newUser();
    const command = user.start(['chat'], { env: ENV });
    command.child.stdin.end('say "begun" then wait 60000 ms\nsay "never"\n');
    await command.says('begun');
    command.child.kill('SIGINT');
    const { code, stdout, stderr } = await command.ended();
    assert.equal(code, 130);
    assert.match(stderr, /interrupted/);
    assert.doesNotMatch(stdout, /never/);
    assert.match((await chat(user, 'say "after"')).stdout, /after/);
  });

  test('twice does not wait for the turn', async () => {
    const user = newUser();
    const { command: up } = await user.up([], { env: ENV });
    const command = user.start(['chat'], { env: ENV });
    command.child.stdin.write('say "begun" then wait 60000 ms\n');
    await command.says('begun');
    up.child.kill('SIGSTOP');
    command.child.kill('SIGINT');
    await command.says('again: exit', 'stderr');
    command.child.kill('SIGINT');
    assert.equal((await command.ended()).code, 130);
    up.child.kill('SIGCONT');
  });

  test('is not needed for a lost server: it is dialled again, and the conversation continues', async () => {
    const user = newUser();
    const place = ['--port', String(await ownPort())];
    const { command: up, ready } = await user.up(place, { env: ENV });
    const command = user.start(['chat', '--connect', ready.url], { env: ENV });
    command.child.stdin.write('say "begun"\n');
    await command.says('begun');
    up.child.kill('SIGTERM');
    await up.ended();
    await command.says('reconnecting', 'stderr');
    await user.up(place, { env: ENV });
    await command.says('connected again', 'stderr');
    command.child.stdin.end('say "still here"\n');
    const { code, stdout } = await command.ended();
    assert.equal(code, 0);
    assert.match(stdout, /still here\n$/);
  });
});

test('a second chat of its own on the same data names the process that has it, and what to do', async () => {
  const user = newUser();
  const first = user.start(['chat'], { env: ENV });
  first.child.stdin.write('say "mine"\n');
  await first.says('mine');
  const { code, stderr } = await chat(user, 'say "yours"');
  assert.equal(code, 5);
  assert.match(stderr, /\[journal_locked\]/);
  assert.ok(stderr.includes(`process ${first.child.pid} has `), stderr);
  assert.ok(stderr.includes('end it and start one server for all: handfast up'), stderr);
  first.child.stdin.end();
  assert.equal((await first.ended()).code, 0);
});

const noTerminal =
  spawnSync('python3', ['-c', 'import pty']).status === 0 ? false : 'needs python3, whose pty module is the terminal';

/** Starts `handfast chat` at a terminal: text written to its input is typed. */
function atTerminal(user: User, ...words: string[]): Command {
  return user.start(['chat', ...words], { env: { ...ENV, TERM: 'xterm' }, terminal: true });
}

describe('at a terminal', { skip: noTerminal }, () => {
  test('it greets, asks before a tool acts, and takes the answer', async () => {
    const user = newUser();
    const command = atTerminal(user);
    await command.says('› ');
    assert.match(command.stdout, /handfast · new session · rehearsal · /);
    command.child.stdin.write('run "echo one >> made"\r');
    await command.says('allow?');
    assert.match(command.stdout, /\? shell: echo one >> made \(/);
    command.child.stdin.write('what\r');
    command.child.stdin.write('y\r');
    await command.says('exit code 0.');
    const then = command.stdout.length;
    command.child.stdin.write('run "echo two >> made"\r');
    await command.says('allow?', 'stdout', then);
    command.child.stdin.write('n\r');
    await command.says('✗ shell');
    assert.equal(readFileSync(join(user.cwd, 'made'), 'utf8'), 'one\n');
    await command.says('/help', 'stdout', command.stdout.indexOf('✗ shell'));
    command.child.stdin.write('\u0004');
    assert.equal((await command.ended()).code, 0);
  });

  test('it asks in a session that a pipe used before, where no user could be asked', async () => {
    const user = newUser();
    assert.match((await chat(user, 'run "touch made"')).stderr, /not run: it was not allowed/);
    const sent = await user.run(['session', 'send', 'last', 'run "touch made"'], { env: ENV });
    assert.match(sent.stderr, /not run: it was not allowed/);
    const command = atTerminal(user);
    await command.says('› ');
    command.child.stdin.write('run "touch made"\r');
    await command.says('allow?');
    command.child.stdin.write('y\r');
    await command.says('✓ shell');
    assert.equal(existsSync(join(user.cwd, 'made')), true);
    command.child.stdin.write('\u0004');
    assert.equal((await command.ended()).code, 0);
  });

  test('what is typed while it works waits in sight and steers its turn, Ctrl-C stops the turn and then leaves', async () => {
    const command = atTerminal(newUser());
    await command.says('› ');
    command.child.stdin.write('say "begun" then wait 60000 ms\r');
    // The terminal shows typed text before the turn begins; this text is in the answer.
    await command.says('Rehearsal backend:');
    await command.says('begun', 'stdout', command.stdout.indexOf('Rehearsal backend:'));
    command.child.stdin.write('say "and this"\r');
    await command.says('soon: say "and this"');
    command.child.stdin.write('\u0003');
    await command.says('interrupted');
    await command.says('and this', 'stdout', command.stdout.lastIndexOf('interrupted'));
    command.child.stdin.write('/help\r');
    await command.says('/retitle');
    await command.says('› ', 'stdout', command.stdout.lastIndexOf('/retitle'));
    command.child.stdin.write('\u0003');
    assert.equal((await command.ended()).code, 0);
  });

  test('without colours no style is written, and a dumb terminal gets plain lines', async () => {
    const coloured = atTerminal(newUser(), '--new');
    const dumb = newUser();
    const lines = dumb.start(['chat'], { env: { ...ENV, TERM: 'dumb', NO_COLOR: '' }, terminal: true });
    await coloured.says('› ');
    coloured.child.stdin.write('say "**well**"\r');
    await coloured.says('tokens');
    coloured.child.stdin.write('\u0004');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: styles are made of them
    assert.doesNotMatch((await coloured.ended()).stdout, /\u001b\[[\d;:]*m/);
    lines.child.stdin.write('say "**well**"\n');
    await lines.says('\n**well**');
    lines.child.stdin.write('\u0004');
    const { code, stdout } = await lines.ended();
    assert.equal(code, 0);
    assert.equal(stdout.includes('\u001b'), false);
  });

  test('the terminal is as it was when the chat has ended', async () => {
    const command = atTerminal(newUser());
    await command.says('› ');
    command.child.stdin.write('\u0004');
    const { stdout } = await command.ended();
    assert.ok(stdout.lastIndexOf('\u001b[?25h') > stdout.lastIndexOf('\u001b[?25l'), 'the cursor is shown');
    assert.ok(stdout.lastIndexOf('\u001b[?2004l') > stdout.lastIndexOf('\u001b[?2004h'), 'pastes are plain again');
  });
});
