/**
 * Rules of the configuration about tool calls, in the Common Expression Language: the first match decides, and
 * `riskPolicy` where none matches. Compiled by `control-server.ts`, which loads this file only when there are rules.
 *
 * Rules are compiled and type-checked once, when the server starts. What fails later fails closed: the user is asked.
 */
import { type Condition, conditionCompiler } from '../../base/expressions.ts';
import { timeLimit } from '../../base/time-limit.ts';
import { fail } from '../../wire/errors.ts';
import { byRisks, type Policy, type PolicyRule, type PolicySubject, riskPolicy, type Verdict } from './policy.ts';

/** Most rules of a policy. */
const MAX_RULES = 256;

/** Longest time all rules together may take for one call, in milliseconds: a regular expression can take for ever. */
const DECISION_TIMEOUT_MS = 100;

/**
 * Compiles a policy.
 *
 * @param timeoutMs longest time of one decision
 * @throws config_invalid with `detail.rule` (index from 0) and `detail.column` (from 1) for an expression that does not
 *   parse, does not type-check, or cannot be true or false
 */
export function compilePolicy(rules: readonly PolicyRule[] = [], timeoutMs = DECISION_TIMEOUT_MS): Policy {
  if (rules.length > MAX_RULES) throw fail('config_invalid', `approvals: more than ${MAX_RULES} rules`);
  const compiled = compileRules(rules);
  if (compiled.length === 0) return riskPolicy;
  const withinLimit = timeLimit(timeoutMs);
  return {
    decide(subject) {
      try {
        return withinLimit(() => firstMatch(compiled, subject));
      } catch {
        return { decision: 'ask', reason: 'the approval rules took too long' };
      }
    },
  };
}

interface CompiledRule extends PolicyRule {
  readonly condition: Condition;
  /** How the rule is named where it gives no reason. */
  readonly name: string;
}

function compileRules(rules: readonly PolicyRule[]): CompiledRule[] {
  if (rules.length === 0) return [];
  const compile = conditionCompiler({
    tool: { name: 'string', kind: 'string', input: 'map<string, dyn>' },
    risks: 'list<string>',
    session: { id: 'string', owner: 'string', title: 'string', cwd: 'string', backend: 'string' },
    turn: { id: 'string' },
  });
  return rules.map((rule, index) => ({
    ...rule,
    condition: compile(rule.when, `approvals rule ${index + 1}`, { rule: index }),
    name: `rule ${index + 1} of the approval policy`,
  }));
}

/**
 * The first rule that is true decides. One that fails, or is neither true nor false, is skipped, but from then on
 * nothing is allowed any more without being asked: it might have been the rule that forbids.
 */
function firstMatch(rules: readonly CompiledRule[], subject: PolicySubject): Verdict {
  let doubt: string | undefined;
  for (const { condition, then, reason, name } of rules) {
    const matched = condition.test({ ...subject });
    if (matched === undefined) doubt ??= `${name} could not be evaluated`;
    else if (matched) return doubted({ decision: then, reason: reason ?? name }, doubt);
  }
  return doubted(byRisks(subject.risks), doubt);
}

const doubted = (verdict: Verdict, doubt: string | undefined): Verdict =>
  doubt !== undefined && verdict.decision === 'allow' ? { decision: 'ask', reason: doubt } : verdict;
