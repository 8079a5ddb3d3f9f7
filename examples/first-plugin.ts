/**
 * A first plugin: one tool, served by a host and called by an agent in the same process.
 *
 * Run it with `node -C source examples/first-plugin.ts`.
 */
import assert from 'node:assert/strict';
import { connect, createHost, tool, toolsPlugin } from 'handfast';

const dice = tool({
  name: 'roll',
  description: 'Rolls dice and adds them up',
  input: {
    type: 'object',
    properties: { dice: { type: 'integer', minimum: 1, maximum: 100 }, sides: { type: 'integer', default: 6 } },
    required: ['dice'],
  },
  async run({ dice, sides }: { dice: number; sides: number }, { emit }) {},
});
