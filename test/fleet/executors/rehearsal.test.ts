/**
 * The rehearsal executor: its actions for a brief, its counts, and its end.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ExecutorOutcome } from '../../../src/fleet/executors/executor.ts';
import { REHEARSAL_BANNER, rehearsalExecutor } from '../../../src/fleet/executors/rehearsal/rehearsal.ts';
import { directivesOf } from '../../../src/fleet/executors/rehearsal/rehearsal-plan.ts';
import { tokensSpent } from '../../../src/fleet/executors/usage.ts';
import { cpuMsOf } from '../support/cpu-time.ts';
import { fakeContext, taskOf } from './fake-context.ts';

function folder(): { path: string; [Symbol.dispose](): void } {
  const path = mkdtempSync(join(tmpdir(), 'handfast-rehearsal-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** Returns the block at the end of a reply. */
const blockOf = ({ text }: ExecutorOutcome) => JSON.parse(/```json\n([\s\S]*)\n```$/.exec(text)?.[1] ?? 'null');

const ASKED = '\n\nEnd with one TASK_RESULT block.';

test('plain words become directives, and prose becomes none', () => {
  assert.deepEqual(directivesOf('Please read README.md and count its lines.'), [
    { kind: 'read', path: 'README.md', count: 'lines' },
  ]);
  assert.deepEqual(directivesOf('- write "a, b; then c\\n" to notes/a.txt, then append `x` to notes/a.txt'), [
    { kind: 'write', text: 'a, b; then c\n', path: 'notes/a.txt' },
    { kind: 'append', text: 'x', path: 'notes/a.txt' },
  ]);
  assert.deepEqual(directivesOf('create NEW.md with text "hello"; count the words of NEW.md'), [
    { kind: 'write', text: 'hello', path: 'NEW.md' },
    { kind: 'read', path: 'NEW.md', count: 'words' },
  ]);
  assert.deepEqual(directivesOf("run git commit -m 'one; two' and wait 1.5 s and spend 1,200 tokens"), [
    { kind: 'run', command: "git commit -m 'one; two'" },
    { kind: 'wait', ms: 1500 },
    { kind: 'spend', tokens: 1200 },
  ]);
  assert.deepEqual(directivesOf('Brief: ask "Which one?" with choices "a", "b"\nanswer {"x": [1, "and read y"]}'), [
    { kind: 'ask', question: 'Which one?', choices: ['a', 'b'] },
    { kind: 'answer', value: { x: [1, 'and read y'] } },
  ]);
  assert.deepEqual(directivesOf('say no result\nnever say a result\nfail "out of luck"'), [
    { kind: 'no_result', ever: false },
    { kind: 'no_result', ever: true },
    { kind: 'fail', text: 'out of luck' },
  ]);
  assert.deepEqual(directivesOf('Somebody should read this.\n```\nread a.txt\n```\nWork in the folder.'), []);
});

test('a long line of quotes and joining words takes no long time', () => {
  const text = `${'read "'.repeat(680)}\nread ${'and '.repeat(20_000)}`;
  const took = cpuMsOf(() => directivesOf(text));
  // Word by word against all words behind it, it takes some seconds.
  assert.ok(took < 1000, `it took ${Math.round(took)} ms`);
});

test('a brief is really carried out in the working directory, counted, and reported with a result block', async () => {
  using work = folder();
  writeFileSync(join(work.path, 'README.md'), 'one\ntwo\nthree\n');
  const context = fakeContext(work.path);
  const executor = rehearsalExecutor();
  const prompt = `read README.md and count its lines\nwrite "hello" to out/note.txt\nrun printf '%s' "$((1+1))"${ASKED}`;
  const outcome = await executor.start(taskOf(prompt), context).outcome;
  assert.equal(outcome.ending, 'completed');
  assert.ok(outcome.text.startsWith(REHEARSAL_BANNER));
  assert.match(outcome.text, /README\.md has 3 lines\./);
  assert.match(outcome.text, /Ran printf.*:\n2/);
  assert.equal(readFileSync(join(work.path, 'out', 'note.txt'), 'utf8'), 'hello');
  const block = blockOf(outcome);
  assert.equal(block.status, 'done');
  assert.equal(block.task_id, 't-1');
  assert.deepEqual(block.artifacts, { files_changed: ['out/note.txt'] });
  assert.equal(outcome.usage.source, 'measured');
  assert.equal(outcome.usage.input, Math.ceil((prompt.length + 14 + 1) / 4));
  assert.equal(outcome.usage.output, Math.ceil(outcome.text.length / 4));
  assert.deepEqual(context.used.at(-1), outcome.usage);
  assert.deepEqual(
    context.progressed.map(({ percent }) => percent),
    [0, 33, 66],
  );
  assert.equal(context.pids.length, 1);
});

test('the first directive that fails ends the work, and what is left is said', async () => {
  using work = folder();
  const executor = rehearsalExecutor();
  const prompt = `write "x" to a.txt\nrun exit 3\nwrite "y" to b.txt${ASKED}`;
  const partial = blockOf(await executor.start(taskOf(prompt), fakeContext(work.path)).outcome);
  assert.equal(partial.status, 'partial');
  assert.deepEqual(partial.next_steps, ['run exit 3: exit code 3: ', 'write b.txt']);
  const nothing = blockOf(await executor.start(taskOf(`read no.txt${ASKED}`), fakeContext(work.path)).outcome);
  assert.equal(nothing.status, 'error');
  assert.equal(nothing.error_summary, 'read no.txt: no.txt does not exist');
});

