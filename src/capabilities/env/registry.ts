/**
 * The built-in environments, and the function that makes one: checks options, and adds wrappers and the time limit. The plugin
 * reads this list and adds the environments of the configuration.
 */
import { type JsonSchema, lazyCheck } from '../../base/json-schema.ts';
import { suggest } from '../../base/suggest.ts';
import { type Check, violation } from '../../wire/check.ts';
import type { JsonObject } from '../../wire/json.ts';
import type { Environment, EnvironmentKind } from './environment.ts';
import { failure } from './errors.ts';
import { frozenLakeOptions, resetBoundsSchema, textWorldOptions } from './options.ts';
import { guarded } from './refusals.ts';
import { wrappersSchema } from './wrappers/schemas.ts';
import { timeLimit } from './wrappers/time-limit.ts';

const noOptions = { type: 'object', properties: {}, additionalProperties: false };
/** Gymnasium's ids take any reset options and ignore unknown ones. */
const anyOptions = { type: 'object' };

const options = (properties: JsonObject): JsonSchema => ({ type: 'object', properties, additionalProperties: false });
const flag = (description: string) => ({ type: 'boolean', description });
const chance = (description: string) => ({ type: 'number', minimum: 0, maximum: 1, description });

const cartPole: Omit<EnvironmentKind, 'id'> = {
  about: 'Balance a pole on a cart by pushing the cart left or right',
  makeOptions: options({ sutton_barto_reward: flag('0 a step and -1 at the end, instead of 1 a step') }),
  resetOptions: resetBoundsSchema,
  make: async (make) => new (await import('./environments/cart-pole.ts')).CartPole(make),
};

const frozenLake: Omit<EnvironmentKind, 'id'> = {
  about: 'Cross a slippery frozen lake from start to goal without falling into a hole',
  makeOptions: frozenLakeOptions,
  resetOptions: anyOptions,
  make: async (make) => new (await import('./environments/frozen-lake.ts')).FrozenLake(make),
};

const cliffWalking: Omit<EnvironmentKind, 'id'> = {
  about: 'Walk along a cliff to the goal; falling costs 100 and leads back to the start',
  makeOptions: options({ is_slippery: flag('a step goes to either side as likely as ahead') }),
  resetOptions: anyOptions,
  make: async (make) => new (await import('./environments/cliff-walking.ts')).CliffWalking(make),
};

const textWorld: EnvironmentKind = {
  id: 'handfast/TextWorld-v0',
  about: 'A house of rooms for agents that act in words: find the key, open the chest, bring the treasure home',
  maxEpisodeSteps: 100,
  makeOptions: textWorldOptions,
  resetOptions: anyOptions,
  make: async (make) => new (await import('./environments/text-world.ts')).TextWorld(make),
};

/** The environments that run no external code. The module of each is loaded when it is made. */
export const environmentKinds: readonly EnvironmentKind[] = [
  { id: 'CartPole-v0', maxEpisodeSteps: 200, rewardThreshold: 195, ...cartPole },
  { id: 'CartPole-v1', maxEpisodeSteps: 500, rewardThreshold: 475, ...cartPole },
  {
    id: 'MountainCar-v0',
    about: 'Drive a weak car out of a valley by gathering speed',
    maxEpisodeSteps: 200,
    rewardThreshold: -110,
    makeOptions: options({ goal_velocity: { type: 'number', description: 'least velocity at the goal' } }),
    resetOptions: resetBoundsSchema,
    make: async (make) => new (await import('./environments/mountain-car.ts')).MountainCar(make),
  },
  {
    id: 'Acrobot-v1',
    about: 'Swing two links up by a torque at the joint between them',
    maxEpisodeSteps: 500,
    rewardThreshold: -100,
    makeOptions: noOptions,
    resetOptions: resetBoundsSchema,
    make: async () => new (await import('./environments/acrobot.ts')).Acrobot(),
  },
  { id: 'FrozenLake-v1', maxEpisodeSteps: 100, rewardThreshold: 0.7, ...frozenLake },
  {
    ...frozenLake,
    id: 'FrozenLake8x8-v1',
    maxEpisodeSteps: 200,
    rewardThreshold: 0.85,
    make: (make) => frozenLake.make({ map_name: '8x8', ...make }),
  },
  { id: 'CliffWalking-v1', ...cliffWalking },
  {
    ...cliffWalking,
    id: 'CliffWalkingSlippery-v1',
    make: (make) => cliffWalking.make({ is_slippery: true, ...make }),
  },
  {
    id: 'Taxi-v4',
    about: 'Drive to the passenger, pick up, drive to the destination, drop off',
    maxEpisodeSteps: 200,
    rewardThreshold: 8,
    makeOptions: options({
      is_rainy: flag('moves drift to the side'),
      rainy_probability: chance('of moving ahead in rain'),
      fickle_passenger: flag('the passenger may change the destination once'),
      fickle_probability: chance('of changing it'),
    }),
    resetOptions: anyOptions,
    make: async (make) => new (await import('./environments/taxi.ts')).Taxi(make),
  },
  {
    id: 'Blackjack-v1',
    about: 'Come closer to 21 than the dealer without exceeding it',
    makeOptions: options({
      natural: flag('a natural pays 1.5; without sab only'),
      sab: flag('the rules of Sutton and Barto: a natural wins (default)'),
    }),
    resetOptions: anyOptions,
    make: async (make) => new (await import('./environments/blackjack.ts')).Blackjack(make),
  },
  textWorld,
];

