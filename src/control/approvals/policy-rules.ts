/**
 * The rules of the configuration about tool calls: expressions (CEL) over the call, and patterns for the commands it runs. The
 * strictest rule that matches decides, and `riskPolicy` where none matches. This file is loaded only when a configuration has
 * rules.
 *
 * Rules are compiled and type-checked once, with their examples, when the server starts. A failure after that fails closed.
 */
import { normalize, relative, resolve } from 'node:path';
import { type Condition, conditionCompiler } from '../../base/expressions.ts';
import { MAX_STEPS, OutOfSteps, Steps } from '../../base/steps.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import { type CommandPattern, compilePattern, type Match } from './commands/command-pattern.ts';
import { CommandReader, type CommandReading, PATH_MEMBERS, whyNotPlain } from './commands/command-reader.ts';
import type { Word } from './commands/shell-syntax.ts';
import {
  byRisks,
  type Policy,
  type PolicyRule,
  type PolicySubject,
  type RuleExample,
  riskPolicy,
  type Verdict,
} from './policy.ts';

export interface PolicyOptions {
  /** Reads commands. Default: one parser. */
  readonly reader?: CommandReader;
  /** Steps of all expressions of one decision. Default 500,000, which takes some milliseconds. */
  readonly maxSteps?: number;
}

/** Maximum number of rules of a policy. */
const MAX_RULES = 256;

/**
 * Compiles a policy.
 *
 * @throws config_invalid for the first rule that cannot be used: `detail.rule` (index from 0), `detail.member` of it
 *   (default `when`) and, within that, `detail.column` (from 1)
 */
export function compilePolicy(rules: readonly PolicyRule[] = [], options: PolicyOptions = {}): Policy {
  const { reader = new CommandReader(), maxSteps = MAX_STEPS } = options;
  const { compiled, errors } = compileRules(rules, reader);
  const [error] = errors;
  if (error !== undefined) throw error;
  if (compiled.length === 0) return riskPolicy;
  const slow = compiled.some(({ condition }) => condition?.slow);
  for (const { then, patterns } of compiled) {
    if (then !== 'allow') for (const { programs } of patterns) reader.watch(programs);
  }
  const denies = compiled.some(({ then }) => then === 'deny');
  return {
    slow,
    byInput: byInput(compiled),
    decide(subject) {
      try {
        return strictest(compiled, subject, readingOf(subject, reader), new Steps(maxSteps));
      } catch (error) {
        const reason =
          error instanceof OutOfSteps
            ? `the approval rules take more than ${maxSteps} steps for this call`
            : 'the approval rules could not be evaluated';
        return { decision: 'ask', reason, ...(denies && { mayBeDenied: reason }) };
      }
    },
  };
}

function byInput(rules: readonly CompiledRule[]): Policy['byInput'] {
  const looking = rules.filter(({ when = '', patterns }) => patterns.length > 0 || /\binput\b/.test(when));
  if (looking.length === 0) return undefined;
  return looking.some(({ then }) => then === 'deny') ? 'denies' : 'decides';
}

/** Returns all errors of rules, as {@link compilePolicy} would throw them. */
export const ruleErrors = (rules: readonly PolicyRule[]): readonly HandfastError[] =>
  compileRules(rules, new CommandReader()).errors;

interface CompiledRule extends PolicyRule {
  readonly condition: Condition | undefined;
  readonly patterns: readonly CommandPattern[];
  /** Name of the rule where it gives no reason. */
  readonly name: string;
}

function compileRules(
  rules: readonly PolicyRule[],
  reader: CommandReader,
): { readonly compiled: readonly CompiledRule[]; readonly errors: readonly HandfastError[] } {
  const errors: HandfastError[] = [];
  if (rules.length > MAX_RULES) errors.push(fail('config_invalid', `approvals: more than ${MAX_RULES} rules`));
  // The expression language is loaded only where it is used.
  const compile = rules.some(({ when }) => when !== undefined) ? compiler() : undefined;
  const compiled = rules.slice(0, MAX_RULES).flatMap((rule, index) => {
    try {
      return [compileRule(rule, index, compile, reader)];
    } catch (error) {
      errors.push(asError(error));
      return [];
    }
  });
  if (errors.length === 0) errors.push(...uselessRules(compiled));
  return { compiled, errors };
}

