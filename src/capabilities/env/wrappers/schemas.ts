/** The options of wrappers that the wire can name, apart from their code, which is loaded when one is used. */
import type { JsonSchema } from '../../../base/json-schema.ts';
import type { JsonObject } from '../../../wire/json.ts';

/** Maximum number of observations in a stack. */
export const MAX_FRAMES = 64;
/** Maximum number of wrappers of one environment. */
const MAX_WRAPPERS = 8;

interface WrapperOptions {
  readonly properties: JsonObject;
  readonly required?: readonly string[];
}

/** Options by the name of the wrapper, with the option names of Gymnasium. */
export const wrapperOptions = {
  time_limit: { properties: { max_episode_steps: { type: 'integer', minimum: 1 } }, required: ['max_episode_steps'] },
  record_episode_statistics: { properties: { stats_key: { type: 'string', minLength: 1, maxLength: 64 } } },
  clip_action: { properties: {} },
  clip_reward: { properties: { min_reward: { type: 'number' }, max_reward: { type: 'number' } } },
  frame_stack: {
    properties: {
      stack_size: { type: 'integer', minimum: 1, maximum: MAX_FRAMES },
      padding_type: { enum: ['reset', 'zero'] },
    },
    required: ['stack_size'],
  },
} satisfies Readonly<Record<string, WrapperOptions>>;

export type WrapperName = keyof typeof wrapperOptions;

/** The schema of `options.make.wrappers`. */
export const wrappersSchema: JsonSchema = {
  type: 'array',
  description: 'wrappers to put around it, the innermost first',
  maxItems: MAX_WRAPPERS,
  // By the name, so that an error is about the intended wrapper.
  items: {
    if: { type: 'object' },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: {
      properties: { name: { enum: Object.keys(wrapperOptions) } },
      required: ['name'],
      allOf: Object.entries<WrapperOptions>(wrapperOptions).map(([name, { properties, required = [] }]) => ({
        if: { properties: { name: { const: name } } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { properties: { name: { const: name }, ...properties }, required, additionalProperties: false },
      })),
    },
    else: {
      enum: Object.entries<WrapperOptions>(wrapperOptions)
        .filter(([, { required = [] }]) => required.length === 0)
        .map(([name]) => name),
    },
  },
};
