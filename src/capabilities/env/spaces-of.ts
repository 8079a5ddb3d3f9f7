/** The spaces of environments as the wire describes them: of an id and its arguments, made once. */
import { setNewest } from '../../base/evict-oldest.ts';
import type { JsonObject } from '../../wire/json.ts';
import { isObject } from '../../wire/json.ts';
import type { EnvironmentKind, RenderMode } from './environment.ts';
import { failure } from './errors.ts';
import { makeEnvironment } from './registry.ts';
import type { Space } from './spaces/space.ts';

export interface EnvironmentSpaces {
  readonly action: Space;
  readonly observation: Space;
  readonly renderModes: readonly RenderMode[];
}

/** Maximum number of stored descriptions; the least recently used one is dropped. */
const MAX_STORED = 64;

export class SpaceCache {
  readonly #stored = new Map<string, EnvironmentSpaces>();

  /** Returns the spaces of an environment. Rejects with `env.invalid_options`, `runtime_error`. */
  async of(kind: EnvironmentKind, options: JsonObject = {}): Promise<EnvironmentSpaces> {
    const make = options.make ?? {};
    if (!isObject(make)) throw failure('invalid_options', 'options.make must be an object');
    const key = JSON.stringify([kind.id, make]);
    let spaces = this.#stored.get(key);
    if (spaces === undefined) {
      const environment = await makeEnvironment(kind, make);
      const { actionSpace: action, observationSpace: observation, renderModes = [] } = environment;
      spaces = { action, observation, renderModes };
      await environment.close?.();
    }
    setNewest(this.#stored, key, spaces, MAX_STORED);
    return spaces;
  }
}

/** Returns the reply to `env/space/req`. */
export function describeSpaces({ action, observation, renderModes }: EnvironmentSpaces): {
  action_space: JsonObject;
  state_schema: JsonObject;
  render_modes: RenderMode[];
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
    render_modes: [...renderModes],
  };
}
