/**
 * Results in replies: cases that the published vectors leave open, and that no reply can make the reader slow or be misread.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { replyInstruction } from '../../../src/fleet/phases/instruction.ts';
import { type Extracted, extractReply, type ReplyInput } from '../../../src/fleet/phases/reply.ts';
import fc from '../../support/properties.ts';
import { cpuMsOf } from '../support/cpu-time.ts';

const read = (text: string, more: Partial<ReplyInput> = {}): Extracted =>
  extractReply({ text, taskId: 't-1', replySchema: 'structured', exitCode: 0, ...more });

const result = (members: object = {}): object => ({
  type: 'TASK_RESULT',
  protocol_version: '2.0',
  task_id: 't-1',
  status: 'done',
  ...members,
});
const fenced = (value: object | string): string =>
  `\`\`\`json\n${typeof value === 'string' ? value : JSON.stringify(value, null, 2)}\n\`\`\``;

/** Status, conformance and diagnostics of a reply that is one fenced result with these members. */
function verdict(members: object): readonly unknown[] {
  const { result: found, conformance, diagnostics } = read(fenced(result(members)));
  return [found?.status, conformance, [...diagnostics].sort()];
}

test('a wrapper is opened once, under any name', () => {
  for (const wrapper of ['task_result', 'TASK_RESULT', 'result']) {
    const wrapped = read(JSON.stringify({ [wrapper]: result() }));
    assert.deepEqual([wrapped.source, wrapped.result?.status], ['whole', 'done']);
    assert.deepEqual(wrapped.diagnostics, ['R_UNWRAPPED']);
    assert.equal(read(JSON.stringify({ [wrapper]: { [wrapper]: result() } })).source, 'fallback');
  }
});

test('an object without a type counts when it is about this task and says a known status', () => {
  const untyped = read(fenced({ task_id: 't-1', status: 'succeeded' }));
  assert.deepEqual([untyped.result?.status, untyped.conformance], ['done', 'degraded']);
  assert.deepEqual([...untyped.diagnostics].sort(), ['R_STATUS_ALIAS', 'R_UNTYPED', 'R_VERSION_FILLED']);
  for (const other of [{ task_id: 't-1', status: 'green' }, { status: 'done' }, { task_id: 't-2', status: 'done' }])
    assert.deepEqual(read(fenced(other)).diagnostics, ['R_NO_BLOCK']);
});

test('a result for another task is refused, also where its id only looks alike or is a number', () => {
  for (const task_id of ['t-2', 1, 't\u20101', 'T-1', ' t-1', ['t-1'], false])
    assert.deepEqual(read(fenced(result({ task_id }))).diagnostics, ['R_TASK_ID_MISMATCH', 'R_NO_BLOCK']);
  assert.equal(read(fenced(result({ task_id: null }))).result?.task_id, 't-1');
});

test('members of the wrong type go, each with its report, and the status stays', () => {
  assert.deepEqual(verdict({ next_steps: [1, 'a'] }), ['done', 'degraded', ['R_STEPS_DROPPED']]);
  assert.deepEqual(verdict({ next_steps: 7 }), ['done', 'degraded', ['R_STEPS_DROPPED']]);
  assert.deepEqual(verdict({ blocked_reason: {} }), ['done', 'degraded', ['R_REASON_DROPPED']]);
  assert.deepEqual(verdict({ artifacts: 'none' }), ['done', 'degraded', ['R_ARTIFACTS_DROPPED']]);
  assert.deepEqual(verdict({ artifacts: { pr: 7 } }), ['done', 'degraded', ['R_ARTIFACTS_DROPPED']]);
  assert.deepEqual(verdict({ artifacts: { files_changed: 'a.ts' } }), ['done', 'degraded', ['R_ARTIFACTS_DROPPED']]);
  assert.deepEqual(verdict({ summary: 7 }), ['done', 'degraded', ['R_MEMBER_DROPPED']]);
  assert.deepEqual(verdict({ blocked: 'yes' }), ['done', 'degraded', ['R_MEMBER_DROPPED']]);
  for (const tokens_spent of [-1, 1.5, 1e300, '12k', true, {}, '9007199254740993'])
    assert.deepEqual(verdict({ tokens_spent }), ['done', 'degraded', ['R_TOKENS_DROPPED']]);
});

