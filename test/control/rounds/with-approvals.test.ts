import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ApprovalRequest } from '../../../src/control/contract/approver.ts';
import { askUser, withQuestions } from '../../../src/control/rounds/questions.ts';
import { titleOf, withApprovals } from '../../../src/control/rounds/with-approvals.ts';
import type { Approval, ToolCall } from '../../../src/protocol/session-types.ts';
import { fail } from '../../../src/wire/errors.ts';
import { FakeTurn, type FakeTurnOptions } from '../support/fake-turn.ts';
import { toolboxOf } from '../support/scripted-model.ts';

const made = (name: string, input: ToolCall['input'] = {}): ToolCall => ({
  name,
  input,
  providerToolName: name,
  callId: 'c1',
});

const quiet = () => {};

function setUp(answers?: FakeTurnOptions['answers']) {
  const turn = new FakeTurn({ answers });
  const toolbox = toolboxOf({ work: ({ input }) => input }, { risks: ['writes'], kind: 'file' });
  return { turn, toolbox, box: withApprovals(toolbox, turn) };
}

test('weakness 25: no tool runs before it was allowed, and the user sees the very arguments it is called with', async () => {
  const order: string[] = [];
  const turn = new FakeTurn({
    answers: (request) => {
      order.push(`asked ${JSON.stringify(request.tool?.input)}`);
      return { state: 'allowed' };
    },
  });
  const toolbox = toolboxOf({
    work({ input }) {
      order.push(`called ${JSON.stringify(input)}`);
      return 1;
    },
  });
  const done = await withApprovals(toolbox, turn).call(made('work', { path: 'a', deep: { n: 1 } }), turn.signal, quiet);
  assert.equal(done.ok, true);
  assert.deepEqual(order, ['asked {"path":"a","deep":{"n":1}}', 'called {"path":"a","deep":{"n":1}}']);
});

test('weakness 25: arguments cannot be exchanged between the question and the call', async () => {
  const input = { path: 'harmless', deep: { path: 'harmless' } };
  const turn = new FakeTurn({
    answers: (request: ApprovalRequest) => {
      input.path = 'harmful';
      input.deep.path = 'harmful';
      assert.throws(() => {
        (request.tool?.input as { path: string }).path = 'harmful';
      }, TypeError);
      return { state: 'allowed' };
    },
  });
  const toolbox = toolboxOf({ work: ({ input: got }) => got });
  const { result } = await withApprovals(toolbox, turn).call(made('work', input), turn.signal, quiet);
  assert.deepEqual(result, { path: 'harmless', deep: { path: 'harmless' } });
});

test('the request names tool, call, risks and kind', async () => {
  const { turn, box } = setUp();
  await box.call(made('work', { path: 'src/a.ts' }), turn.signal, quiet);
  assert.deepEqual(
    turn.asked.map(({ possible: _possible, ...request }) => request),
    [
      {
        kind: 'tool',
        title: 'work: src/a.ts',
        tool: { name: 'work', input: { path: 'src/a.ts' }, call_id: 'c1' },
        risks: ['writes'],
        toolKind: 'file',
      },
    ],
  );
});

test('what is denied, expired or withdrawn is not called, and the model receives which it was', async () => {
  const statuses: unknown[] = [];
  for (const state of ['denied', 'expired', 'cancelled'] as const) {
    const { turn, toolbox, box } = setUp(() => ({ state, reason: 'rule 1' }));
    const done = await box.call(made('work'), turn.signal, quiet);
    assert.deepEqual(toolbox.called, []);
    assert.equal(done.ok, false);
    assert.match(String(done.error), /^not run: /);
    statuses.push((done.result as { status: string }).status);
  }
  assert.deepEqual(statuses, ['denied', 'expired', 'cancelled']);
});

test('an interrupt while the user is asked cancels the call', async () => {
  const { turn, toolbox, box } = setUp(() => {
    throw fail('interrupted', 'interrupted by the user');
  });
  const done = await box.call(made('work'), turn.signal, quiet);
  assert.deepEqual([done.ok, done.error, toolbox.called.length], [false, 'not run: interrupted by the user', 0]);
});

test('an approval that comes after the interrupt no longer runs the call', async () => {
  const turn: FakeTurn = new FakeTurn({
    answers: () => {
      turn.interrupt();
      return { state: 'allowed' };
    },
  });
  const toolbox = toolboxOf({ work: () => 1 });
  const done = await withApprovals(toolbox, turn).call(made('work'), turn.signal, quiet);
  assert.deepEqual([done.ok, toolbox.called.length], [false, 0]);
});

