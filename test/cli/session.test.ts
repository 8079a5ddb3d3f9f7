/**
 * `handfast session …` as its users have it, against a `handfast up` of theirs: the texts for people, the documents for
 * programs, and the exit codes.
 */
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Json, User, untimed } from './command.ts';

const user = new User();
const stranger = new User();
after(() => Promise.all([user.leave(), stranger.leave()]));

const ENV = { HANDFAST_KEYRING: 'off' };
let url = '';
before(async () => {
  user.write('notes.txt', 'one\ntwo\n');
  url = (await user.up([], { env: ENV })).ready.url;
});

const session = (...words: string[]) => user.run(['session', ...words]);
const parsed = (stdout: string): Json[] =>
  stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

/** Starts a turn that runs until it is ended; gives its session and its id. */
async function busy(): Promise<{ id: string; turn: string }> {
  const { session_id: id, turn_id: turn } = await user.json(['session', 'send', 'new', 'wait 60000 ms', '--detach']);
  return { id, turn };
}

describe('session send', () => {
  test('prints the answer on stdout, what the agent does on stderr, and nothing else', async () => {
    const { code, stdout, stderr } = await session('send', 'new', 'read notes.txt and count its lines');
    assert.equal(code, 0);
    assert.match(stdout, /^Rehearsal backend: .*\nnotes\.txt has 2 lines\.\n$/);
    const said = /^session [0-9a-f-]{36}\nno model can be used; .*\n✓ read_file notes\.txt: 2 lines, 8 bytes\n$/;
    assert.match(untimed(stderr), said);
  });

  test('with --json prints every event of the turn, and takes the prompt from a file or a pipe', async () => {
    const piped = await user.run(['session', 'send', 'new', '-', '--json'], { input: 'say "from a pipe"' });
    const events = parsed(piped.stdout);
    assert.deepEqual([piped.code, piped.stderr], [0, '']);
    assert.equal(events.at(-1).type, 'session.completed');
    assert.equal(new Set(events.map(({ payload }) => payload.turn_id)).size, 1);
    user.write('prompt.txt', 'say "from a file"');
    assert.match((await session('send', 'last', '@prompt.txt')).stdout, /from a file/);
  });

  test('ends with 5 when the turn failed, saying why once', async () => {
    const { code, stderr } = await session('send', 'new', 'fail "out of luck"');
    assert.equal(code, 5);
    assert.equal(stderr.match(/out of luck/g)?.length, 1);
    assert.match(stderr, /✗ the turn failed: out of luck \[provider_error\]\n$/);
  });

  test('ends with 130 when another command interrupted the turn, and with 7 when its time was over', async () => {
    const command = user.start(['session', 'send', 'new', 'say "begun" then wait 60000 ms', '--json']);
    await command.says('begun');
    await session('interrupt', 'last');
    assert.equal((await command.ended()).code, 130);
    const config = user.write('short.yaml', 'control:\n  turn_timeout_ms: 1000\n');
    const env = { ...ENV, HANDFAST_HOME: join(user.folder, 'short') };
    const late = await user.run(['session', 'send', 'new', '--config', config, 'wait 60000 ms'], { env });
    assert.equal(late.code, 7);
  });

  test('interrupts its turn on Ctrl-C and ends with 130', async () => {
    const command = user.start(['session', 'send', 'new', 'say "begun" then wait 60000 ms', '--json']);
    await command.says('begun');
    command.child.kill('SIGINT');
    const { code, stdout } = await command.ended();
    assert.equal(code, 130);
    const { type, payload } = parsed(stdout).at(-1);
    assert.deepEqual([type, payload.stop_reason], ['session.interrupted', 'interrupted']);
  });
});

