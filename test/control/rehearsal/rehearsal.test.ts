/** Turns of the rehearsal backend with the real built-in tools on a folder of the disk. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { rehearsalBackend } from '../../../src/control/backends/rehearsal/rehearsal-backend.ts';
import { REHEARSAL_BANNER } from '../../../src/control/backends/rehearsal/rehearsal-model.ts';
import type { HistoryItem } from '../../../src/control/contract/session-log.ts';
import { FakeSessionLog } from '../support/fake-session-log.ts';
import { FakeTurn, type FakeTurnOptions, inShort } from '../support/fake-turn.ts';
import { hostEnvironments } from '../support/host-environments.ts';

/** A conversation that has begun, so that answers come without the banner. */
const begun: HistoryItem[] = [
  { role: 'user', turn: 'turn-0', text: 'hi' },
  { role: 'assistant', turn: 'turn-0', text: 'hello' },
];

async function setUp(t: TestContext, files: Record<string, string> = {}) {
  const cwd = await mkdtemp(join(tmpdir(), 'handfast-rehearsal-'));
  t.after(() => rm(cwd, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(cwd, name)), { recursive: true });
    await writeFile(join(cwd, name), content);
  }
  const { environments, hosts } = hostEnvironments(t, { builtin: { allowPrivateAddresses: true } });
  const backend = rehearsalBackend(environments);
  const run = async (text: string, options: FakeTurnOptions = {}) => {
    const log = options.log ?? new FakeSessionLog({ cwd, history: begun });
    const turn = new FakeTurn({ text, cwd, ...options, log });
    const outcome = await backend.run(turn);
    return { turn, outcome, answer: turn.answerText };
  };
  return { cwd, backend, run, hosts };
}

test('the first answer of a conversation says what answers; later ones do not repeat it', async (t) => {
  const { cwd, run } = await setUp(t);
  const log = new FakeSessionLog({ cwd });
  const first = await run('say "hello there"', { log });
  assert.equal(first.answer, `${REHEARSAL_BANNER}\nhello there`);
  assert.deepEqual(first.outcome, { stopReason: 'end_turn' });
  const second = new FakeTurn({ text: 'say again', log, cwd });
  assert.match(REHEARSAL_BANNER, /Rehearsal backend: no model is configured/);
  assert.ok(second.history.length > 0);
  assert.equal((await run('say again', { log: new FakeSessionLog({ cwd, history: begun }) })).answer, 'again');
});

test('read and count: the numbers come out of the result of the tool', async (t) => {
  const { run } = await setUp(t, { 'README.md': 'one two\nthree\nfour\n', 'last.txt': 'a\nb' });
  const { turn, answer } = await run('read README.md and count its lines');
  assert.equal(answer, 'README.md has 3 lines.');
  assert.deepEqual(inShort(turn.deeds).slice(0, 3), [
    'started 1 read_file rehearsal_1_1',
    'done 1 rehearsal_1_1 ok',
    'results 1 rehearsal_1_1',
  ]);
  assert.equal((await run('count the words of README.md')).answer, 'README.md has 4 words.');
  assert.equal((await run('count the characters of README.md')).answer, 'README.md has 19 characters.');
  assert.equal((await run('how many lines does last.txt have?')).answer, 'last.txt has 2 lines.');
});

test('of a file that is too long to be seen whole it counts what it was given, and says so', async (t) => {
  const { run } = await setUp(t, { 'long.txt': 'word '.repeat(30_000), 'lines.txt': 'x\n'.repeat(70_000) });
  assert.match(
    (await run('count the words of long.txt')).answer,
    /^long\.txt has at least \d+ words; I was given only a part/,
  );
  assert.equal((await run('count the lines of lines.txt')).answer, 'lines.txt has 70000 lines.');
});

test('reading shows the beginning of the file', async (t) => {
  const { run } = await setUp(t, { 'a.txt': 'first\nsecond\n', 'empty.txt': '', 'many.txt': 'line\n'.repeat(30) });
  assert.equal((await run('read a.txt')).answer, 'a.txt (2 lines, 13 bytes):\nfirst\nsecond');
  assert.equal((await run('read empty.txt')).answer, 'empty.txt is empty.');
  assert.match((await run('read many.txt')).answer, /… \(10 more lines\)$/);
});

