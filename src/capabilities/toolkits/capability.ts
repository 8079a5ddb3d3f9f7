/** The toolkits capability as a value: its parts for hosts, agents and the command line. */
import { defineCapability } from '../../packages/capability.ts';
import type { KitOptions, KitSettings } from './kits/index.ts';
import { toolkitsOffer } from './offer.ts';
import type { SecretSettings } from './secrets.ts';

/** The members of `options` of the `toolkits` plugin. */
interface ToolkitsOptions extends KitOptions {
  readonly toolkits?: readonly KitSettings[];
  readonly secrets?: readonly SecretSettings[];
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  readonly denyRisks?: readonly string[];
}

export const toolkits = defineCapability({
  name: 'toolkits',
  about: 'Bundles of tools that each session configures, enables and disables',
  byDefault: true,
  offer: () => toolkitsOffer,
  async plugin(options) {
    const { toolkits: named, secrets, allow, deny, denyRisks, ...more } = options as ToolkitsOptions;
    const [{ builtinToolkits }, { toolkitsPlugins }] = await Promise.all([
      import('./kits/index.ts'),
      import('./plugin.ts'),
    ]);
    return toolkitsPlugins({
      toolkits: builtinToolkits(named, more),
      ...(secrets && { secrets }),
      rules: { allow, deny, denyRisks },
    });
  },
  client: async (agent) => new (await import('./client.ts')).ToolkitsClient(agent),
  commands: async () => (await import('./commands.ts')).commands,
  check(options) {
    const { toolkits: named = [{ name: 'filesystem' }, { name: 'search' }, { name: 'sqlite' }] } =
      options as ToolkitsOptions;
    const on = named.map(({ name }) => name);
    const off = ['filesystem', 'search', 'sqlite', 'git', 'http', 'process'].filter((name) => !on.includes(name));
    const fix = `name what is off: ${off.join(', ')}`;
    return [{ status: 'ok', message: on.join(', '), ...(off.length > 0 && { fix }) }];
  },
});
