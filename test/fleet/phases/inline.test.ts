/**
 * Inline hints: cases that the published vectors leave open, and that no text can make the parser slow or lose a word.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Inline, parseInline } from '../../../src/fleet/phases/inline.ts';
import { emitInline } from '../../../src/fleet/phases/inline-emit.ts';
import { PRIORITIES, REPLY_SCHEMAS } from '../../../src/protocol/fleet.ts';
import fc from '../../support/properties.ts';
import { cpuMsOf } from '../support/cpu-time.ts';

const block = (...lines: readonly string[]): Inline =>
  parseInline(['TASK DISPATCH (inline)', ...lines, '', 'Brief: x'].join('\n'));

const hintsOf = (...lines: readonly string[]): object => ({ ...block(...lines).hints });
const codesOf = (...lines: readonly string[]): readonly string[] => block(...lines).diagnostics;

test('headers are taken in every spelling, and nothing else is a header', () => {
  const headers = ['task-dispatch', 'Task  Dispatch (INLINE):', '> **TASK_DISPATCH (inline)**', '### task dispatch:'];
  for (const header of headers) {
    assert.deepEqual({ ...parseInline(`\uFEFF\n\n${header}\npriority: low\n\nx`).hints }, { priority: 'low' }, header);
  }
  for (const text of ['TASK DISPATCH please', 'TASKDISPATCH', 'My TASK DISPATCH', '- TASK DISPATCH', '']) {
    const read = parseInline(`${text}\r\npriority: low\r\n`);
    assert.deepEqual([read.is_dispatch, read.brief], [false, `${text}\r\npriority: low\r\n`]);
  }
  assert.equal(parseInline('```yaml text\nTASK DISPATCH\n```').is_dispatch, false);
  assert.equal(parseInline('```\n```\nTASK DISPATCH').is_dispatch, false);
});

test('budgets are plain numbers in the ways people write them, and no other numbers', () => {
  const good = { '4000': 4000, '4,000': 4000, '1_250_000': 1_250_000, '4k': 4000, '1.5M': 1_500_000, '0.5k': 500 };
  for (const [text, value] of Object.entries(good))
    assert.deepEqual(hintsOf(`token_budget: ${text}`), { token_budget: value }, text);
  const bad = ['0', '00', '04000', '-1', '+1', '1e3', '4000.0', '0x10', '0o7', '1.0001k', '0k', '1,00', '1,000_000'];
  for (const text of [...bad, '9007199254740993', '4000 tokens', '[4000]', '9'.repeat(400), '٤٠٠٠', '"', 'k'])
    assert.deepEqual(codesOf(`token_budget: ${text}`), ['H_BAD_VALUE'], text);
});

test('lists are taken in brackets, bare, as a block, and as one name; names meet in canonical form', () => {
  const expected = { required_mcp: ['context_mode', 'trek'] };
  const forms = ['[context-mode, Trek]', 'context mode, trek', `["context_mode", 'trek',] # two`];
  for (const form of forms) assert.deepEqual(hintsOf(`required_mcp: ${form}`), expected, form);
  assert.deepEqual(hintsOf('required_mcp:', '* context_mode', '# and', '* trek', '* TREK'), expected);
  assert.deepEqual(hintsOf('required_mcp: []'), { required_mcp: [] });
  assert.deepEqual(hintsOf('required_mcp: ~'), {});
  assert.deepEqual(hintsOf('required_tools: terminal'), { required_capabilities: ['terminal'] });
  for (const bad of ['[a, [b]]', '[a', 'a]', '[a] b', '[a,,b]', '[~]', `"a" b`, '"a', `'a`, '[a, ""]'])
    assert.deepEqual(codesOf(`required_mcp: ${bad}`), ['H_BAD_VALUE'], bad);
  assert.deepEqual(codesOf('required_mcp: [&a b]'), ['H_YAML_FEATURE']);
});

test('what YAML would expand is refused, never expanded', () => {
  for (const value of ['&a high', '*a', '!!str high', '|', '>', '{a: b}', '%TAG', '@x', '`high`', '? a', '<<'])
    assert.deepEqual(codesOf(`priority: ${value}`), ['H_YAML_FEATURE'], value);
  const aliased = block('required_mcp: |', '  - a', '  - b', 'priority: high');
  assert.deepEqual([aliased.diagnostics, { ...aliased.hints }], [['H_YAML_FEATURE'], { priority: 'high' }]);
});

test('quotes, comments and absent values are read as YAML reads them', () => {
  assert.deepEqual(hintsOf(`task_id: 'it''s #1'`), { task_id: "it's #1" });
  assert.deepEqual(hintsOf('task_id: "a\\u0062\\n"'), {});
  assert.deepEqual(hintsOf('task_id: "a\\u0062" # why'), { task_id: 'ab' });
  assert.deepEqual(hintsOf('task_id: a#b'), { task_id: 'a#b' });
  assert.deepEqual(hintsOf('task_id: "null"'), { task_id: 'null' });
  for (const nothing of ['', '~', 'null', '# later']) assert.deepEqual(hintsOf(`task_id: ${nothing}`), {}, nothing);
});

test('a deadline may have a blank for its T and is shown in UTC', () => {
  const expected = { deadline: '2026-06-01T19:00:00.000Z' };
  assert.deepEqual(hintsOf('deadline: 2026-06-01 21:00:00+02:00'), expected);
  assert.deepEqual(codesOf('deadline: 2026-06-31T21:00:00Z'), ['H_BAD_VALUE']);
  assert.deepEqual(codesOf('deadline: 2026-06-01'), ['H_BAD_VALUE']);
});

test('a nested line is skipped and told, once its parent is dropped silently', () => {
  assert.deepEqual(codesOf('priority: high', '  token_budget: 9'), ['H_NESTED']);
  assert.deepEqual(codesOf('priority: whenever', '  token_budget: 9'), ['H_BAD_VALUE']);
  const nested = block('required_mcp:', '  first: a', '  second: b', 'priority: low');
  assert.deepEqual([nested.diagnostics, { ...nested.hints }], [['H_YAML_FEATURE'], { priority: 'low' }]);
});

test('the first of two equal keys counts, with any value', () => {
  assert.deepEqual(codesOf('token_budget: 0', 'token-budget: 9'), ['H_BAD_VALUE', 'H_DUPLICATE_KEY']);
  assert.deepEqual(hintsOf('required_tools: a', 'required_capabilities: b'), { required_capabilities: ['a'] });
});

test('keys that are members of every object are unknown keys like any other', () => {
  const read = block('constructor: a', 'toString: b', 'required-list:', '- c');
  assert.deepEqual(
    [...read.unknown],
    [
      ['constructor', 'a'],
      ['tostring', 'b'],
      ['required_list', '- c'],
    ],
  );
  assert.deepEqual({ ...read.hints }, {});
});

test('a block that is too long ends, and the rest of it is the brief', () => {
  const lines = Array.from({ length: 70 }, (_, index) => `# ${index + 1}`);
  const long = parseInline(['TASK DISPATCH', ...lines].join('\n'));
  assert.deepEqual([long.diagnostics, long.brief], [['H_LIMIT'], lines.slice(64).join('\n')]);
  const wide = parseInline(`TASK DISPATCH\npriority: low\nmood: ${'x'.repeat(9000)}\n\nBrief: y`);
  assert.deepEqual([wide.diagnostics, { ...wide.hints }, wide.brief.length], [['H_LIMIT'], { priority: 'low' }, 9016]);
});

test('a fence around the whole task is taken off, fences inside the brief stay', () => {
  const inner = 'Run\n```js\nnpm()\n```\nthen stop.';
  const read = parseInline(`~~~~\nTASK DISPATCH\npriority: low\n\nBrief: ${inner}\n~~~~\n`);
  assert.equal(read.brief, inner);
  assert.equal(parseInline(`\`\`\`\nTASK DISPATCH\n\nBrief: ${inner}\n\`\`\``).brief, inner);
  assert.equal(parseInline(`\`\`\`\nTASK DISPATCH\n\`\`\`\n${inner}`).brief, inner);
});

const name = fc.string({ unit: 'binary', minLength: 1, maxLength: 12 });
const hints = fc.record(
  {
    task_id: name,
    priority: fc.constantFrom(...PRIORITIES),
    reply_schema: fc.constantFrom(...REPLY_SCHEMAS),
    token_budget: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    required_mcp: fc.array(fc.stringMatching(/^[a-z_.][a-z0-9_.,:#"' ]{0,9}[a-z0-9_]$/), { maxLength: 4 }),
    deadline: fc
      .date({ min: new Date('1970-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })
      .map((date) => date.toISOString()),
  },
  { requiredKeys: [] },
);

test('what is written is read back: hints and brief, for any values', () => {
  const property = fc.property(hints, fc.string({ unit: 'binary', maxLength: 60 }), (given, text) => {
    const brief = text.replace(/\r/g, '');
    const read = parseInline(emitInline(given, brief));
    const list = given.required_mcp?.map((each) => each.trim().replaceAll(' ', '_'));
    const { task_id: _id, required_mcp: _mcp, ...same } = given;
    const { task_id, required_mcp, ...got } = read.hints;
    assert.deepEqual(got, { ...same });
    assert.deepEqual(required_mcp ?? [], [...new Set(list ?? [])]);
    // An id the protocol does not allow is dropped and told; all others come back as they are.
    if (read.diagnostics.includes('H_BAD_VALUE')) assert.equal(task_id, undefined);
    else assert.equal(task_id, given.task_id);
    assert.equal(read.brief, trimmedLines(brief));
  });
  fc.assert(property, { numRuns: 200 });
});

/** Returns a text without blank lines at either end. */
function trimmedLines(text: string): string {
  const lines = text.split('\n');
  while (lines[0]?.trim() === '') lines.shift();
  while (lines.at(-1)?.trim() === '') lines.pop();
  return lines.join('\n');
}

