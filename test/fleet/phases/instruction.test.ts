import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type InstructionInput, repairPrompt, replyInstruction } from '../../../src/fleet/phases/instruction.ts';
import { extractReply } from '../../../src/fleet/phases/reply.ts';
import { PRIORITIES } from '../../../src/protocol/fleet.ts';

const instruction = (more: Partial<InstructionInput> = {}): string =>
  replyInstruction({
    taskId: 't-1',
    replySchema: 'structured',
    priority: 'normal',
    tokenBudget: null,
    deadline: null,
    cwd: '/repos/shop',
    ...more,
  });

test('the executor receives where to work, its budget, its deadline and how long that is', () => {
  const text = instruction({
    tokenBudget: 20_000,
    deadline: '2026-06-01T12:30:00.000Z',
    nowMs: Date.parse('2026-06-01T12:00:00Z'),
  });
  for (const said of ['/repos/shop', '20000', '2026-06-01T12:30:00.000Z', 'in 30 min'])
    assert.ok(text.includes(said), said);
  for (const unsaid of ['budget', 'Deadline']) assert.equal(instruction().includes(unsaid), false);
  assert.ok(instruction({ deadline: '2026-06-01T12:30:00.000Z' }).includes('2026-06-01T12:30:00.000Z. '));
});

test('each priority asks for another depth of checking', () => {
  const texts = PRIORITIES.map((priority) => instruction({ priority }));
  assert.equal(new Set(texts).size, PRIORITIES.length);
  assert.match(instruction({ priority: 'urgent' }), /only that what you changed works/);
  assert.match(instruction({ priority: 'low' }), /all checks/);
});

test('prose asks for no block, structured for one at the end, json for nothing else', () => {
  assert.equal(instruction({ replySchema: 'prose' }).includes('TASK_RESULT'), false);
  assert.match(instruction(), /end the reply with exactly one fenced block/);
  assert.match(instruction({ replySchema: 'json' }), /one JSON object of this form and nothing else/);
});

test('an answer of a given shape needs a block, also where prose would do', () => {
  const answerSchema = { type: 'object', required: ['count'] };
  const text = instruction({ replySchema: 'prose', answerSchema });
  assert.ok(text.includes('TASK_RESULT') && text.includes(JSON.stringify(answerSchema)));
  assert.equal(instruction().includes('"answer"'), false);
});

test('an id with quotes stands in the example as JSON has it', () => {
  const taskId = 'a "b" \\ c';
  const filled = instruction({ taskId }).replace('done|blocked|error|partial', 'done');
  assert.equal(extractReply({ text: filled, taskId, replySchema: 'structured', exitCode: 0 }).result?.status, 'done');
});

test('a repair names the problems in words, asks for the block alone, and is bounded', () => {
  const problems = [
    'R_NO_BLOCK',
    'R_MULTIPLE',
    `answer/x ${'y'.repeat(900)}`,
    ...Array(20).fill('answer/z must be string'),
  ];
  const text = repairPrompt({ taskId: 't-1', replySchema: 'structured', problems });
  assert.match(text, /there was no TASK_RESULT/);
  assert.match(text, /do not continue/);
  assert.equal(text.includes('R_'), false);
  assert.equal(text.split('\n').filter((line) => line.startsWith('- ')).length, 8);
  assert.ok(text.length < 4000);
});

test('a repair without a nameable problem still says what is wanted, in the form of the task', () => {
  const text = repairPrompt({ taskId: 't-1', replySchema: 'json', problems: ['R_MULTIPLE'] });
  assert.match(text, /no usable TASK_RESULT/);
  assert.match(text, /and nothing else/);
  const echoed = extractReply({ text, taskId: 't-1', replySchema: 'json', exitCode: 0 });
  assert.equal(echoed.source, 'fallback');
});