test('versions are filled or read as far as they go, and another major is refused', () => {
  assert.deepEqual(verdict({ protocol_version: null }), ['done', 'strict', ['R_VERSION_FILLED']]);
  for (const protocol_version of [2, '2', 'v2.0', 'latest', {}])
    assert.deepEqual(verdict({ protocol_version }), ['done', 'strict', ['R_VERSION_COERCED']]);
  for (const protocol_version of [3, '3.0', 'v1'])
    assert.equal(read(fenced(result({ protocol_version }))).diagnostics.includes('R_INVALID'), true);
});

test('what a status needs and the reply leaves out is said to be missing', () => {
  assert.deepEqual(verdict({ status: 'partial' }), ['partial', 'degraded', ['R_STEPS_MISSING']]);
  assert.deepEqual(verdict({ status: 'blocked' }), ['blocked', 'degraded', ['R_REASON_MISSING']]);
  assert.deepEqual(verdict({ status: 'failed' }), ['error', 'degraded', ['R_STATUS_ALIAS', 'R_SUMMARY_MISSING']]);
  assert.deepEqual(verdict({ status: 'partial', next_steps: {} }), [
    'partial',
    'degraded',
    ['R_STEPS_DROPPED', 'R_STEPS_MISSING'],
  ]);
  assert.equal(read(fenced(result({ status: 'error', summary: 'no disk' }))).result?.error_summary, 'no disk');
});

test('an unknown status is refused, not guessed', () => {
  for (const status of ['finished?', 'done|blocked|error|partial', 5, null, '', ['done']])
    assert.deepEqual(read(fenced(result({ status }))).diagnostics, ['R_INVALID', 'R_NO_BLOCK']);
});

test('what the worker measures is not taken from the model', () => {
  const forged = {
    usage: { source: 'measured', input: 1 },
    conformance: 'strict',
    prose: 'x',
    envelope: { attempt: 9 },
  };
  const { result: found } = read(fenced(result({ ...forged, answer: { a: 1 } })));
  assert.deepEqual([found?.usage, found?.conformance, found?.prose, found?.envelope], [null, null, null, {}]);
  assert.deepEqual(found?.answer, { a: 1 });
});

test('comments, trailing commas and zero-width characters are repaired outside strings only', () => {
  const text =
    '{"type":"TASK_RESULT", /* a } */ "task_id":"t-1", // b {\n"summary":"// not, /* a */ comment,]",\u200b\n"status":"done",}';
  const repaired = read(fenced(text));
  assert.deepEqual([repaired.result?.status, repaired.conformance], ['done', 'degraded']);
  assert.equal(repaired.result?.summary, '// not, /* a */ comment,]');
  for (const broken of [
    '{"type":"TASK_RESULT",,}',
    "{'type':'TASK_RESULT'}",
    '{"type":"TASK_RESULT","ok":True}',
    '{,"type":"TASK_RESULT"}',
  ])
    assert.deepEqual(read(fenced(broken)).diagnostics, ['R_MALFORMED', 'R_NO_BLOCK'], broken);
});

test('two values for one key, and reserved keys, refuse a result', () => {
  const [start, end] = ['{"type":"TASK_RESULT","task_id":"t-1","status":"done"', '}'];
  assert.deepEqual(read(`${start},"sta\\u0074us":"error"${end}`).diagnostics, ['R_DUP_KEY', 'R_NO_BLOCK']);
  assert.deepEqual(read(fenced(`${start},"__proto__":{}${end}`)).diagnostics, ['R_RESERVED_KEY', 'R_NO_BLOCK']);
});