describe('what sessions there are', () => {
  test('is listed and shown, by an id, its beginning, or "last"', async () => {
    await session('send', 'new', 'say "shown"');
    const [newest] = await user.json(['session', 'ls']);
    assert.deepEqual([newest.cwd, newest.backend, newest.pending], [user.cwd, 'rehearsal', false]);
    const listed = await session('ls');
    assert.match(listed.stdout, /^SESSION +STATE +UPDATED +MESSAGES +BACKEND +TITLE\n/);
    assert.ok(listed.stdout.includes(newest.session_id));
    for (const name of [newest.session_id, newest.session_id.slice(0, 12), 'last']) {
      assert.equal((await user.json(['session', 'show', name])).id, newest.session_id);
    }
    const { stdout } = await session('show', 'last');
    assert.match(stdout, /backend +rehearsal/);
    assert.match(stdout, /\nuser: say "shown"\n\nassistant: (?:.|\n)*shown\n/);
    assert.deepEqual((await user.json(['session', 'ls', '--cwd', user.folder])).length, 0);
    const here = (await user.json(['session', 'ls', '--cwd', '.'])).length;
    assert.ok(here > 0, 'a relative folder is that of the user');
    assert.equal((await user.json(['session', 'ls', '--cwd', user.cwd])).length, here);
  });

  test('is tailed: stored events, then with --follow those that happen', async () => {
    await session('send', 'new', 'say "first"');
    const { id } = await user.json(['session', 'show', 'last']);
    const stored = parsed((await session('tail', id, '--json')).stdout);
    assert.deepEqual(
      stored.map(({ seq }) => seq),
      stored.map((_, at) => at + 1),
    );
    assert.deepEqual(parsed((await session('tail', id, '--json', '--after', '3')).stdout), stored.slice(3));
    const told = await session('tail', id);
    assert.deepEqual([told.stdout, told.stderr], [told.stdout, 'you: say "first"\n']);
    assert.match(told.stdout, /first\n$/);
    const following = user.start(['session', 'tail', id, '--follow', '--after', String(stored.length)]);
    await session('send', id, 'say "second"');
    await following.says('second');
    following.child.kill('SIGINT');
    assert.equal((await following.ended()).code, 130);
  });

  test('is tailed by "handfast tail" too, which knows sessions of both kinds', async () => {
    const { session_id: id } = await user.json(['session', 'send', 'new', 'say "either way"', '--detach']);
    const following = user.start(['tail', id.slice(0, 12), '--follow']);
    await following.says('either way');
    await session('send', id, 'say "and live"');
    await following.says('and live');
    following.child.kill('SIGINT');
    assert.equal((await following.ended()).code, 130);
    const { seq } = await user.json(['session', 'show', id]);
    assert.deepEqual((await session('tail', id, '--after', String(seq))).stdout, '');
    for (const words of [[], ['--follow']]) {
      const beyond = await user.failure(['session', 'tail', id, '--after', String(seq + 5), ...words]);
      assert.deepEqual([beyond.exit, beyond.code], [2, 'usage']);
      assert.match(beyond.message, /^--after \d+ is beyond the newest event of this session, which is \d+$/);
    }
  });

  test('is exported and imported again, whole, into a file that only its owner can read', async () => {
    await session('send', 'new', 'read notes.txt');
    const file = join(user.cwd, 'export.jsonl');
    assert.match((await session('export', 'last', '--out', file)).stderr, /^\d+ lines written to /);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal((await session('export', 'last')).stdout, readFileSync(file, 'utf8'));
    const atTerminal = await user.run(['session', 'export', 'last', '--out', file], { terminal: true });
    assert.match(atTerminal.stdout, /\d+ lines read/, 'how far it is shows where people watch');
    const before = await user.json(['session', 'show', 'last']);
    const marked = user.write('marked.jsonl', `\ufeff${readFileSync(file, 'utf8').replaceAll('\n', '\r\n')}`);
    const { session_id } = await user.json(['session', 'import', marked]);
    assert.notEqual(session_id, before.id);
    const after = await user.json(['session', 'show', session_id]);
    const said = ({ messages }: Json) => messages.map(({ kind, text }: Json) => [kind, text]);
    assert.deepEqual(said(after), said(before));
    assert.match((await session('send', session_id, 'say "on"')).stdout, /^on\n$/);
    const refused = await user.failure(['session', 'import', user.write('no.jsonl', 'nothing of ours')]);
    assert.deepEqual([refused.exit, refused.code], [5, 'schema_violation']);
  });

  test('is forked up to a turn, and removed', async () => {
    const { turn_id: first } = await user.json(['session', 'send', 'new', 'say "a"', '--detach']);
    const [{ session_id: id }] = await user.json(['session', 'ls']);
    await session('send', id, 'say "b"');
    const { session_id: fork } = await user.json(['session', 'fork', id, '--through', first, '--title', 'branch']);
    const forked = await user.json(['session', 'show', fork]);
    assert.deepEqual([forked.title, forked.messages.length], ['branch', 2]);
    const { code, stderr } = await session('rm', fork, id);
    assert.deepEqual([code, stderr], [0, `removed ${fork}\nremoved ${id}\n`]);
    assert.equal((await user.failure(['session', 'show', fork])).code, 'session_not_found');
  });
});