/** Returns the schema of `options.make`: the options of the kind, Gymnasium's own `max_episode_steps`, and wrappers. */
export function makeSchema({ makeOptions }: EnvironmentKind): JsonSchema {
  const own = makeOptions.properties as JsonObject | undefined;
  const limit = { type: 'integer', minimum: 1, description: 'replaces the time limit of this id' };
  return { ...makeOptions, type: 'object', properties: { ...own, max_episode_steps: limit, wrappers: wrappersSchema } };
}

/**
 * Makes an environment with its time limit and the chosen wrappers.
 * @throws `env.invalid_options` when the options do not fit; `detail.path` has the place
 */
export async function makeEnvironment(
  kind: EnvironmentKind,
  options: JsonObject = {},
  { timeLimit: limited = true }: { readonly timeLimit?: boolean } = {},
): Promise<Environment> {
  // The validator takes tens of milliseconds to load, and most environments are made without options.
  if (Object.keys(options).length > 0)
    check(`options.make of ${kind.id}`, checksOf(kind).make, options, makeSchema(kind));
  const { max_episode_steps: limit = kind.maxEpisodeSteps, wrappers, ...own } = options;
  const made = await guarded(kind.id, () => kind.make(own));
  const environment = limit === undefined || !limited ? made : timeLimit(made, Number(limit));
  if (wrappers === undefined) return environment;
  return (await import('./wrappers/named.ts')).withWrappers(environment, wrappers as (string | JsonObject)[]);
}

/** @throws `env.invalid_options` when options of its reset do not fit; `detail.path` has the place */
export function checkResetOptions(kind: EnvironmentKind, options: JsonObject): void {
  if (Object.keys(options).length > 0) check(`options of ${kind.id}`, checksOf(kind).reset, options, kind.resetOptions);
}

interface Checks {
  readonly make: Check;
  readonly reset: Check;
}

/** Checks derived from the schemas of a kind: making them takes ten milliseconds, and every reset with options needs them. */
const checks = new WeakMap<EnvironmentKind, Checks>();

function checksOf(kind: EnvironmentKind): Checks {
  let found = checks.get(kind);
  if (found === undefined) {
    found = { make: lazyCheck(makeSchema(kind)), reset: lazyCheck(kind.resetOptions) };
    checks.set(kind, found);
  }
  return found;
}

function check(name: string, fits: Check, options: JsonObject, { properties }: JsonSchema): void {
  if (fits(options)) return;
  const [first] = fits.errors ?? [];
  const unknown = first?.instancePath === '' ? first.params.additionalProperty : undefined;
  if (typeof unknown === 'string') {
    const known = Object.keys(properties ?? {});
    const near = suggest(unknown, known);
    const meant = near === undefined ? `; it has ${known.join(', ') || 'none'}` : `; did you mean "${near}"?`;
    const { detail } = violation(name, fits.errors);
    throw failure('invalid_options', `${name} has no ${JSON.stringify(unknown.slice(0, 64))}${meant}`, detail);
  }
  const { message, detail } = violation(name, fits.errors);
  throw failure('invalid_options', message, detail);
}
