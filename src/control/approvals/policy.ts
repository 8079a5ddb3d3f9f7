/**
 * What the configuration says about tool calls: rules in the Common Expression Language, first match wins, and the
 * default where none matches. Called by `broker.ts` for every call.
 *
 * Rules are compiled and type-checked once, when the configuration is read. Whatever goes wrong later fails closed: it
 * asks.
 */
import { type Condition, conditionCompiler } from '../../base/expressions.ts';
import { timeLimit } from '../../base/time-limit.ts';
import { fail } from '../../wire/errors.ts';

/** What a rule decides. */
export type Decision = 'allow' | 'ask' | 'deny';

/** One rule as the configuration has it. */
export interface PolicyRule {
  /** A CEL expression that is true for the calls the rule is about. */
  readonly when: string;
  readonly then: Decision;
  /** Shown to whoever is asked, and to the model when the call is denied. */
  readonly reason?: string;
}

/** What expressions see. Members of `tool.input` that may be absent are looked at with `has(tool.input.x)`. */
export interface PolicySubject {
  readonly tool: {
    readonly name: string;
    /** `''` when the tool names none. */
    readonly kind: string;
    readonly input: Readonly<Record<string, unknown>>;
  };
  readonly risks: readonly string[];
  readonly session: {
    readonly id: string;
    readonly owner: string;
    readonly title: string;
    readonly cwd: string;
    readonly backend: string;
  };
  readonly turn: { readonly id: string };
}

/** What the policy says about one call, and why. */
export interface Verdict {
  readonly decision: Decision;
  readonly reason: string;
}

/** A compiled policy. Pure. */
export interface Policy {
  decide(subject: PolicySubject): Verdict;
}

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
  if (compiled.length === 0) return { decide: ({ risks }) => byRisks(risks) };
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
 * The first rule that is true decides. One that fails, or is neither true nor false, is passed over, but from then on
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

/** Without a rule: what only reads may run, everything else is asked; a tool that declares nothing could do anything. */
function byRisks(risks: readonly string[]): Verdict {
  const asked = risks.filter((risk) => risk !== 'reads');
  if (asked.length > 0) return { decision: 'ask', reason: `this tool ${risksInWords(asked)}` };
  if (risks.length === 0) return { decision: 'ask', reason: 'this tool does not say what it can do' };
  return { decision: 'allow', reason: 'this tool only reads' };
}

const RISK_WORDS: Readonly<Record<string, string>> = {
  writes: 'changes files',
  destructive: 'can lose data',
  network: 'talks to other machines',
  exec: 'runs programs',
};

function risksInWords(risks: readonly string[]): string {
  return risks.map((risk) => RISK_WORDS[risk] ?? `has the risk "${risk}"`).join(', ');
}
