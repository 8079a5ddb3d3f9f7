/** `handfast learning …`: what was learned, decisions and rewards by hand, refinements and estimates. */
import { POLICY_NAMES, type PolicyName, type PolicySettings } from '../../base/bandits/settings.ts';
import { suggest } from '../../base/suggest.ts';
import type { CapabilityCommand, CommandContext, CommandTerminal } from '../../packages/capability.ts';
import { oneOf } from '../../packages/command-values.ts';
import { fail } from '../../wire/errors.ts';
import { LearningClient, type OfAgent } from './client.ts';
import type { ChoiceStats, ComponentPerformanceRecord, Recommendation } from './messages.ts';

const ofAgentOption = ['--agent <name>', 'of another agent of the same principal'] as const;
const policyOption = ['--policy <policy>', `${POLICY_NAMES.join(', ')}; with parameters: linucb,alpha=0.5`] as const;

const of = ({ options, signal }: CommandContext): OfAgent & { readonly signal: AbortSignal } => ({
  signal,
  ...(typeof options.agent === 'string' && { ofAgent: options.agent }),
});

const client = ({ agent }: CommandContext): LearningClient => new LearningClient(agent);

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** `linucb,alpha=0.5,intercept=false` as a policy; the host checks the values. Fails with `usage`. */
function policyOf(text: unknown): PolicySettings | undefined {
  if (typeof text !== 'string') return undefined;
  const [name = '', ...given] = text.split(',');
  if (!POLICY_NAMES.includes(name as PolicyName)) {
    const near = suggest(name, POLICY_NAMES);
    const meant = near === undefined ? ';' : `; did you mean ${near}?`;
    throw fail('usage', `unknown policy "${name}"${meant} there are ${POLICY_NAMES.join(', ')}`);
  }
  const parameters = given.map((one) => {
    const [key = '', value = ''] = one.split('=');
    if (key === 'intercept') return [key, value !== 'false'] as const;
    return [key, numberOf(value, `--policy: ${key}`)] as const;
  });
  return { name: name as PolicyName, ...Object.fromEntries(parameters) };
}

function numberOf(text: unknown, what: string): number {
  const value = typeof text === 'string' && text.trim() !== '' ? Number(text) : Number.NaN;
  if (Number.isFinite(value)) return value;
  throw fail('usage', `${what} must be a number, got "${textOf(text)}"`);
}

const fixed = (value: number, digits = 3): string => value.toFixed(digits);

function showComponents(terminal: CommandTerminal, components: readonly ComponentPerformanceRecord[]): void {
  if (components.length === 0) return terminal.note('no component has a record yet');
  terminal.table(
    ['component', 'calls', 'successes', 'score', 'mean ms', 'p95 ms', 'weight'],
    components.map((one) => [
      one.component_name,
      String(one.calls_total),
      String(one.calls_success),
      fixed(one.avg_score),
      fixed(one.avg_duration_ms, 0),
      fixed(one.p95_duration_ms, 0),
      one.weight == null ? '' : fixed(one.weight),
    ]),
  );
}

function showChoices(terminal: CommandTerminal, choices: readonly ChoiceStats[]): void {
  if (choices.length === 0) return terminal.note('no decision was made yet');
  for (const [at, { choice, policy, decisions, rewarded, pending, missing, late, options }] of choices.entries()) {
    if (at > 0) terminal.line();
    terminal.line(
      `${choice}: ${policy.name}, ${decisions} decisions, ${rewarded} rewarded, ${pending} pending, ${missing} missing, ${late} late`,
    );
    terminal.table(
      ['option', 'rewards', 'mean', 'best with', ''],
      options.map(({ option, rewards, mean_reward, probability_best, disabled }) => [
        option,
        String(rewards),
        fixed(mean_reward),
        fixed(probability_best),
        disabled ? 'taken out' : '',
      ]),
    );
  }
}

function showRecommendations(terminal: CommandTerminal, recommendations: readonly Recommendation[]): void {
  for (const { choice, option, confidence, why, policy } of recommendations) {
    terminal.line(`${choice}: ${option === '' ? 'nothing to recommend' : option} (confidence ${fixed(confidence)})`);
    terminal.line(`  why: ${why}`);
    terminal.line(`  policy that ran: ${policy}`);
  }
}

