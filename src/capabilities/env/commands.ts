/** `handfast env …`: lists, plays, runs and records environments of a host, and runs a host with environments of Python. */
import type { AgentSession } from '../../agent/agent.ts';
import { counted } from '../../base/counted.ts';
import type {
  CapabilityCommand,
  CapabilityHostCommand,
  CommandContext,
  CommandTerminal,
} from '../../packages/capability.ts';
import { jsonOrText, typedObject, wholeNumber } from '../../packages/command-values.ts';
import { type EnvCheckReport, EnvClient, type EnvRecord, type RemoteEpisode } from './client.ts';
import type { Policy, RolloutOptions } from './recording/rollout.ts';

/** A check of an environment with slow steps takes minutes. */
const CHECK_MS = 600_000;
const MAX_RECORD_BYTES = 1024 * 1024 * 1024;

/** The options of commands that play. */
const playing = [
  ['--seed <n>', 'seed of the first episode; each further one has the next (default: random)'],
  ['--make <json>', 'arguments of the environment, a JSON object'],
] as const;
const rolling = [
  ...playing,
  ['--episodes <n>', 'number of episodes (default 1)'],
  ['--max-steps <n>', 'leave an episode after so many steps (default 10000)'],
  ['--policy <policy>', 'random, suggested, or an action as JSON that is always taken (default random)'],
] as const;

/** Returns the client of this capability at the agent of a command. */
const clientOf = (agent: AgentSession): EnvClient => new EnvClient(agent);

export const commands: readonly CapabilityCommand[] = [
  {
    usage: 'ls',
    about: 'list the environments',
    async run({ agent, signal, terminal }) {
      const found = await clientOf(agent).list({ signal });
      if (terminal.json) terminal.document(found);
      else {
        const rows = found.map(({ id, max_episode_steps, runs_code, about = '' }) => [
          id,
          max_episode_steps === null ? '' : String(max_episode_steps),
          runs_code === true ? 'yes' : '',
          about,
        ]);
        terminal.table(['ENVIRONMENT', 'MAX STEPS', 'RUNS CODE', 'ABOUT'], rows);
      }
      return undefined;
    },
  },
  {
    usage: 'spaces <environment>',
    about: 'show the spaces of actions and observations',
    options: [['--make <json>', 'arguments of the environment, a JSON object']],
    async run({ args: [name], options, agent, signal, terminal }) {
      const make = makeOf(options);
      const spaces = await clientOf(agent).spaces(name as string, { ...(make && { make }) }, { signal });
      const { action_space, state_schema } = spaces;
      if (terminal.json) terminal.document({ action_space, state_schema });
      else {
        terminal.line(`actions       ${JSON.stringify(action_space)}`);
        terminal.line(`observations  ${JSON.stringify(state_schema.space)}`);
      }
      return undefined;
    },
  },
  {
    usage: 'check <environment>',
    about: 'play an environment and check whether it keeps its contract',
    options: [
      ['--seed <n>', 'seed of the first episode (default 0)'],
      ['--steps <n>', 'steps of each rollout, 1 to 1000 (default 200; 20 where they run programs)'],
      ['--make <json>', 'arguments of the environment, a JSON object'],
    ],
    help: 'The exit code is 1 when there are findings. docs/environments.md lists the rules.',
    async run({ args: [name], options, agent, signal, terminal }) {
      const make = makeOf(options);
      const asked = {
        seed: seedOf(options) ?? 0,
        ...(options.steps !== undefined && {
          steps: wholeNumber(options.steps, '--steps', { least: 1, most: 1_000 }) ?? 0,
        }),
        ...(make && { make }),
      };
      const report = await clientOf(agent).check(name as string, asked, { signal, timeoutMs: CHECK_MS });
      if (terminal.json) terminal.document(report);
      else showReport(name as string, report, terminal);
      return report.findings.length === 0 ? undefined : 1;
    },
  },
  {
    usage: 'play <environment>',
    about: 'play an episode: one action as JSON on each line of stdin',
    options: playing,
    async run(context) {
      const { args, options, agent, signal, terminal } = context;
      const make = makeOf(options);
      const seed = seedOf(options);
      await using episode = await clientOf(agent).reset(args[0] as string, { seed, ...(make && { make }) }, { signal });
      await show(episode, terminal, signal);
      for await (const line of linesOfStdin(signal)) {
        if (line.trim() === '') continue;
        const refused = await episode
          .step(actionOf(line), { signal })
          .catch((thrown: { code?: string; message: string }) => {
            if (thrown.code !== 'unknown_action') throw thrown;
            return thrown.message;
          });
        if (typeof refused === 'string') terminal.note(refused);
        else await show(episode, terminal, signal);
        if (episode.done) break;
      }
      return undefined;
    },
  },
  {
    usage: 'run <environment>',
    about: 'run episodes by a policy and print their returns',
    options: rolling,
    async run(context) {
      const { args, agent, signal, terminal } = context;
      const { rollout } = await import('./recording/rollout.ts');
      const rows: { episode: number; seed: number | null; steps: number; return: number; ended: string }[] = [];
      for await (const event of rollout(agent, args[0] as string, rolloutOf(context), { signal })) {
        if (event.kind === 'reset') {
          rows.push({ episode: event.episode, seed: event.seed, steps: 0, return: 0, ended: 'left' });
          continue;
        }
        const row = rows.at(-1);
        if (event.kind !== 'step' || row === undefined) continue;
        row.steps = event.step;
        row.return += event.reward;
        row.ended = event.terminated ? 'terminated' : event.truncated ? 'truncated' : 'left';
      }
      if (terminal.json) terminal.document(rows);
      else {
        terminal.table(
          ['EPISODE', 'SEED', 'STEPS', 'RETURN', 'ENDED'],
          rows.map((row) => [
            String(row.episode),
            String(row.seed ?? ''),
            String(row.steps),
            String(Number(row.return.toPrecision(6))),
            row.ended,
          ]),
        );
      }
      return undefined;
    },
  },
  {
    usage: 'record <environment> <file>',
    about: 'run episodes by a policy and write their steps to a new file as JSON lines',
    options: [...rolling, ['--max-bytes <n>', 'size of the file at most (default 1 GiB)']],
    help: 'python/jsonl_to_minari.py of the package makes a Minari dataset of the file.',
    async run(context) {
      const { args, options, agent, signal, terminal } = context;
      const [{ rollout }, { writeTrajectories }] = await Promise.all([
        import('./recording/rollout.ts'),
        import('./recording/jsonl.ts'),
      ]);
      const events = rollout(agent, args[0] as string, rolloutOf(context), { signal });
      const maxBytes = wholeNumber(options.maxBytes, '--max-bytes', { least: 1 }) ?? MAX_RECORD_BYTES;
      const recorded = await writeTrajectories(args[1] as string, events, maxBytes);
      if (terminal.json) terminal.document({ file: args[1], ...recorded });
      else
        terminal.note(
          `${counted(recorded.episodes, 'episode')}, ${counted(recorded.steps, 'step')}, ${counted(recorded.bytes, 'byte')} in ${args[1]}`,
        );
      return undefined;
    },
  },
];

