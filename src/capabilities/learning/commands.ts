/** `handfast learning …`: the learned state, decisions and rewards by hand, refinements and estimates. */
import { PARAMETERS, POLICY_NAMES, type PolicyName, type PolicySettings } from '../../base/bandits/settings.ts';
import { counted } from '../../base/counted.ts';
import { suggest } from '../../base/suggest.ts';
import type { CapabilityCommand, CommandContext, CommandTerminal } from '../../packages/capability.ts';
import { oneOf, typedObject, wholeNumber } from '../../packages/command-values.ts';
import { fail } from '../../wire/errors.ts';
import { LearningClient, type OfAgent } from './client.ts';
import type { ChoiceStats, ComponentPerformanceRecord, Recommendation } from './messages.ts';

const ofAgentOption = ['--agent <name>', 'of another agent of the same principal'] as const;
const DEFAULT_LISTED = 100;
const limitOption = ['--limit <count>', `how many, default ${DEFAULT_LISTED}`] as const;
const policyOption = ['--policy <policy>', `${POLICY_NAMES.join(', ')}; with parameters: linucb,alpha=0.5`] as const;

const PARAMETER_NAMES: readonly string[] = [...Object.keys(PARAMETERS), 'intercept'];

const of = ({ options, signal }: CommandContext): OfAgent & { readonly signal: AbortSignal } => ({
  signal,
  ...(typeof options.agent === 'string' && { ofAgent: options.agent }),
});

const client = ({ agent }: CommandContext): LearningClient => new LearningClient(agent);

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Parses `linucb,alpha=0.5,intercept=false` as a policy; the host checks the values. Fails with `usage`. */
function policyOf(text: unknown): PolicySettings | undefined {
  if (typeof text !== 'string') return undefined;
  const [name = '', ...given] = text.split(',');
  known('policy', name, POLICY_NAMES);
  const parameters = given.map((one) => {
    const [key = '', value = ''] = one.split('=');
    known('parameter of a policy', key, PARAMETER_NAMES);
    if (key === 'intercept') return [key, value !== 'false'] as const;
    return [key, numberOf(value, `--policy: ${key}`)] as const;
  });
  return { name: name as PolicyName, ...Object.fromEntries(parameters) };
}

/** Fails with `usage` for a name that is none of these. */
function known(what: string, name: string, names: readonly string[]): void {
  if (names.includes(name)) return;
  const near = suggest(name, names);
  const meant = near === undefined ? ';' : `; did you mean ${near}?`;
  throw fail('usage', `unknown ${what} "${name}"${meant} there are ${names.join(', ')}`);
}

function numberOf(text: unknown, what: string): number {
  const value = typeof text === 'string' && text.trim() !== '' ? Number(text) : Number.NaN;
  if (Number.isFinite(value)) return value;
  throw fail('usage', `${what} must be a number, got "${textOf(text)}"`);
}

const fixed = (value: number, digits = 3): string => value.toFixed(digits);

/** Returns the note for an empty list: its subject, and the command that would fill it. */
function nothingLearned({ args, options }: CommandContext): string {
  const name = textOf(args[0]);
  const whose = typeof options.agent === 'string' ? `by the agent "${options.agent}"` : 'by this agent';
  if (name !== '') return `nothing was learned of "${name}" ${whose}; all names: handfast learning stats`;
  return `nothing was learned ${whose} yet; choose with: handfast learning decide <choice> <options...>`;
}