describe('a turn that runs', () => {
  test('is steered, and ended from another terminal', async () => {
    const { id, turn } = await busy();
    const { outcome, turn_id } = await user.json(['session', 'steer', id, 'say "steered"', '--turn', turn]);
    assert.deepEqual([outcome, turn_id], ['injected', turn]);
    const rejected = await session('steer', id, 'x', '--turn', 'another');
    assert.deepEqual([rejected.code, rejected.stdout], [5, 'rejected\n']);
    assert.deepEqual(await user.json(['session', 'interrupt', id]), { interrupted: true });
    await session('interrupt', id);
    await session('rm', id);
  });

  test('has a queue behind it that is listed, thinned and cleared', async () => {
    const { id } = await busy();
    const later: string[] = [];
    for (const text of ['one', 'two', 'three']) {
      const { turn_id, queued } = await user.json(['session', 'send', id, `say "${text}"`, '--detach']);
      assert.equal(queued, true);
      later.push(turn_id);
    }
    assert.deepEqual(
      (await user.json(['session', 'queue', id])).map((item: Json) => item.id),
      later,
    );
    assert.match((await session('queue', id)).stdout, /^TURN +SINCE +PROMPT\n(?:.*\n){3}$/);
    const start = (later[1] as string).slice(0, 8);
    assert.deepEqual(await user.json(['session', 'queue', id, '--remove', start]), { removed: true });
    const again = await user.failure(['session', 'queue', id, '--remove', start]);
    assert.deepEqual(again, {
      exit: 5,
      code: 'not_found',
      message: `no queued prompt has an id that starts with "${start}"; see: handfast session queue ${id}`,
    });
    assert.equal((await user.failure(['session', 'queue', id, '--remove', later[1] as string])).code, 'not_found');
    assert.deepEqual(await user.json(['session', 'queue', id, '--clear']), { cleared: 2 });
    assert.match((await session('queue', id)).stderr, /no queued prompts/);
    const refused = await user.failure(['session', 'send', id, 'x', '--no-enqueue']);
    assert.deepEqual([refused.exit, refused.code], [5, 'session_busy']);
    await session('rm', id);
  });
});

describe('what does not work', () => {
  test('is reported with its code and exit code', async () => {
    const unknown = await user.failure(['session', 'show', '00000000-0000-4000-8000-000000000000']);
    assert.deepEqual([unknown.exit, unknown.code], [3, 'session_not_found']);
    const prefix = await user.failure(['session', 'show', 'zz']);
    assert.deepEqual([prefix.exit, prefix.code], [3, 'session_not_found']);
    const nobody = await stranger.failure(['session', 'ls']);
    assert.deepEqual([nobody.exit, nobody.code], [4, 'unreachable']);
    const wrong = await stranger.failure(['session', 'ls', '--connect', url], {
      env: { HANDFAST_TOKEN: 'x'.repeat(32) },
    });
    assert.deepEqual([wrong.exit, wrong.code], [3, 'auth_failed']);
    assert.match(wrong.message, /--token-file/);
    const usage = await user.failure(['session', 'tail']);
    assert.equal(usage.exit, 2);
    assert.equal((await user.failure(['session', 'send', 'new', '@none.txt'])).code, 'usage');
  });
});