export const hostCommands: readonly CapabilityHostCommand[] = [
  {
    usage: 'serve-gym <names...>',
    about: 'run a host with environments of Gymnasium, each in a process of your Python',
    options: [
      ['--python <program>', 'the Python that has gymnasium (default python3)'],
      ['--module <module>', 'a module that is imported first, because it registers the environment'],
    ],
    help: 'The environment CartPole-v1 of Python is gym/CartPole-v1 at the host.',
    pluginOptions({ args: [names], options: { python, module } }, base) {
      const gym = (names as readonly string[]).map((name) => ({
        name,
        ...(python !== undefined && { python }),
        ...(module !== undefined && { module }),
      }));
      return { ...base, gym: [...((base.gym as readonly unknown[] | undefined) ?? []), ...gym] };
    },
  },
];

function showReport(name: string, { findings, gymnasium }: EnvCheckReport, terminal: CommandTerminal): void {
  for (const { rule, step, expected, found, mend } of findings) {
    terminal.line(`${rule}${step === null ? '' : `, step ${step}`}`);
    terminal.line(`  expected  ${expected}`);
    terminal.line(`  found     ${found}`);
    terminal.line(`  mend      ${mend}`);
  }
  if (findings.length === 0) terminal.line(`${name} keeps the contract`);
  if (gymnasium === undefined) return;
  const { problem, warnings } = gymnasium;
  terminal.note(`Gymnasium's own checker: ${problem ?? 'passes'}`);
  for (const warning of warnings) terminal.note(`Gymnasium's own checker warns: ${warning}`);
}

function rolloutOf({ options }: CommandContext): RolloutOptions {
  const make = makeOf(options);
  return {
    episodes: wholeNumber(options.episodes, '--episodes', { least: 1 }) ?? 1,
    maxSteps: wholeNumber(options.maxSteps, '--max-steps', { least: 1 }) ?? 10_000,
    seed: seedOf(options),
    policy: policyOf(options.policy),
    ...(make && { make }),
  };
}

function policyOf(given: unknown): Policy {
  if (given === undefined || given === 'random') return 'random';
  return given === 'suggested' ? 'suggested' : { always: actionOf(given as string) };
}

const seedOf = ({ seed }: EnvRecord): number | null => wholeNumber(seed, '--seed') ?? null;

function makeOf({ make }: EnvRecord): EnvRecord | undefined {
  if (make === undefined) return undefined;
  return typedObject(make as string, `--make must be a JSON object such as {"is_slippery": false}, got ${make}`);
}

/** Reads a typed action: JSON, or a text for spaces of texts. */
const actionOf = (text: string): unknown => jsonOrText(text, 'the action');

/** Prints the state of an episode: its picture if it has one as text, and the possible actions. */
async function show(episode: RemoteEpisode, terminal: CommandTerminal, signal: AbortSignal): Promise<void> {
  const { observation, reward, terminated, truncated, done, step, info } = episode.latest;
  if (terminal.json) {
    return terminal.document({ episode_id: episode.id, step, observation, reward, terminated, truncated, info });
  }
  const picture = await episode.render('text', { signal }).catch(() => undefined);
  if (typeof picture === 'string') terminal.line(picture);
  terminal.line(`step ${step}  reward ${reward}  ${JSON.stringify(observation)}`);
  if (done) return terminal.line(terminated ? 'terminated' : 'truncated');
  const suggestions = await episode.suggestions({ signal });
  const words = suggestions.map(({ action, label }) => `${JSON.stringify(action)}${label === '' ? '' : ` ${label}`}`);
  if (words.length > 0) terminal.note(`actions: ${words.join(', ')}`);
}

async function* linesOfStdin(signal: AbortSignal): AsyncGenerator<string, void> {
  const { createInterface } = await import('node:readline');
  const lines = createInterface({ input: process.stdin, signal });
  try {
    yield* lines;
  } finally {
    lines.close();
  }
}