const compiler = () =>
  conditionCompiler({
    tool: { name: 'string', kind: 'string', input: 'map<string, dyn>' },
    risks: 'list<string>',
    session: { id: 'string', owner: 'string', title: 'string', cwd: 'string', backend: 'string' },
    turn: { id: 'string' },
  });

function compileRule(
  rule: PolicyRule,
  index: number,
  compile: ReturnType<typeof compiler> | undefined,
  reader: CommandReader,
): CompiledRule {
  const what = `approvals rule ${index + 1}`;
  const { when, command = [], options = [], matches = [], not = [] } = rule;
  if (when === undefined && command.length === 0) {
    throw fail('config_invalid', `${what} has neither "when" nor "command"`, { rule: index, member: '' });
  }
  if (options.length > 0 && (command.length === 0 || rule.then !== 'allow')) {
    const why = 'options are for commands that are allowed; other rules are about a command with any options';
    throw fail('config_invalid', `${what}: ${why}`, { rule: index, member: 'options' });
  }
  const condition = when === undefined ? undefined : compile?.(when, what, { rule: index });
  if (rule.then === 'allow' && condition !== undefined) refuseText(condition, what, index);
  const patterns = command.map((pattern, at) => {
    try {
      return compilePattern(pattern, options);
    } catch (error) {
      const { message, detail } = asError(error);
      throw fail('config_invalid', `${what}, ${message}`, { ...detail, rule: index, member: `command[${at}]` });
    }
  });
  const compiled: CompiledRule = { ...rule, condition, patterns, name: `rule ${index + 1} of the approval policy` };
  for (const [expected, examples] of Object.entries({ matches, not })) {
    for (const [at, example] of examples.entries()) {
      checkExample(compiled, example, expected === 'matches', reader, `${what}: the example ${shownExample(example)}`, {
        rule: index,
        member: `${expected}[${at}]`,
      });
    }
  }
  return compiled;
}

/** Refuses a condition on the text of a command: a text that begins like an allowed command may run anything else. */
function refuseText(condition: Condition, what: string, index: number): void {
  const at = condition.usesPartOf(['tool', 'input', 'command']);
  if (at === undefined) return;
  const why = 'a rule that allows compares whole commands: write "command: npm test", or == with the whole text';
  throw fail('config_invalid', `${what}, column ${at + 1}: ${why}`, { rule: index, column: at + 1 });
}

function checkExample(
  rule: CompiledRule,
  example: RuleExample,
  expected: boolean,
  reader: CommandReader,
  what: string,
  detail: Readonly<Record<string, unknown>>,
): void {
  const subject = subjectOf(example);
  const reading = readingOf(subject, reader);
  const steps = new Steps();
  const matched =
    rule.then === 'allow'
      ? allows(allowingRules([rule], subject, steps), subject, reading) !== undefined
      : about(rule, subject, reading, { steps, isAllowed: () => false }) === 'yes';
  if (matched === expected) return;
  const why = expected && reading !== undefined ? whyNotPlain(reading) : undefined;
  const but = expected ? `must match, and does not${why === undefined ? '' : `: ${why}`}` : 'must not match, and does';
  throw fail('config_invalid', `${what} ${but}`, detail);
}

const shownExample = ({ command, tool, input }: RuleExample): string =>
  JSON.stringify(command ?? `${tool ?? ''} ${JSON.stringify(input ?? {})}`);

function subjectOf({ command, tool = 'shell', kind = '', input, risks }: RuleExample): PolicySubject {
  return {
    tool: { name: tool, kind, input: { ...input, ...(command !== undefined && { command }) } },
    risks: risks ?? (command === undefined ? [] : ['exec', 'reads', 'writes', 'destructive', 'network']),
    session: { id: 'example', owner: 'local', title: '', cwd: '/workspace', backend: 'model' },
    turn: { id: 'example' },
  };
}

