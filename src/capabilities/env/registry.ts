/**
 * The environments that come with Handfast, and how one is made: options checked, wrappers and time limit put around it. The
 * plugin reads this list and adds what the configuration names.
 */
import { type JsonSchema, lazyCheck } from '../../base/json-schema.ts';
import { violation } from '../../wire/check.ts';
import type { JsonObject } from '../../wire/json.ts';
import type { Environment, EnvironmentKind } from './environment.ts';
import { failure } from './errors.ts';
import { timeLimit } from './wrappers/time-limit.ts';

/** The environments that run no code of others. Their modules are loaded when one is made. */
export const environmentKinds: readonly EnvironmentKind[] = [];

/** The schema of `options.make`: what the kind takes, and Gymnasium's own `max_episode_steps`. */
export function makeSchema({ makeOptions }: EnvironmentKind): JsonSchema {
  const own = makeOptions.properties as JsonObject | undefined;
  const limit = { type: 'integer', minimum: 1, description: 'replaces the time limit of this id' };
  return { ...makeOptions, type: 'object', properties: { ...own, max_episode_steps: limit } };
}

/**
 * Makes an environment with its time limit.
 * @throws `env.invalid_options` when the options do not fit; `detail.path` says where
 */
export async function makeEnvironment(kind: EnvironmentKind, options: JsonObject = {}): Promise<Environment> {
  // The validator takes tens of milliseconds to load, and most environments are made without options.
  if (Object.keys(options).length > 0) checkOptions(kind, makeSchema(kind), options);
  const { max_episode_steps: limit = kind.maxEpisodeSteps, ...own } = options;
  const environment = await kind.make(own);
  return limit === undefined ? environment : timeLimit(environment, Number(limit));
}

function checkOptions({ id }: EnvironmentKind, schema: JsonSchema, options: JsonObject): void {
  const check = lazyCheck(schema);
  if (check(options)) return;
  const { message, detail } = violation(`options.make of ${id}`, check.errors);
  throw failure('invalid_options', message, detail);
}