test('listing, finding and searching', async (t) => {
  const { run } = await setUp(t, { 'src/a.ts': 'const needle = 1;\n', 'src/b.js': 'x\n', 'c.txt': 'needle\n' });
  assert.equal((await run('list .')).answer, '. has 2 entries: c.txt, src/');
  assert.equal((await run('find *.ts in src')).answer, '*.ts fits 1 file: src/a.ts');
  assert.equal((await run('find *.py')).answer, '*.py fits 0 files.');
  assert.equal(
    (await run('search for needle')).answer,
    '"needle" is in 2 lines of 2 files:\nc.txt:1: needle\nsrc/a.ts:1: const needle = 1;',
  );
  assert.equal(
    (await run('grep needle in src/*.ts')).answer,
    '"needle" is in 1 line of 1 file:\nsrc/a.ts:1: const needle = 1;',
  );
  assert.match((await run('grep nothing in c.txt')).answer, /^"nothing" is in no file I searched \(1 file\)/);
});

test('writing and editing really change files', async (t) => {
  const { cwd, run } = await setUp(t);
  const { answer } = await run(
    'write "hello\\nworld\\n" to notes/x.txt, then edit notes/x.txt replace "hello" with "bye"',
  );
  assert.equal(answer, 'I created notes/x.txt (12 bytes).\nI replaced 1 place in notes/x.txt.');
  assert.equal(await readFile(join(cwd, 'notes', 'x.txt'), 'utf8'), 'bye\nworld\n');
});

test('running shows output and exit code; a failing program is reported, not hidden', async (t) => {
  const { run } = await setUp(t);
  const fine = await run('run echo hi');
  assert.equal(fine.answer, '`echo hi` ended with exit code 0:\nhi');
  assert.deepEqual(inShort(fine.turn.deedsOf('output')), ['output rehearsal_1_1 stdout hi\n']);
  const failed = await run('run `echo oh no >&2; exit 3`');
  assert.equal(failed.answer, '`echo oh no >&2; exit 3` ended with exit code 3:\noh no');
  assert.equal(failed.turn.deedsOf('done')[0]?.done.ok, false);
});

