/** The approval policy: rules, their default, and how everything that goes wrong fails closed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PolicyRule, PolicySubject } from '../../../src/control/approvals/policy.ts';
import { compilePolicy } from '../../../src/control/approvals/policy-rules.ts';

const subject = (tool: Partial<PolicySubject['tool']> = {}, risks: readonly string[] = ['exec']): PolicySubject => ({
  tool: { name: 'shell', kind: 'shell', input: { command: 'npm test' }, ...tool },
  risks,
  session: { id: 's', owner: 'local', title: 'fix', cwd: '/project', backend: 'model' },
  turn: { id: 't' },
});

/** Returns a rule as the configuration has it. */
const rule = (when: string, decision: PolicyRule['then'], reason?: string): PolicyRule =>
  // biome-ignore lint/suspicious/noThenProperty: the word of the configuration
  ({ when, then: decision, ...(reason !== undefined && { reason }) });

const decision = (rules: readonly PolicyRule[], about: PolicySubject = subject()): string =>
  compilePolicy(rules).decide(about).decision;

test('without rules reading is allowed, everything else is asked, and so is a tool that declares nothing', () => {
  const policy = compilePolicy();
  assert.equal(policy.decide(subject({}, ['reads'])).decision, 'allow');
  for (const risk of ['writes', 'exec', 'network', 'destructive', 'something-new']) {
    assert.equal(policy.decide(subject({}, ['reads', risk])).decision, 'ask', risk);
  }
  assert.equal(policy.decide(subject({}, [])).decision, 'ask');
  assert.match(policy.decide(subject({}, ['reads', 'exec'])).reason, /runs programs/);
});

test('the strictest rule that matches decides, with its reason, in any order', () => {
  const rules: PolicyRule[] = [
    rule('tool.name == "shell" && session.cwd.startsWith("/project")', 'allow'),
    rule('tool.name == "shell" && tool.input.command.startsWith("git")', 'ask', 'history'),
    rule('tool.name == "shell" && tool.input.command.startsWith("rm")', 'deny', 'nothing is removed'),
    rule('tool.name != "shell"', 'deny'),
    rule('tool.name == "shell"', 'allow'),
  ];
  const policy = compilePolicy(rules);
  assert.deepEqual(policy.decide(subject({ input: { command: 'rm -r x' } })), {
    decision: 'deny',
    reason: 'nothing is removed',
  });
  const git = policy.decide(subject({ input: { command: 'git push' } }));
  assert.deepEqual(git, { decision: 'ask', reason: 'history' });
  assert.deepEqual(policy.decide(subject()), { decision: 'allow', reason: 'rule 1 of the approval policy' });
  assert.equal(policy.decide(subject({ name: 'other' })).decision, 'deny');
});

test('rules see the kind, the risks, the session and the turn, and numbers as JSON has them', () => {
  assert.equal(decision([rule('tool.kind == "shell" && "exec" in risks', 'allow')]), 'allow');
  assert.equal(decision([rule('session.owner == "local" && session.title == "fix"', 'allow')]), 'allow');
  assert.equal(decision([rule('session.backend == "model" && turn.id == "t"', 'allow')]), 'allow');
  const about = subject({ input: { depth: 3, list: ['a', 'b'] } });
  assert.equal(decision([rule('tool.input.depth > 2 && "b" in tool.input.list', 'allow')], about), 'allow');
});

test('where no rule matches the default decides', () => {
  const rules: PolicyRule[] = [rule('tool.name == "other"', 'deny')];
  assert.equal(decision(rules, subject({}, ['reads'])), 'allow');
  assert.equal(decision(rules), 'ask');
});

test('a rule that cannot be evaluated is passed over, and nothing after it is allowed unasked', () => {
  const broken: PolicyRule = rule('tool.input.missing == "x"', 'deny');
  const policy = compilePolicy([broken, rule('true', 'allow')]);
  assert.deepEqual(policy.decide(subject()), {
    decision: 'ask',
    reason: 'rule 1 of the approval policy could not be evaluated',
  });
  assert.equal(decision([broken], subject({}, ['reads'])), 'ask', 'the default allows nothing either');
  assert.equal(decision([broken, rule('true', 'deny')]), 'deny', 'a denial needs no doubt');
  assert.equal(decision([rule('has(tool.input.missing)', 'deny')], subject({}, ['reads'])), 'allow');
});