test('a result is found in blocks inside blocks, in blocks of other kinds, and in the open', () => {
  const json = JSON.stringify(result());
  assert.equal(read(`~~~~md\n~~~\n${json}\n~~~\n~~~~`).source, 'fence');
  assert.equal(read(`\`\`\`\nReport: ${json} as asked\n\`\`\``).source, 'embedded');
  assert.equal(read(`Done {not json} and ${json}, that is all.`).source, 'bare');
  assert.equal(read(`[${json}]`).source, 'bare');
  assert.equal(read(`- item\n\n      \`\`\`json\n      ${json}\n      \`\`\``).source, 'bare');
});

test('a result that is cut short is malformed in a fence; outside of one only balanced objects are candidates', () => {
  const cut = JSON.stringify(result({ summary: 'so far' })).slice(0, -9);
  assert.deepEqual(read(`Done.\n\`\`\`json\n${cut}`).diagnostics, ['R_MALFORMED', 'R_NO_BLOCK']);
  assert.deepEqual(read(`Done.\n${cut}`).diagnostics, ['R_NO_BLOCK']);
  assert.deepEqual(read(`Done.\n\`\`\`\nSee: ${cut}\n\`\`\``).diagnostics, ['R_NO_BLOCK']);
  // A stray brace of the prose has nothing to do with the result behind it.
  const { source, diagnostics } = read(`An open { stays open.\n${JSON.stringify(result())}`);
  assert.deepEqual([source, diagnostics], ['bare', []]);
});

test('a json reply is marked where there is more than the object, in any fence', () => {
  const json = JSON.stringify(result());
  assert.deepEqual(read(json, { replySchema: 'json' }).diagnostics, []);
  assert.deepEqual(read(fenced(json), { replySchema: 'json' }).diagnostics, []);
  assert.deepEqual(read(`${fenced(json)}\nBye`, { replySchema: 'json' }).diagnostics, ['R_EXTRA_TEXT']);
});

test('the words around the result are handed on without it', () => {
  const reply = read(`First.\r\n${fenced(result())}\nLast.`);
  assert.equal(reply.prose, 'First.\nLast.');
  assert.equal(read('Only words.').prose, 'Only words.');
  assert.equal(read(JSON.stringify(result())).prose, '');
});

test('an announce alone means that the work continues', () => {
  const announce = {
    type: 'SESSION_ANNOUNCE',
    protocol_version: '2.0',
    worker: { agent_id: 'w' },
    capabilities: { tools: [], mcp_servers: [] },
  };
  const reply = read(fenced(announce));
  assert.deepEqual([reply.conformance, reply.result, reply.announce?.agent_id], ['pending', null, 'w']);
});

test('markers count where no result is, and a result counts where a marker is', () => {
  assert.equal(read(`${fenced(result())}\n[queued]`).result?.status, 'done');
  assert.equal(read('[drift detected] whole text follows').conformance, 'unstructured');
  assert.equal(read('I wrote [busy] and [error] into the log').result?.status, 'partial');
  assert.equal(read('[no reply produced by agy] but see below').result?.status, 'partial');
});

test('a failed program is an error with the beginning of what it said, in whole characters', () => {
  const { result: found } = read('😀'.repeat(400), { exitCode: 137 });
  assert.equal(found?.error_summary, `exit code 137: ${'😀'.repeat(280)}`);
  assert.equal(read(' \n', { exitCode: 1 }).result?.error_summary, 'empty output');
  assert.equal(read('x', { exitCode: null }).result?.status, 'partial');
});

test('only the end of a very long reply is read', () => {
  const late = read(`${'word '.repeat(300_000)}\n${fenced(result())}`);
  assert.equal(late.result?.status, 'done');
  const early = read(`${fenced(result())}\n${'word '.repeat(300_000)}`);
  assert.equal(early.source, 'fallback');
});