test('no user is asked about a tool that does not exist', async () => {
  const { turn, box } = setUp();
  const done = await box.call(made('missing'), turn.signal, quiet);
  assert.equal(done.error, 'unknown tool: missing');
  assert.deepEqual(turn.asked, []);
});

test('titles are one line, bounded, and show what would be invisible', () => {
  const title = (input: ToolCall['input']) => titleOf({ name: 'shell', input });
  assert.equal(title({}), 'shell');
  assert.equal(title({ cwd: 'x', command: 'npm test' }), 'shell: npm test');
  assert.equal(title({ argv: ['ls', '-l'] }), 'shell: ls -l');
  assert.equal(title({ count: 3 }), 'shell: 3');
  assert.equal(title({ command: 'ls\nrm -rf x' }), 'shell: ls⏎rm -rf x');
  assert.equal(title({ command: 'a\u202eb\u001b[2Kc' }), 'shell: a\\u{202e}b\\u{1b}[2Kc');
  const long = title({ command: '😀'.repeat(2000) });
  assert.equal([...long].length, 160);
  assert.match(long, /…$/);
});

test('a question waits for its answer and hands it to the model', async () => {
  const turn = new FakeTurn({
    answers: () => ({ state: 'allowed', answer: { decision: 'allow', remember: 'once', content: { answer: 'red' } } }),
  });
  const box = withQuestions(toolboxOf({ work: () => 1 }), turn);
  assert.deepEqual(
    (await box.list()).map(({ name }) => name),
    ['ask_user', 'work'],
  );
  assert.equal(box.find('ask_user'), askUser);
  const input = { question: 'Which colour?', choices: ['red', 'blue'] };
  const done = await box.call(made('ask_user', input), turn.signal, quiet);
  assert.deepEqual([done.ok, done.result], [true, { answer: 'red' }]);
  assert.equal(turn.asked[0]?.kind, 'question');
  assert.equal(turn.asked[0]?.title, 'Which colour?');
  assert.deepEqual(turn.asked[0]?.schema?.properties, { answer: { type: 'string', enum: ['red', 'blue'] } });
  assert.equal((await box.call(made('work'), turn.signal, quiet)).ok, true);
});

test('a question without an answer, and a malformed one, are failed calls', async () => {
  const turn = new FakeTurn({ answers: () => ({ state: 'expired' }) });
  const box = withQuestions(toolboxOf({}), turn);
  const expired = await box.call(made('ask_user', { question: 'Hello?' }), turn.signal, quiet);
  assert.equal(expired.error, 'no answer before the deadline');
  for (const input of [{}, { question: ' ' }, { question: 'x', choices: 'y' }, { question: 'x', choices: [1] }]) {
    const done = await box.call(made('ask_user', input as ToolCall['input']), turn.signal, quiet);
    assert.match(String(done.error), /^invalid arguments/);
  }
  assert.equal(turn.asked.length, 1);
});

const withSchema = (inputSchema: Readonly<Record<string, unknown>>) =>
  toolboxOf({ work: ({ input }) => input }, { inputSchema });

test('a call whose arguments do not fit its tool fails without an approval, and the model receives the problem', async () => {
  const asked: ApprovalRequest[] = [];
  const turn = {
    ask: async (request: ApprovalRequest): Promise<Approval> => {
      const isPossible = (await request.possible?.()) ?? true;
      if (isPossible) asked.push(request);
      return { state: isPossible ? 'allowed' : 'cancelled' } as Approval;
    },
  };
  const { signal } = new AbortController();
  const schema = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] };
  const done = await withApprovals(withSchema(schema), turn).call(made('work', { path: 3 }), signal, quiet);
  assert.deepEqual([done.ok, (done.result as { status: string }).status], [false, 'invalid_input']);
  assert.match(String(done.error), /^invalid arguments: .*path/);
  assert.equal(asked.length, 0);
  const fits = await withApprovals(withSchema(schema), turn).call(made('work', { path: 'a' }), signal, quiet);
  assert.equal(fits.ok, true);
  // The tool judges arguments that cannot be checked: a broken schema, a pattern that never ends.
  for (const odd of [{ type: 'nonsense' }, { $ref: '#/nowhere' }, { properties: { path: { pattern: '^(a+)+$' } } }]) {
    const input = { path: `${'a'.repeat(40)}!` };
    assert.equal((await withApprovals(withSchema(odd), turn).call(made('work', input), signal, quiet)).ok, true);
  }
  assert.equal(asked.length, 4);
});