/** Finds rules that never act: a rule about every call beats all that allow something. */
function uselessRules(rules: readonly CompiledRule[]): HandfastError[] {
  const all = rules.findIndex(
    ({ when, command, then }) => when?.trim() === 'true' && !command?.length && then !== 'allow',
  );
  const allowing = rules.findIndex(({ then }) => then === 'allow');
  if (all === -1 || allowing === -1) return [];
  const why = `it is about every call, and the strictest rule decides: rule ${allowing + 1} would never allow anything`;
  const hint = 'what no rule allows is asked anyway; to deny that, set approvals of the session to deny';
  return [fail('config_invalid', `approvals rule ${all + 1}, column 1: ${why} (${hint})`, { rule: all, column: 1 })];
}

const readingOf = ({ tool, risks, session }: PolicySubject, reader: CommandReader): CommandReading | undefined =>
  reader.read(tool.input, session.cwd) ??
  (risks.includes('exec') ? reader.readUnknown(tool.input, tool.kind === 'execute') : undefined);

/**
 * Decides: deny before ask before allow, in any order of the rules. A rule that may be about the call keeps it from being
 * allowed.
 */
function strictest(
  rules: readonly CompiledRule[],
  subject: PolicySubject,
  reading: CommandReading | undefined,
  steps: Steps,
): Verdict {
  let asked: string | undefined;
  let doubt: string | undefined;
  let mayBeDenied: string | undefined;
  let known: readonly CompiledRule[] | undefined;
  const allowing = (): readonly CompiledRule[] => {
    known ??= allowingRules(rules, subject, steps);
    return known;
  };
  const isAllowed = (words: readonly Word[]): boolean =>
    allowing().some(({ patterns }) => patterns.some((pattern) => pattern.covers(words)));
  for (const rule of rules) {
    const { then, reason = rule.name } = rule;
    const match = about(rule, subject, reading, { steps, isAllowed });
    if (match === 'unclear') doubt ??= `${rule.name} could not be evaluated`;
    if (then === 'allow' || match === 'no' || match === 'unclear') continue;
    if (match === 'yes' && then === 'deny') return { decision: 'deny', reason };
    if (match === 'yes') asked ??= reason;
    else {
      const why = `${whyMaybe(reading, isAllowed)}, and a rule may be about it: ${reason}`;
      doubt ??= why;
      if (then === 'deny') mayBeDenied ??= why;
    }
  }
  const verdict: Verdict =
    asked === undefined ? withoutAsking(rules, allowing(), subject, reading) : { decision: 'ask', reason: asked };
  if (verdict.decision !== 'allow') return { ...verdict, ...(mayBeDenied !== undefined && { mayBeDenied }) };
  if (doubt === undefined) return verdict;
  return { decision: 'ask', reason: doubt, ...(mayBeDenied !== undefined && { mayBeDenied }) };
}

function withoutAsking(
  rules: readonly CompiledRule[],
  allowing: readonly CompiledRule[],
  subject: PolicySubject,
  reading: CommandReading | undefined,
): Verdict {
  const allowed = allows(allowing, subject, reading);
  if (allowed !== undefined) return { decision: 'allow', reason: allowed };
  const verdict = byRisks(subject.risks);
  const why =
    reading === undefined || !rules.some(({ patterns }) => patterns.length > 0) ? undefined : whyNotPlain(reading);
  return verdict.decision === 'ask' && why !== undefined
    ? { ...verdict, reason: `${verdict.reason}; ${why}` }
    : verdict;
}

/** State that the rules of one decision share. */
interface Deciding {
  readonly steps: Steps;
  /** True for a command that a rule allows. */
  readonly isAllowed: (words: readonly Word[]) => boolean;
}

/**
 * Returns whether a rule is about a call, as far as rules that ask or deny go. `unclear`: its expression fails for this call.
 */
function about(
  rule: CompiledRule,
  subject: PolicySubject,
  reading: CommandReading | undefined,
  { steps, isAllowed }: Deciding,
): Match | 'unclear' {
  const when = holds(rule, subject, steps);
  if (when === false) return 'no';
  const command = rule.patterns.length === 0 ? 'yes' : concerned(rule.patterns, reading, isAllowed);
  return when === undefined && command !== 'no' ? 'unclear' : command;
}