test('nothing outside of the directory is touched, and a task that may only read changes nothing', async () => {
  using work = folder();
  const executor = rehearsalExecutor();
  const start = (text: string, access: 'read' | 'write') =>
    executor.start(taskOf(text + ASKED, { access }), fakeContext(work.path)).outcome;
  assert.equal(blockOf(await start('write "x" to ../out.txt', 'write')).status, 'error');
  assert.match(blockOf(await start('append "x" to a.txt', 'read')).error_summary, /may only read/);
});

test('a brief without a directive is no success', async () => {
  using work = folder();
  const executor = rehearsalExecutor();
  const block = blockOf(await executor.start(taskOf(`Fix the flaky test.${ASKED}`), fakeContext(work.path)).outcome);
  assert.equal(block.status, 'partial');
});

test('a rehearsed failure is the outcome of the executor', async () => {
  using work = folder();
  const outcome = await rehearsalExecutor().start(taskOf('spend 40 tokens; fail "no luck"'), fakeContext(work.path))
    .outcome;
  assert.equal(outcome.failure, 'no luck');
  assert.ok((tokensSpent(outcome.usage) ?? 0) >= 40);
});

test('a budget can stop it while it spends, and what it did until then is handed back', async () => {
  using work = folder();
  const context = fakeContext(work.path, {
    onUsage: (usage, running) => (tokensSpent(usage) ?? 0) > 500 && running.stop(new Error('budget')),
  });
  const prompt = 'write "x" to a.txt; spend 10000 tokens; write "y" to b.txt';
  const outcome = await rehearsalExecutor().start(taskOf(prompt), context).outcome;
  assert.equal(outcome.ending, 'stopped');
  assert.match(outcome.text, /Wrote 1 characters to a\.txt/);
  const spent = tokensSpent(outcome.usage) ?? 0;
  assert.ok(spent > 500 && spent < 1200, `${spent}`);
});

test('a wait ends at once when the turn is stopped', async () => {
  using work = folder();
  const context = fakeContext(work.path);
  const { outcome } = rehearsalExecutor().start(taskOf('wait 10 minutes'), context);
  await context.until(({ progressed }) => progressed.length > 0);
  context.stop(new Error('cancelled'));
  assert.equal((await outcome).ending, 'stopped');
});

test('questions are asked, answered and refused', async () => {
  using work = folder();
  const executor = rehearsalExecutor();
  const asked = fakeContext(work.path, { answer: () => ({ allowed: true, content: { answer: 'blue' } }) });
  const { text } = await executor.start(taskOf('ask "Which colour?" with choices "red", "blue"'), asked).outcome;
  assert.match(text, /was answered: "blue"/);
  assert.deepEqual(asked.asked[0]?.schema?.properties, { answer: { type: 'string', enum: ['red', 'blue'] } });
  const refused = await executor.start(taskOf('ask "Why?"'), fakeContext(work.path)).outcome;
  assert.match(refused.text, /was not answered: nobody can be asked/);
});

test('what is steered in while it works is done too', async () => {
  using work = folder();
  const context = fakeContext(work.path);
  const execution = rehearsalExecutor().start(taskOf('wait 20 ms'), context);
  await context.until(({ progressed }) => progressed.length > 0);
  assert.equal(await execution.steer?.('write "steered" to s.txt'), 'injected');
  await execution.outcome;
  assert.equal(readFileSync(join(work.path, 's.txt'), 'utf8'), 'steered');
  assert.equal(await execution.steer?.('write "late" to s.txt'), 'rejected');
});

test('without a result at first it says it when it is asked for the block alone, unless it never does', async () => {
  using work = folder();
  const executor = rehearsalExecutor();
  const turn = (text: string, contextId: string) =>
    executor.start(taskOf(text + ASKED, { contextId }), fakeContext(work.path)).outcome;
  const first = await turn('write "x" to a.txt; say no result', 'c-1');
  assert.doesNotMatch(first.text, /```json/);
  assert.deepEqual(blockOf(await turn('Only the block, please.', 'c-1')).artifacts, { files_changed: ['a.txt'] });
  await turn('never say a result', 'c-2');
  assert.doesNotMatch((await turn('Only the block, please.', 'c-2')).text, /```json/);
});

test('a conversation is known after a restart, and what it held is counted as cached', async () => {
  using work = folder();
  const contextFile = join(work.path, 'home', 'rehearsal.json');
  const before = rehearsalExecutor({ contextFile });
  assert.equal(before.hasConversation('c-1'), false);
  const first = await before.start(taskOf('say "hello"'), fakeContext(work.path)).outcome;
  assert.equal(first.usage.cache_read, 0);
  const after = rehearsalExecutor({ contextFile });
  assert.equal(after.hasConversation('c-1'), true);
  const second = await after.start(taskOf('say "again"'), fakeContext(work.path)).outcome;
  assert.equal(second.usage.cache_read, Math.ceil(('say "hello"'.length + first.text.length) / 4));
});

test('where nothing but the object is wanted, there is nothing else', async () => {
  using work = folder();
  const prompt = 'answer {"count": 3}\nReply with one TASK_RESULT object and nothing else.';
  const { text } = await rehearsalExecutor().start(taskOf(prompt), fakeContext(work.path)).outcome;
  const result = JSON.parse(text);
  assert.equal(result.status, 'done');
  assert.deepEqual(result.answer, { count: 3 });
});

test('a stopped executor waits for no answer', async () => {
  using work = folder();
  const executor = rehearsalExecutor();
  const context = fakeContext(work.path, { answer: () => new Promise(() => {}) });
  const { outcome } = executor.start(taskOf('ask "Why?"'), context);
  await context.until(({ asked }) => asked.length > 0);
  await executor.stop();
  assert.equal((await outcome).ending, 'stopped');
});
