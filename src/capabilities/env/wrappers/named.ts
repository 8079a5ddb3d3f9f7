/**
 * Wrappers by name, for `options.make.wrappers`: a list of names, or of objects with `name` and the wrapper's options. The
 * first one is applied first, so that it is the innermost.
 */
import type { JsonObject } from '../../../wire/json.ts';
import type { Environment } from '../environment.ts';
import { failure } from '../errors.ts';
import { clipAction, clipReward } from './clip.ts';
import { episodeStatistics } from './episode-statistics.ts';
import { frameStack } from './frame-stack.ts';
import { MAX_FRAMES, type WrapperName } from './schemas.ts';
import { timeLimit } from './time-limit.ts';

const wrappers: Readonly<Record<WrapperName, (inner: Environment, options: JsonObject) => Environment>> = {
  time_limit: (inner, { max_episode_steps }) => timeLimit(inner, Number(max_episode_steps)),
  record_episode_statistics: (inner, { stats_key = 'episode' }) => episodeStatistics(inner, { key: String(stats_key) }),
  clip_action: (inner) => clipAction(inner),
  clip_reward: (inner, { min_reward: min, max_reward: max }) =>
    clipReward(inner, { min: min as number | undefined, max: max as number | undefined }),
  frame_stack: (inner, { stack_size, padding_type }) =>
    frameStack(inner, { size: Number(stack_size), padding: padding_type as 'reset' | 'zero' | undefined }),
};

/**
 * Puts the chosen wrappers around an environment. The choice fits `wrappersSchema`.
 * @throws `env.invalid_options` if a wrapper does not fit the environment
 */
export function withWrappers(inner: Environment, chosen: readonly (string | JsonObject)[]): Environment {
  const frames = chosen.reduce<number>(
    (product, choice) =>
      product * (typeof choice === 'object' && choice.name === 'frame_stack' ? Number(choice.stack_size) : 1),
    1,
  );
  // Stacks of stacks multiply: eight of them would have more elements than a host has memory.
  if (frames > MAX_FRAMES) {
    throw failure(
      'invalid_options',
      `frame_stack: all stacks together have at most ${MAX_FRAMES} frames, not ${frames}`,
      {
        path: '/wrappers',
        limit: MAX_FRAMES,
      },
    );
  }
  return chosen.reduce<Environment>((environment, choice) => {
    const { name, ...options } = typeof choice === 'string' ? { name: choice } : choice;
    return wrappers[name as WrapperName](environment, options);
  }, inner);
}