test('a rule whose value is neither true nor false asks', () => {
  assert.equal(decision([rule('tool.input.note', 'allow')], subject({ input: { note: 'x' } }, ['reads'])), 'ask');
});

test('inherited members of an input do not exist for rules', () => {
  assert.equal(decision([rule('has(tool.input.constructor)', 'deny')], subject({}, ['reads'])), 'allow');
});

test('a rule that does not parse, check or fit is refused with its index and column', () => {
  const refused = (when: string) => {
    try {
      compilePolicy([rule('true', 'allow'), rule(when, 'ask')]);
    } catch (error) {
      const { code, detail, message } = error as { code: string; detail: Record<string, unknown>; message: string };
      assert.match(message, /^approvals rule 2, column \d+: /);
      return { code, ...detail };
    }
    return undefined;
  };
  assert.deepEqual(refused('tool.name ==='), { code: 'config_invalid', rule: 1, column: 13 });
  assert.deepEqual(refused('tool.nme == "x"'), { code: 'config_invalid', rule: 1, column: 6 });
  assert.deepEqual(refused('nothing == 1'), { code: 'config_invalid', rule: 1, column: 1 });
  assert.deepEqual(refused('tool.name'), { code: 'config_invalid', rule: 1, column: 1 });
  assert.deepEqual(refused(`"${'x'.repeat(5000)}" == ""`), { code: 'config_invalid', rule: 1, column: 1 });
  assert.deepEqual(refused(Array(2000).fill('true').join('&&'))?.code, 'config_invalid');
});

test('a pattern that takes for ever in other engines is decided', () => {
  const policy = compilePolicy([
    rule('tool.input.command.matches("^(a+)+$")', 'deny'),
    rule('tool.name == "shell"', 'allow'),
  ]);
  assert.equal(policy.decide(subject({ input: { command: `${'a'.repeat(60)}b` } })).decision, 'allow');
  assert.equal(policy.decide(subject({ input: { command: 'a'.repeat(60) } })).decision, 'deny');
});

test('rules that take too many steps for a call ask, and work again afterwards', () => {
  const list = 'tool.input.list';
  const policy = compilePolicy([
    rule(`has(${list}) && ${list}.exists(a, ${list}.exists(b, ${list} == [a, b]))`, 'deny'),
    rule('tool.name == "shell"', 'allow'),
  ]);
  const reason = 'the approval rules take more than 500000 steps for this call';
  const many = Array.from({ length: 2_000 }, (_, at) => at);
  assert.deepEqual(policy.decide(subject({ input: { list: many } })), { decision: 'ask', reason, mayBeDenied: reason });
  assert.equal(policy.decide(subject({ input: { command: 'bbb' } })).decision, 'allow');
});

/** Parses rules about commands, as the configuration has them. */
const commands = (text: string) => JSON.parse(text) as readonly PolicyRule[];

interface Refusal {
  readonly code?: string;
  readonly message?: string;
  readonly rule?: number;
  readonly member?: string;
  readonly column?: number;
}

/** Returns the error of rules that cannot be used; it is empty when they can. */
function refused(text: string): Refusal {
  try {
    compilePolicy(commands(text));
    return {};
  } catch (error) {
    const { code, detail, message } = error as { code: string; detail: Refusal; message: string };
    assert.equal(code, 'config_invalid');
    return { ...detail, code, message };
  }
}

test('a rule that cannot be read is refused, and its error names the rule, the member and the column', () => {
  for (const [command, column] of [
    ['', 1],
    ['npm test; x', 5],
    ['npm $X', 5],
    ['npm ... test', 9],
    ['npm te*', 5],
    ['*', 1],
    ['... npm', 1],
    ['-x npm', 1],
    ['npm a||b', 5],
    ["'npm test'", 1],
  ] as const) {
    const found = refused(
      `[{"when":"true","then":"allow"},{"command":["ls",${JSON.stringify(command)}],"then":"allow"}]`,
    );
    assert.deepEqual([found.rule, found.member, found.column], [1, 'command[1]', column], command);
  }
  assert.equal(refused('[{"then":"deny"}]').rule, 0);
  assert.equal(refused('[{"command":["ls"],"options":["l"],"then":"allow"}]').member, 'command[0]');
  assert.equal(refused('[{"command":["ls"],"options":["-l"],"then":"deny"}]').member, 'options');
});

