/** The longer schemas of environments' options, apart from their code, which is loaded only when an environment is made. */

/** Largest side of a map. */
const MAX_SIDE = 64;
export const frozenLakeOptions = {
  type: 'object',
  properties: {
    desc: {
      description: 'rows of a map: S start, F frozen, H hole, G goal; null: map_name',
      anyOf: [
        { type: 'null' },
        {
          type: 'array',
          minItems: 1,
          maxItems: MAX_SIDE,
          items: { type: 'string', pattern: '^[SFHG]+$', maxLength: MAX_SIDE },
        },
      ],
    },
    map_name: { enum: ['4x4', '8x8', null], description: 'null: a random map of 8x8' },
    random_map: {
      type: 'object',
      description: "Gymnasium's generate_random_map(size, p, seed), instead of desc",
      properties: {
        size: { type: 'integer', minimum: 2, maximum: MAX_SIDE },
        p: { type: 'number', exclusiveMinimum: 0, maximum: 1 },
        seed: { type: ['integer', 'null'], minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
      },
      additionalProperties: false,
    },
    is_slippery: { type: 'boolean' },
    success_rate: { type: 'number', minimum: 0, maximum: 1 },
    reward_schedule: {
      type: 'array',
      description: 'rewards at the goal, in a hole, on ice',
      items: { type: 'number' },
      minItems: 3,
      maxItems: 3,
    },
  },
  additionalProperties: false,
};

/** Gymnasium's reset options `low` and `high`: bounds of the distribution of the first state. */
export const resetBoundsSchema = {
  type: 'object',
  properties: { low: { type: 'number' }, high: { type: 'number' } },
};

export const textWorldOptions = {
  type: 'object',
  properties: {
    rooms: { type: 'integer', minimum: 2, maximum: 20, description: 'rooms of the house (6)' },
    clutter: { type: 'integer', minimum: 0, maximum: 10, description: 'things that the quest does not need (3)' },
    world_seed: {
      type: ['integer', 'null'],
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'keeps one world for all episodes',
    },
  },
  additionalProperties: false,
};
