/**
 * The approval policy: its question about a tool call, its verdict, and the default without any rule, which goes by the risks a
 * tool declares. `policy-rules.ts` compiles the rules of a configuration.
 */

/** Decision of a rule. */
export type Decision = 'allow' | 'ask' | 'deny';

/** One rule as the configuration has it: `when`, `command` or both, and then both must hold. */
export interface PolicyRule {
  /** A CEL expression that is true for the calls the rule is about. */
  readonly when?: string;
  /** The commands the rule is about; see `compilePattern`. A call is allowed only when all its commands are covered. */
  readonly command?: readonly string[];
  /** Options that a command allowed by `command` may have. */
  readonly options?: readonly string[];
  readonly then: Decision;
  /** Text for the user, and for the model when the call is denied. */
  readonly reason?: string;
  /** Calls that this rule alone must be about, and that it must not; checked when the rules are compiled. */
  readonly matches?: readonly RuleExample[];
  readonly not?: readonly RuleExample[];
}

/** A call as an example of a rule: of `shell` with this command, unless it names another. */
export interface RuleExample {
  readonly command?: string;
  readonly tool?: string;
  readonly kind?: string;
  readonly input?: Readonly<Record<string, unknown>>;
  readonly risks?: readonly string[];
}

/** Values that expressions see. Members of `tool.input` that may be absent are looked at with `has(tool.input.x)`. */
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

/** The decision about one call, and its reason. */
export interface Verdict {
  readonly decision: Decision;
  readonly reason: string;
  /**
   * For `ask`: the reason why a rule that denies may be about this call. Where no question can be asked, such a call is denied.
   */
  readonly mayBeDenied?: string;
}

const STRICTNESS: Readonly<Record<Decision, number>> = { allow: 0, ask: 1, deny: 2 };

/** Returns the strictest of several decisions, the first of equal ones. At least one is given. */
export function strictestOf(verdicts: readonly Verdict[]): Verdict {
  const [first, ...others] = verdicts as [Verdict, ...Verdict[]];
  const chosen = others.reduce(
    (most, one) => (STRICTNESS[one.decision] > STRICTNESS[most.decision] ? one : most),
    first,
  );
  const mayBeDenied = verdicts.find((one) => one.mayBeDenied !== undefined)?.mayBeDenied;
  return chosen.decision === 'ask' && mayBeDenied !== undefined ? { ...chosen, mayBeDenied } : chosen;
}

/** A compiled policy. Pure. */
export interface Policy {
  /** True where a decision may take long: between two of them others get a turn of the event loop. */
  readonly slow?: boolean;
  /** Present where a decision may depend on the input of the call; `denies`: a rule that denies looks at it. */
  readonly byInput?: 'denies' | 'decides' | undefined;
  decide(subject: PolicySubject): Verdict;
}

/** The policy without rules: allows calls that only read, asks for all others. */
export const riskPolicy: Policy = { decide: ({ risks }) => byRisks(risks) };

/**
 * Decides without a rule: a call that only reads may run, all others are asked; a tool that declares nothing could do anything.
 */
export function byRisks(risks: readonly string[]): Verdict {
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