test('a rule that allows by the text of a command is refused; one that compares the whole text is not', () => {
  for (const when of [
    'tool.input.command.startsWith("npm test")',
    'tool.name == "shell" && tool.input.command.contains("npm")',
    'tool.input["command"].matches("^npm")',
    '!(tool.input.command + "").contains(";")',
    'size(tool.input.command) < 9',
  ]) {
    assert.throws(
      () => compilePolicy([rule(when, 'allow')]),
      { code: 'config_invalid', message: /compares whole commands/ },
      when,
    );
    assert.doesNotThrow(() => compilePolicy([rule(when, 'ask'), rule(when, 'deny')]), when);
  }
  assert.equal(decision([rule('tool.input.command == "npm test"', 'allow')]), 'allow');
  assert.equal(decision([rule('has(tool.input.command) && tool.input.command in ["npm test"]', 'allow')]), 'allow');
});

test('a rule about every call that would undo all that allow is refused', () => {
  assert.throws(() => compilePolicy([rule('tool.name == "shell"', 'allow'), rule('true', 'deny')]), {
    code: 'config_invalid',
    message: /^approvals rule 2, column 1: .*rule 1 would never allow anything/,
  });
});

test('examples are checked when rules are compiled, by the rule alone', () => {
  const fine = `[{"command":["git push"],"then":"deny","matches":[{"command":"git -C x push -f"}],"not":[{"command":"git pull"}]},
    {"command":["ls ..."],"options":["-l"],"then":"allow","matches":[{"command":"ls -l a; ls"}],"not":[{"command":"ls > a"},{"command":"ls; id"}]},
    {"when":"tool.name == 'write_file' && 'writes' in risks","then":"deny",
     "matches":[{"tool":"write_file","input":{"path":"a"},"risks":["writes"]}],"not":[{"command":"ls"}]}]`;
  assert.deepEqual(refused(fine), {});
  const unmatched = refused('[{"command":["ls"],"then":"allow","matches":[{"command":"ls"},{"command":"ls > a"}]}]');
  assert.deepEqual([unmatched.rule, unmatched.member], [0, 'matches[1]']);
  assert.match(
    unmatched.message ?? '',
    /the example "ls > a" must match, and does not: it redirects output into a file/,
  );
  const matched = refused('[{"command":["rm"],"then":"deny","not":[{"command":"ls; rm x"}]}]');
  assert.deepEqual([matched.rule, matched.member], [0, 'not[0]']);
});

test('a rule about commands and an expression holds where both do', () => {
  const rules = commands('[{"command":["npm test"],"when":"session.cwd == \'/project\'","then":"allow"}]');
  assert.equal(decision(rules), 'allow');
  const policy = compilePolicy(rules);
  const elsewhere = { ...subject(), session: { ...subject().session, cwd: '/other' } };
  assert.equal(policy.decide(elsewhere).decision, 'ask');
  assert.equal(
    decision(rules, subject({ name: 'note' }, ['writes'])),
    'ask',
    'a tool that runs nothing is not allowed by it',
  );
});

test('what may be forbidden is reported, so that a session that asks nothing denies it', () => {
  const policy = compilePolicy(commands('[{"command":["rm"],"then":"deny","reason":"nothing is removed"}]'));
  const hidden = policy.decide(subject({ input: { command: '$(echo rm) x' } }));
  assert.equal(hidden.decision, 'ask');
  assert.match(hidden.mayBeDenied ?? '', /known only when it runs.*nothing is removed/);
  assert.equal(policy.decide(subject({ input: { command: 'npm test "$X"' } })).mayBeDenied, undefined);
});

test('rules compare paths as they are meant, however they are written', () => {
  const inDocs = rule('tool.name == "write_file" && tool.input.path.startsWith("docs/")', 'allow');
  const notSecret = rule('tool.input.path.startsWith("secret/")', 'deny');
  const write = (path: string): PolicySubject => subject({ name: 'write_file', input: { path } }, ['writes']);
  const outcomes = {
    'docs/a': 'allow',
    './docs/a': 'allow',
    'docs/../x': 'ask',
    'docs//../../x': 'ask',
    'docs/./../secret/x': 'deny',
    '/project/docs/a': 'ask',
    '/project/secret/x': 'deny',
    '../project/secret/x': 'deny',
    'file:///project/docs/../x': 'ask',
  };
  for (const [path, outcome] of Object.entries(outcomes)) {
    assert.equal(decision([inDocs, notSecret], write(path)), outcome, path);
  }
});