test('fetching reports status and text', async (t) => {
  const server = createServer((_request, response) => response.end('from afar'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x`;
  const { run } = await setUp(t);
  assert.equal((await run(`fetch ${url}`)).answer, `${url} answered 200 (9 bytes):\nfrom afar`);
});

test('several calls in one round, reported in call order', async (t) => {
  const { run } = await setUp(t, { 'a.txt': 'a\n', 'b.txt': 'b\nb\n' });
  const { turn, answer } = await run('in parallel: count the lines of a.txt and count the lines of b.txt', {
    settings: { parallelTools: true },
  });
  assert.equal(answer, 'a.txt has 1 line.\nb.txt has 2 lines.');
  assert.deepEqual(inShort(turn.deedsOf('results')), ['results 1 rehearsal_1_1 rehearsal_1_2']);
  assert.deepEqual(inShort(turn.deeds).slice(0, 2), [
    'started 1 read_file rehearsal_1_1',
    'started 1 read_file rehearsal_1_2',
  ]);
});

test('what fails is reported plainly, and the rest continues', async (t) => {
  const { run } = await setUp(t, { 'a.txt': 'a\n' });
  const { answer } = await run('read missing.txt; call no_such_tool; count the lines of a.txt');
  assert.equal(
    answer,
    'I could not read missing.txt: "missing.txt" does not exist\n' +
      'I could not call no_such_tool: unknown tool: no_such_tool\n' +
      'a.txt has 1 line.',
  );
});

test('a call that is denied is not made, and the answer says so', async (t) => {
  const { cwd, run } = await setUp(t);
  const { answer, turn } = await run('write "x" to a.txt then say "anyway"', { answers: () => ({ state: 'denied' }) });
  assert.match(answer, /^I could not write a\.txt: not run: it was not allowed.*\nanyway$/);
  assert.deepEqual(turn.asked[0]?.tool?.input, { path: 'a.txt', content: 'x', create_dirs: true });
  await assert.rejects(readFile(join(cwd, 'a.txt')), { code: 'ENOENT' });
});

test('a question is put to the user and its answer used', async (t) => {
  const { run } = await setUp(t);
  const { answer, turn } = await run('ask "Which colour?" with choices "red", "blue"', {
    answers: () => ({ state: 'allowed', answer: { decision: 'allow', remember: 'once', content: { answer: 'blue' } } }),
  });
  assert.equal(answer, 'You answered: blue');
  assert.equal(turn.asked[0]?.kind, 'question');
});

test('thinking, saying and failing', async (t) => {
  const { run } = await setUp(t);
  const { turn } = await run('think about the weather; say "nice"');
  assert.equal(
    turn
      .deedsOf('thought')
      .map(({ text }) => text)
      .join(''),
    'the weather',
  );
  await assert.rejects(run('say "so far" then fail "boom"'), { code: 'provider_error', message: 'boom' });
});

test('a wait ends at once when the turn is interrupted', async (t) => {
  const { run } = await setUp(t);
  const { outcome, answer } = await run('say "before", wait 5 minutes, say "after"', {
    onDeed: (deed, turn) => deed.kind === 'answer' && setImmediate(() => turn.interrupt()),
  });
  assert.deepEqual(outcome, { stopReason: 'interrupted' });
  assert.equal(answer, 'before');
});

test('what is said to a running turn is done after what was asked first', async (t) => {
  const { run } = await setUp(t, { 'a.txt': 'a\n' });
  const { answer } = await run('count the lines of a.txt then say "one"', {
    onDeed: (deed, turn) => deed.kind === 'started' && deed.round === 1 && turn.steer('say "two"'),
  });
  assert.equal(answer, 'a.txt has 1 line.\none\ntwo');
});

test('words it does not understand are answered honestly, with what it understands', async (t) => {
  const { run } = await setUp(t);
  const { answer } = await run('What is the meaning of life?');
  assert.match(
    answer,
    /^I do not understand "What is the meaning of life\?"\. I am no model; I understand:\n- read FILE/,
  );
});

test('it says that it cannot see images', async (t) => {
  const { cwd, run } = await setUp(t);
  const image = { path: 'a.png', mimeType: 'image/png', dataUrl: 'data:image/png;base64,AA==', byteSize: 1 };
  const log = new FakeSessionLog({ cwd, history: begun });
  const turn = new FakeTurn({ log, cwd, continued: true });
  log.remember([{ role: 'user', turn: turn.id, text: 'say hi [Image 1]', images: [image] }]);
  const { answer } = await run('', { log, continued: true });
  assert.equal(answer, 'I was given an image and cannot see images.\nhi');
});

test('answers come in small pieces, and tokens are estimated from characters', async (t) => {
  const { run } = await setUp(t);
  const text = 'a longer answer that does not fit into one single piece';
  const { turn } = await run(`say "${text}"`);
  const pieces = turn.deedsOf('answer').map((deed) => deed.text);
  assert.ok(pieces.length >= 3 && pieces.every((piece) => piece.length <= 25));
  assert.equal(pieces.join(''), text);
  assert.equal(turn.used[0]?.output_tokens, Math.ceil(text.length / 4));
  assert.match(REHEARSAL_BANNER, /estimates/);
});

test('the same conversation always comes to the same answer', async (t) => {
  const { run } = await setUp(t, { 'a.txt': 'x\n' });
  const answers = [];
  for (let at = 0; at < 2; at += 1) answers.push((await run('read a.txt, list ., say done')).turn.items);
  assert.deepEqual(answers[0]?.map(stripped), answers[1]?.map(stripped));
});

/** Returns the item without the values that the disk and the clock add. */
const stripped = (item: HistoryItem): unknown => (item.role === 'tool' ? { ...item, result: null } : item);

test('a turn continues after a restart: what was read is reported, what follows is done', async (t) => {
  const { cwd, run } = await setUp(t, { 'b.txt': 'b\nb\n' });
  const turn = 'turn-1';
  const history: HistoryItem[] = [
    ...begun,
    { role: 'user', turn, text: 'count the lines of a.txt; count the lines of b.txt' },
    {
      role: 'assistant',
      turn,
      text: '',
      calls: [{ callId: 'rehearsal_1_1', name: 'read_file', input: { path: 'a.txt' } }],
    },
    { role: 'tool', turn, callId: 'rehearsal_1_1', name: 'read_file', ok: true, result: { total_lines: 7 } },
  ];
  const { answer } = await run('', { log: new FakeSessionLog({ cwd, history }), continued: true });
  assert.equal(answer, 'a.txt has 7 lines.\nb.txt has 2 lines.');
});

test('the backend says what it is and has no model', async (t) => {
  const { backend, run, hosts, cwd } = await setUp(t);
  assert.equal(backend.name, 'rehearsal');
  assert.equal(backend.continues, true);
  assert.equal(backend.modelOf({}), null);
  assert.equal(backend.preflight({}), undefined);
  await run('list .', { log: new FakeSessionLog({ id: 'mine', cwd, history: begun }) });
  assert.equal([...hosts[0]!.host.sessions].length, 1);
  backend.release?.('mine');
  for (let turns = 0; [...hosts[0]!.host.sessions].length > 0 && turns < 100; turns += 1)
    await new Promise(setImmediate);
  assert.equal([...hosts[0]!.host.sessions].length, 0);
});
