/** The memory capability as a value: its parts for hosts, agents and the command line. */
import { defineCapability } from '../../packages/capability.ts';
import { memoryOffer } from './offer.ts';
import type { MemoryPluginOptions } from './plugin.ts';

export const memory = defineCapability({
  name: 'memory',
  about: 'Memory that outlives sessions: facts, notes and search',
  byDefault: true,
  offer: memoryOffer,
  plugin: async (options) => (await import('./plugin.ts')).memoryPlugin(options as MemoryPluginOptions),
  client: async (agent) => new (await import('./client.ts')).MemoryClient(agent),
  commands: async () => (await import('./commands.ts')).commands,
  check(options) {
    const { embedder } = options as MemoryPluginOptions;
    if (embedder === undefined) {
      const message = 'vectors are hashed n-grams: they find other forms of the same words, not other words';
      return [{ status: 'ok', message }];
    }
    const { baseUrl, model, apiKeyEnv } = embedder;
    if (apiKeyEnv !== undefined && process.env[apiKeyEnv] === undefined) {
      const fix = `set the environment variable ${apiKeyEnv}`;
      return [{ status: 'fail', message: `the key of the embedder at ${baseUrl} is missing`, fix }];
    }
    return [
      { status: 'ok', message: `vectors of ${model} at ${baseUrl}; texts of entries and queries are sent there` },
    ];
  },
});