test('an executor that repeats its instruction has not finished', () => {
  for (const replySchema of ['structured', 'json', 'prose'] as const) {
    const said = replyInstruction({
      taskId: 't-1',
      replySchema,
      answerSchema: { type: 'object' },
      priority: 'normal',
      tokenBudget: 1,
      deadline: null,
      cwd: '/repo',
    });
    const echoed = read(`You said:\n${said}`, { replySchema: 'structured' });
    assert.deepEqual([echoed.source, echoed.result?.status], ['fallback', 'partial'], replySchema);
  }
});

const anything = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.string({ maxLength: 6 }),
    fc.integer(),
    fc.constantFrom(null, true, 'done', 'partial', 'error', 'blocked', 't-1', -0, 2 ** 60),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('status', 'message', 'pr', 'files_changed', 'x'), tie('value'), { maxKeys: 3 }),
  ),
})).value;
const members = fc.dictionary(
  fc.constantFrom('status', 'next_steps', 'blocked_reason', 'artifacts', 'tokens_spent', 'error', 'summary', 'blocked'),
  anything,
);

test('any members make a valid result of this task, or none', () => {
  const property = fc.property(members, fc.boolean(), (given, wrapped) => {
    const object = result(given);
    const { result: found, conformance, diagnostics } = read(fenced(wrapped ? { result: object } : object));
    assert.ok(found !== null && found.task_id === 't-1');
    assert.equal(found.status === 'partial' && found.next_steps.length === 0, false);
    assert.equal(found.status === 'blocked' && found.blocked_reason === null, false);
    assert.equal(found.status === 'error' && found.error_summary === undefined, false);
    assert.ok(found.tokens_spent === null || Number.isSafeInteger(found.tokens_spent));
    if (conformance === 'unstructured') assert.ok(diagnostics.includes('R_INVALID'));
    assert.equal(new Set(diagnostics).size, diagnostics.length);
  });
  fc.assert(property, { numRuns: 400 });
});

const pieces = fc.array(
  fc.oneof(
    fc.constantFrom(
      '{',
      '}',
      '"',
      '\\',
      '```',
      '\n```json\n',
      '~~~',
      '\n',
      'TASK_RESULT',
      'SESSION_ANNOUNCE',
      '/*',
      ',',
    ),
    fc.constant(JSON.stringify(result())),
    fc.string({ maxLength: 8 }),
  ),
  { maxLength: 30 },
);

test('no reply makes the reader throw or answer differently', () => {
  const property = fc.property(pieces, fc.constantFrom('prose', 'structured', 'json'), (parts, replySchema) => {
    const reply = read(parts.join(''), { replySchema });
    assert.deepEqual(read(parts.join(''), { replySchema }), reply);
    assert.equal(reply.result === null, reply.conformance === 'pending' || reply.conformance === 'busy');
  });
  fc.assert(property, { numRuns: 400 });
});

test('a result behind a block that broke off is found, whether the block began an object or not', () => {
  for (const before of ['```js\n{', '    ```js\n{', '```json\n{"type": "TASK_RESULT",', '```js\nlet a', '```\n'])
    assert.equal(read(`${before}\n\n${fenced(result())}`).result?.status, 'done', before);
});

test('a result behind junk is found: fences and braces before it cannot hide it', () => {
  const property = fc.property(
    fc.array(fc.constantFrom('{', '}', 'a', ' ', '```js', '\n', '`'), { maxLength: 60 }),
    (junk) => {
      const before = junk.join('').replace(/^ {0,3}(?:`{3,}|~{3,})/gm, 'x');
      assert.equal(read(`${before}\n\n${fenced(result())}`).result?.status, 'done');
    },
  );
  fc.assert(property, { numRuns: 300 });
});

test('a megabyte of what is worst to read is read in linear time', () => {
  for (const piece of ['{', '`', '- ', '{"', '```\n', '{"a":{']) {
    const text = piece.repeat(Math.ceil(1_048_576 / piece.length));
    assert.ok(cpuMsOf(() => assert.equal(read(text).source, 'fallback')) < 2000, piece);
  }
});