function showComponents(terminal: CommandTerminal, components: readonly ComponentPerformanceRecord[]): void {
  if (components.length === 0) return;
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
  for (const [at, { choice, policy, decisions, rewarded, pending, missing, late, options }] of choices.entries()) {
    if (at > 0) terminal.line();
    terminal.line(
      `${choice}: ${policy.name}, ${counted(decisions, 'decision')}, ${rewarded} rewarded, ${pending} pending, ${missing} missing, ${late} late`,
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

const whenOf = (ts = 0): string => new Date(ts * 1000).toISOString();

/** Returns a text for a cell of a table. */
const cut = (text: string): string => {
  const line = text.replaceAll(/\s+/g, ' ');
  return line.length > 60 ? `${line.slice(0, 59)}…` : line;
};

/** Returns the first items of a list, at most `--limit`. Without `--json`, a note says that the list has more. */
async function newest<Item>(list: AsyncGenerator<Item>, { options, terminal }: CommandContext): Promise<Item[]> {
  const most = wholeNumber(options.limit, '--limit', { least: 1 }) ?? DEFAULT_LISTED;
  const found: Item[] = [];
  for await (const item of list) {
    if (found.length >= most) {
      if (!terminal.json) terminal.note(`the newest ${most}; there are more: --limit`);
      break;
    }
    found.push(item);
  }
  return found;
}

function proposalOf(text: unknown): Readonly<Record<string, unknown>> {
  return typedObject(
    textOf(text),
    'the proposal must be a JSON object, as "handfast learning plan --json" prints them',
  );
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
        const { components, choices } = stats;
        showComponents(terminal, components);
        if (components.length > 0 && choices.length > 0) terminal.line();
        showChoices(terminal, choices);
        if (components.length === 0 && choices.length === 0) terminal.note(nothingLearned(context));
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
      const experiences = [{ experience_id: id, reward: numberOf(args[1], 'the reward') }];
      const { stored, rewarded } = await client(context).experience(experiences, { signal });
      const isReward = rewarded === 1;
      if (terminal.json) terminal.document({ rewarded: isReward });
      else if (isReward) terminal.note('learned');
      else if (stored === 0) terminal.note(`"${id}" has its reward already; nothing was changed`);
      else {
        terminal.note(
          `there is no decision "${id}": stored as an experience that no choice learns from; see: handfast learning experiences`,
        );
      }
      return isReward ? undefined : 1;
    },
  },
  {
    usage: 'experiences',
    about: 'list the experiences that were stored, newest first',
    options: [limitOption, ofAgentOption],
    async run(context) {
      const found = await newest(client(context).experiences(of(context)), context);
      if (context.terminal.json) context.terminal.document(found);
      else if (found.length === 0)
        context.terminal.note('no experience was stored; rewards of decisions are in: handfast learning stats');
      else {
        context.terminal.table(
          ['experience', 'when', 'component', 'reward', 'action'],
          found.map(({ experience_id = '', ts, action: { component_name = '', ...action } = {}, reward = 0 }) => [
            experience_id,
            whenOf(ts),
            textOf(component_name),
            String(reward),
            cut(Object.keys(action).length === 0 ? '' : JSON.stringify(action)),
          ]),
        );
      }
      return undefined;
    },
  },
  {
    usage: 'feedback',
    about: 'list the feedback that was recorded, newest first',
    options: [limitOption, ofAgentOption],
    async run(context) {
      const found = await newest(client(context).feedbacks(of(context)), context);
      if (context.terminal.json) context.terminal.document(found);
      else if (found.length === 0) context.terminal.note('no feedback was recorded');
      else {
        context.terminal.table(
          ['feedback', 'when', 'about', 'polarity', 'score', 'text'],
          found.map(
            ({ feedback_id = '', ts, correlation_id, rated_turn, polarity, score = 0, comment, correction }) => [
              feedback_id,
              whenOf(ts),
              cut(correlation_id || rated_turn?.version || rated_turn?.model || ''),
              polarity,
              String(score),
              cut(comment || correction || ''),
            ],
          ),
        );
      }
      return undefined;
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
      else if (plan.status === 'empty') {
        terminal.note('nothing to change; an edit needs at least 10 rewards that speak against what is there');
      } else for (const proposal of plan.proposals ?? []) terminal.line(JSON.stringify(proposal));
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
        terminal.note(
          back.error ||
            `rolled back; ${counted(lost, 'reward since then is', 'rewards since then are')} in the log only`,
        );
      } else terminal.note(`not rolled back: ${back.error}; all of them: handfast learning history`);
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
        if (evaluated.rows > 0)
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
      else terminal.note(forgotten ? 'deleted' : `there is no choice "${choice}"; all names: handfast learning stats`);
      return forgotten ? undefined : 1;
    },
  },
];