const junk = fc.array(
  fc.oneof(
    fc.constantFrom('TASK DISPATCH', 'priority: high', 'Brief: go', '- a', '  - b', '```', '~~~', '---', '', '  x: y'),
    fc.constantFrom(
      'required_mcp:',
      'required_mcp: [a',
      '# c',
      '&a',
      '**k**: v',
      'token_budget: 1',
      '"',
      "'",
      '\u2028',
    ),
    fc.string({ maxLength: 12 }),
  ),
  { maxLength: 24 },
);

test('no text makes the parser throw, forget a word of the brief, or answer differently', () => {
  const property = fc.property(junk, (lines) => {
    const text = `TASK DISPATCH\n${lines.join('\n')}`;
    const read = parseInline(text);
    assert.deepEqual(parseInline(text), read);
    assert.ok(text.replace(/\r\n?/g, '\n').includes(read.brief.split('\n')[0] as string));
    assert.equal(read.brief === '', read.diagnostics.includes('H_EMPTY_BRIEF'));
    const marker = `${text}\nlastword`;
    assert.ok(JSON.stringify([parseInline(marker).brief, [...parseInline(marker).unknown]]).includes('lastword'));
  });
  fc.assert(property, { numRuns: 500 });
});

test('a megabyte of anything is read in linear time', () => {
  const size = 1024 * 1024;
  const worst = ['{', '`', '- ', '\n', ' ', '"', '#', '*', '> ', 'a: ', '```\n', '\r', '[', '\\'];
  for (const piece of worst) {
    const text = piece.repeat(Math.ceil(size / piece.length));
    for (const whole of [
      text,
      `TASK DISPATCH\n${text}`,
      `\`\`\`\nTASK DISPATCH\n\n${text}`,
      `TASK DISPATCH\nk: "${text}`,
    ]) {
      assert.ok(cpuMsOf(() => parseInline(whole)) < 1000, JSON.stringify(piece));
    }
  }
});
