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

/** A rule as the configuration has it. */
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

test('the first rule that matches decides, with its reason', () => {
  const rules: PolicyRule[] = [
    rule('tool.name == "shell" && tool.input.command.startsWith("rm")', 'deny', 'nothing is removed'),
    rule('tool.name == "shell" && session.cwd.startsWith("/project")', 'allow'),
    rule('true', 'deny'),
  ];
  const policy = compilePolicy(rules);
  assert.deepEqual(policy.decide(subject({ input: { command: 'rm -r x' } })), {
    decision: 'deny',
    reason: 'nothing is removed',
  });
  assert.deepEqual(policy.decide(subject()), { decision: 'allow', reason: 'rule 2 of the approval policy' });
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
  assert.equal(decision([rule('tool.input.command', 'allow')], subject({}, ['reads'])), 'ask');
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

test('a rule that would take for ever is cut off and asks', () => {
  const policy = compilePolicy([rule('tool.input.command.matches("^(a+)+$")', 'allow')], 250);
  const verdict = policy.decide(subject({ input: { command: `${'a'.repeat(60)}b` } }));
  assert.deepEqual(verdict, { decision: 'ask', reason: 'the approval rules took too long' });
  assert.equal(policy.decide(subject({ input: { command: 'aaa' } })).decision, 'allow', 'and works again afterwards');
});
