/** Plays episodes at a host by a policy, and yields each start and step at once. */
import type { AgentSession } from '../../../agent/agent.ts';
import { Generator, randomSeed } from '../../../base/random/generator.ts';
import type { CallOptions } from '../../../connection/call.ts';
import { fail } from '../../../wire/errors.ts';
import { EnvClient, type EnvRecord, type StepResult } from '../client.ts';
import { spaceOf } from '../spaces/space-of.ts';

/** The choice of actions: random elements of the action space, random suggestions of the environment, or always one action. */
export type Policy = 'random' | 'suggested' | { readonly always: unknown };

export interface RolloutOptions {
  readonly episodes: number;
  /** Seed of the first episode and of the policy; each further episode has the next one. Null: random. */
  readonly seed: number | null;
  readonly policy: Policy;
  /** Number of steps after which an episode is left. */
  readonly maxSteps: number;
  readonly make?: EnvRecord;
}

/** An event of a rollout: first the environment, then for each episode its start and its steps. */
export type RolloutEvent =
  | {
      readonly kind: 'environment';
      readonly env_name: string;
      readonly action_space: EnvRecord;
      readonly observation_space: EnvRecord;
    }
  | {
      readonly kind: 'reset';
      readonly episode: number;
      readonly episode_id: string;
      readonly seed: number | null;
      readonly observation: unknown;
      readonly info: EnvRecord;
    }
  | {
      readonly kind: 'step';
      readonly episode: number;
      readonly step: number;
      readonly action: unknown;
      readonly observation: unknown;
      readonly reward: number;
      readonly terminated: boolean;
      readonly truncated: boolean;
      readonly info: EnvRecord;
    };

/** Plays. Leaving the loop ends the running episode. Rejects as `reset` and `step` do. */
export async function* rollout(
  agent: AgentSession,
  name: string,
  { episodes, seed, policy, maxSteps, make }: RolloutOptions,
  call: CallOptions = {},
): AsyncGenerator<RolloutEvent, void> {
  const client = new EnvClient(agent);
  const { action_space, state_schema } = await client.spaces(name, { ...(make && { make }) }, call);
  yield { kind: 'environment', env_name: name, action_space, observation_space: state_schema.space as EnvRecord };
  const space = spaceOf(action_space);
  const draw = space.sampler(seed);
  const choices = new Generator(seed ?? randomSeed());
  for (let episode = 0; episode < episodes; episode++) {
    const own = seed === null ? null : seed + episode;
    await using running = await client.reset(name, { seed: own, ...(make && { make }) }, call);
    const { observation, info } = running.latest;
    yield { kind: 'reset', episode, episode_id: running.id, seed: own, observation, info };
    const choose = async (): Promise<unknown> => {
      if (typeof policy === 'object') return policy.always;
      if (policy === 'random') return space.toWire(draw());
      const found = await running.suggestions(call);
      if (found.length === 0) throw fail('usage', `${name} suggests no actions; use --policy random`);
      return choices.choice(found).action;
    };
    while (!running.done && running.latest.step < maxSteps) {
      const action = await choose();
      yield stepOf(episode, action, await running.step(action, call));
    }
  }
}

const stepOf = (episode: number, action: unknown, result: StepResult): RolloutEvent => {
  const { step, observation, reward, terminated, truncated, info } = result;
  return { kind: 'step', episode, step, action, observation, reward, terminated, truncated, info };
};