const strategyOf = (given: unknown) =>
  given === undefined ? '' : oneOf(textOf(given), '--strategy', ['ppo', 'ucb1', 'epsilon_greedy', 'softmax']);

function proposalOf(text: unknown): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(textOf(text));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw fail('usage', 'the proposal must be a JSON object, as "handfast learning plan --json" prints them');
}

export const commands: readonly CapabilityCommand[] = [
  {
    usage: 'stats [component]',
    about: 'show what was learned of components and choices',
    options: [ofAgentOption],
    async run(context) {
      const { terminal, args } = context;
      const stats = await client(context).stats(textOf(args[0]), of(context));
      if (terminal.json) terminal.document(stats);
      else {
        showComponents(terminal, stats.components);
        showChoices(terminal, stats.choices);
      }
      return undefined;
    },
  },
  {
    usage: 'decide <choice> <options...>',
    about: 'choose one of the options',
    options: [
      ['--feature <number...>', 'numbers that describe the situation, for linucb'],
      ['--id <id>', 'experience id: the same id gives the same decision again'],
      ['--seed <seed>', 'of a new choice: seed of its random generator'],
      policyOption,
    ],
    async run(context) {
      const { args, options, terminal, signal } = context;
      const features = options.feature as readonly string[] | undefined;
      const policy = policyOf(options.policy);
      const decided = await client(context).decide(textOf(args[0]), args[1] as string[], {
        signal,
        ...(features && { features: features.map((one) => numberOf(one, '--feature')) }),
        ...(typeof options.id === 'string' && { experienceId: options.id }),
        ...(typeof options.seed === 'string' && { seed: options.seed }),
        ...(policy && { policy }),
      });
      const { experienceId: experience_id, ...rest } = decided;
      if (terminal.json) terminal.document({ experience_id, ...rest });
      else {
        terminal.line(decided.option);
        if (policy !== undefined && policy.name !== decided.policy) {
          terminal.note(
            `${textOf(args[0])} has the policy ${decided.policy} since its first decision; "handfast learning adapt ${textOf(args[0])} --policy ${policy.name}" changes it`,
          );
        }
        terminal.note(
          `chosen by ${decided.policy} with probability ${fixed(decided.propensity)}; reward it with: handfast learning reward ${experience_id} <reward>`,
        );
      }
      return undefined;
    },
  },
  {
    usage: 'reward <id> <reward>',
    about: 'send the reward of a decision, 0 to 1',
    async run(context) {
      const { args, terminal, signal } = context;
      const id = textOf(args[0]);
      const isNew = await client(context).reward(id, numberOf(args[1], 'the reward'), { signal });
      if (terminal.json) terminal.document({ rewarded: isNew });
      else terminal.note(isNew ? 'learned' : `no decision ${id} waits for a reward: it has one, or is not in the log`);
      return isNew ? undefined : 1;
    },
  },
  {
    usage: 'adapt [component]',
    about: 'apply what the rewards suggest, and recommend',
    options: [
      ['--strategy <strategy>', 'ppo (default: keeps the policy), ucb1, epsilon_greedy, softmax'],
      policyOption,
      ofAgentOption,
    ],
    async run(context) {
      const { args, options, terminal } = context;
      const policy = policyOf(options.policy);
      const strategy = policy === undefined ? strategyOf(options.strategy) : 'custom';
      const adapted = await client(context).adapt(textOf(args[0]), {
        ...of(context),
        ...(strategy !== '' && { strategy }),
        ...(policy && { policy }),
      });
      if (terminal.json) terminal.document(adapted);
      else {
        showRecommendations(terminal, adapted.recommendations ?? []);
        terminal.note(adapted.message ?? '');
      }
      return undefined;
    },
  },
  {
    usage: 'plan [component]',
    about: 'show the edits that the rewards suggest',
    options: [['--global', 'also options of choices'], ofAgentOption],
    async run(context) {
      const { args, options, terminal } = context;
      const scope = options.global === true ? 'global' : 'local';
      const plan = await client(context).plan(textOf(args[0]), scope, of(context));
      if (terminal.json) terminal.document(plan);
      else if (plan.status === 'empty') terminal.note('nothing to change');
      else for (const proposal of plan.proposals ?? []) terminal.line(JSON.stringify(proposal));
      return undefined;
    },
  },
  {
    usage: 'review <proposal>',
    about: 'judge a proposal, a JSON object',
    options: [ofAgentOption],
    async run(context) {
      const { args, terminal } = context;
      const review = await client(context).review(proposalOf(args[0]), of(context));
      if (terminal.json) terminal.document(review);
      else {
        terminal.line(`${review.approved ? 'approved' : 'not approved'}, risk ${review.risk_level}`);
        for (const reason of review.reasons ?? []) terminal.line(`  ${reason}`);
      }
      return review.approved ? undefined : 1;
    },
  },
  {
    usage: 'apply <proposal>',
    about: 'apply a proposal, a JSON object',
    options: [ofAgentOption],
    async run(context) {
      const { args, terminal } = context;
      const applied = await client(context).apply(proposalOf(args[0]), of(context));
      if (terminal.json) terminal.document(applied);
      else {
        if (applied.refinement_id) terminal.line(applied.refinement_id);
        terminal.note(
          `${applied.applied_edits} applied, ${applied.failed_edits} failed${applied.error ? `: ${applied.error}` : ''}`,
        );
      }
      return applied.failed_edits === 0 ? undefined : 1;
    },
  },
  {
    usage: 'rollback <refinement>',
    about: 'put back exactly what a refinement replaced',
    options: [ofAgentOption],
    async run(context) {
      const { args, terminal } = context;
      const back = await client(context).rollback(textOf(args[0]), of(context));
      if (terminal.json) terminal.document(back);
      else if (back.rolled_back) {
        const lost = back.rewards_since ?? 0;
        terminal.note(back.error || `rolled back; ${lost} rewards since then are in the log only`);
      } else terminal.note(`not rolled back: ${back.error}`);
      return back.rolled_back ? undefined : 1;
    },
  },
  {
    usage: 'history',
    about: 'list the refinements',
    options: [ofAgentOption],
    async run(context) {
      const { terminal } = context;
      const entries = await client(context).history(of(context));
      if (terminal.json) terminal.document(entries);
      else if (entries.length === 0) terminal.note('no refinement was applied yet');
      else {
        terminal.table(
          ['refinement', 'applied', 'failed', 'when', ''],
          entries.map((one) => [
            String(one.refinement_id),
            String(one.applied_edits),
            String(one.failed_edits),
            new Date(Number(one.ts) * 1000).toISOString(),
            one.rolled_back_at === null ? '' : 'rolled back',
          ]),
        );
      }
      return undefined;
    },
  },
  {
    usage: 'evaluate <choice>',
    about: 'estimate from the log what an option or another policy would have earned',
    options: [
      ['--option <option>', 'always choosing this option'],
      policyOption,
      ['--confidence <share>', 'of the intervals, default 0.95'],
      ofAgentOption,
    ],
    async run(context) {
      const { args, options, terminal } = context;
      const policy = policyOf(options.policy);
      if ((policy === undefined) === (options.option === undefined)) {
        throw fail('usage', 'name what to estimate: --option or --policy, one of them');
      }
      const evaluated = await client(context).evaluate(textOf(args[0]), {
        ...of(context),
        ...(typeof options.option === 'string' && { option: options.option }),
        ...(policy && { policy }),
        ...(options.confidence !== undefined && { confidence: numberOf(options.confidence, '--confidence') }),
      });
      if (terminal.json) terminal.document(evaluated);
      else {
        terminal.table(
          ['estimator', 'mean reward', 'from', 'to'],
          [evaluated.logged, ...evaluated.estimates].map(({ estimator, value, low, high }) => [
            estimator,
            fixed(value),
            fixed(low),
            fixed(high),
          ]),
        );
        for (const note of evaluated.notes) terminal.note(note);
      }
      return undefined;
    },
  },
  {
    usage: 'forget [choice]',
    about: 'delete a choice with its log',
    options: [['--all', 'everything that was learned'], ofAgentOption],
    async run(context) {
      const { args, options, terminal } = context;
      const choice = textOf(args[0]);
      if ((choice === '') !== (options.all === true)) throw fail('usage', 'name a choice, or give --all');
      const forgotten = await client(context).forget(choice, of(context));
      if (terminal.json) terminal.document({ forgotten });
      else terminal.note(forgotten ? 'deleted' : `there is no choice "${choice}"`);
      return forgotten ? undefined : 1;
    },
  },
];