/** True when the expression of a rule that asks or denies holds for one of the ways to write the paths of a call. */
function holds({ condition }: CompiledRule, subject: PolicySubject, steps: Steps): boolean | undefined {
  if (condition === undefined) return true;
  const { cwd } = subject.session;
  const results = [plainly(subject), ...[resolve, nearest].map((way) => withPaths(subject, (path) => way(cwd, path)))]
    .filter((one, index, all) => index === 0 || one !== all[0])
    .map((one) => condition.test({ ...one }, steps));
  return results.includes(true) || (results.includes(undefined) ? undefined : false);
}

/** Normalizes paths: `docs/../x` is `x`. Links are not looked at. */
const plainly = (subject: PolicySubject): PolicySubject => withPaths(subject, normalize);

const nearest = (cwd: string, path: string): string => relative(cwd, resolve(cwd, path)) || '.';

/** Returns the same call with its paths written in another way; the call itself where it has none. */
function withPaths(subject: PolicySubject, written: (path: string) => string): PolicySubject {
  const { tool } = subject;
  const paths = PATH_MEMBERS.flatMap((member) => {
    const path = tool.input[member];
    return typeof path === 'string' && path !== '' && !ADDRESS.test(path) ? [[member, written(path)]] : [];
  });
  return paths.length === 0
    ? subject
    : { ...subject, tool: { ...tool, input: { ...tool.input, ...Object.fromEntries(paths) } } };
}

const ADDRESS = /^[a-z][a-z\d+.-]*:\/\//i;

/** Returns whether rules ask about or deny a command; `maybe` where one may be started that is not in the line. */
function concerned(
  patterns: readonly CommandPattern[],
  reading: CommandReading | undefined,
  isAllowed: (words: readonly Word[]) => boolean,
): Match {
  if (reading === undefined) return 'no';
  let result: Match = reading.unreadable === undefined && reading.hidden === undefined ? 'no' : 'maybe';
  for (const { words, supposed, unknown, mayStart } of reading.commands) {
    for (const pattern of patterns) {
      const match = pattern.concerns(words);
      // In a text that may be a script, a word that is not known proves nothing.
      if (match === 'yes' && !supposed) return 'yes';
      if (match === 'yes' || (match === 'maybe' && !supposed)) result = 'maybe';
      else if (mayStart && pattern.mayConcern(words)) result = 'maybe';
    }
    if (unknown && !isAllowed(words)) result = 'maybe';
  }
  return result;
}

/** Returns the reason why a rule may be about a call. */
function whyMaybe(reading: CommandReading | undefined, isAllowed: (words: readonly Word[]) => boolean): string {
  const named = reading?.commands.find(({ unknown, words }) => unknown && !isAllowed(words));
  const program = named?.words[0]?.text.slice(0, 64);
  return (
    reading?.unreadable ??
    reading?.hidden ??
    (program === undefined
      ? 'part of it is known only when it runs'
      : `what ${program} starts is not known (a rule that allows its command says that it starts nothing else)`)
  );
}

/** Returns the rules that allow calls and whose expression holds for this one. */
const allowingRules = (rules: readonly CompiledRule[], subject: PolicySubject, steps: Steps): readonly CompiledRule[] =>
  rules.filter(
    ({ then, condition }) =>
      then === 'allow' && (condition === undefined || condition.test({ ...plainly(subject) }, steps) === true),
  );

/** Returns the reason why a call is allowed; undefined when it is not. Different rules may cover the commands of one line. */
function allows(
  allowing: readonly CompiledRule[],
  subject: PolicySubject,
  reading: CommandReading | undefined,
): string | undefined {
  const whole = allowing.find(({ patterns }) => patterns.length === 0);
  if (whole !== undefined) return whole.reason ?? whole.name;
  if (reading === undefined || whyNotPlain(reading) !== undefined || !subject.risks.includes('exec')) return undefined;
  let first: CompiledRule | undefined;
  for (const { words, transparent, supposed } of reading.commands) {
    if (transparent || supposed) continue;
    const rule = allowing.find(({ patterns }) => patterns.some((pattern) => pattern.covers(words)));
    if (rule === undefined) return undefined;
    first ??= rule;
  }
  return first && (first.reason ?? first.name);
}
