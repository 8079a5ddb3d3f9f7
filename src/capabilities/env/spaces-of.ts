/** The spaces of environments as the wire describes them: of an id and its arguments, made once. Asked by the plugin. */
import type { JsonObject } from '../../wire/json.ts';
import { isObject } from '../../wire/json.ts';
import type { EnvironmentKind } from './environment.ts';
import { failure } from './errors.ts';
import { makeEnvironment } from './registry.ts';
import type { Space } from './spaces/space.ts';

export interface EnvironmentSpaces {
  readonly action: Space;
  readonly observation: Space;
}

/** Descriptions stored; the one used least recently is dropped. */
const MAX_STORED = 64;

export class SpaceCache {
  readonly #stored = new Map<string, EnvironmentSpaces>();

  /** The spaces of an environment. Rejects with `env.invalid_options`, `runtime_error`. */
  async of(kind: EnvironmentKind, options: JsonObject = {}): Promise<EnvironmentSpaces> {
    const make = options.make ?? {};
    if (!isObject(make)) throw failure('invalid_options', 'options.make must be an object');
    const key = JSON.stringify([kind.id, make]);
    let spaces = this.#stored.get(key);
    if (spaces === undefined) {
      const environment = await makeEnvironment(kind, make);
      spaces = { action: environment.actionSpace, observation: environment.observationSpace };
      await environment.close?.();
    }
    this.#stored.delete(key);
    this.#stored.set(key, spaces);
    for (const oldest of this.#stored.keys()) {
      if (this.#stored.size <= MAX_STORED) break;
      this.#stored.delete(oldest);
    }
    return spaces;
  }
}

/** The reply to `env/space/req`. */
export function describeSpaces({ action, observation }: EnvironmentSpaces): {
  action_space: JsonObject;
  state_schema: JsonObject;
} {
  return {
    action_space: action.describe(),
    state_schema: {
      space: observation.describe(),
      json_schema: {
        type: 'object',
        properties: { observation: observation.jsonSchema() },
        required: ['observation'],
      },
    },
  };
}
