/**
 * `defineEnvironment`, for authors of environments. It reports mistakes at the definition, and fills in members that most
 * environments do not need.
 *
 * @see docs/env.md#environments-of-your-own
 */
import { valueKind } from '../../base/value-kind.ts';
import { shown } from '../../wire/codec.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { isObject, type JsonObject } from '../../wire/json.ts';
import { type Environment, type EnvironmentKind, type Soon, then } from './environment.ts';
import { environmentFailed } from './refusals.ts';

/** Options of `make` without `makeOptions`: none. */
const noOptions = { type: 'object', properties: {}, additionalProperties: false };
/** As in Gymnasium: a reset ignores unknown options. */
const anyOptions = { type: 'object' };

/** An {@link EnvironmentKind} whose schemas may be absent: no options of `make`, any of `reset`. */
export type EnvironmentDefinition = Omit<EnvironmentKind, 'makeOptions' | 'resetOptions' | 'check'> &
  Partial<Pick<EnvironmentKind, 'makeOptions' | 'resetOptions'>>;

/**
 * Declares an environment.
 *
 * Throws `config_invalid` for a definition that no host could serve. An environment that `make` returns without spaces, `reset` or
 * `step` fails with `runtime_error`, reason `environment_failed`.
 *
 * @example
 * export const guess = defineEnvironment({
 *   id: 'example/Guess-v0',
 *   about: 'Guess a number from 0 to 99',
 *   maxEpisodeSteps: 20,
 *   make: () => new Guess(),
 * });
 */
export function defineEnvironment(definition: EnvironmentDefinition): EnvironmentKind {
  if (!isObject(definition)) {
    throw invalid(`defineEnvironment expects { id, about, make }, got ${valueKind(definition)}`);
  }
  const { id, about, make, maxEpisodeSteps: limit, makeOptions = noOptions, resetOptions = anyOptions } = definition;
  if (typeof id !== 'string' || id === '') throw invalid(`an environment needs an id, got ${valueKind(id)}`);
  const of = `the environment ${shown(id)}`;
  if (typeof about !== 'string') throw invalid(`${of}: about must be a sentence, got ${valueKind(about)}`);
  if (typeof make !== 'function') {
    throw invalid(`${of}: make must be a function that returns an environment, got ${valueKind(make)}`);
  }
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit > 0)) {
    throw invalid(`${of}: maxEpisodeSteps must be a whole number above 0, got ${valueKind(limit)}`);
  }
  for (const [name, schema] of Object.entries({ makeOptions, resetOptions })) {
    if (!isObject(schema)) throw invalid(`${of}: ${name} must be a JSON Schema, got ${valueKind(schema)}`);
  }
  return {
    ...definition,
    makeOptions,
    resetOptions,
    make: (options: JsonObject): Soon<Environment> => then(make(options), (made) => checked(id, made)),
  };
}

/** Returns the environment if it has every required member. */
function checked(id: string, made: Environment): Environment {
  const { actionSpace, observationSpace, reset, step } = Object(made) as Partial<Environment>;
  const missing = [
    ...(isObject(actionSpace) ? [] : ['actionSpace']),
    ...(isObject(observationSpace) ? [] : ['observationSpace']),
    ...(typeof reset === 'function' ? [] : ['reset']),
    ...(typeof step === 'function' ? [] : ['step']),
  ];
  if (missing.length === 0) return made;
  throw environmentFailed('environment_failed', `make of ${id} returned an environment without ${missing.join(', ')}`);
}

const invalid = (message: string): HandfastError => fail('config_invalid', message);
