/** The env capability as a value: its parts for hosts, agents and the command line. */
import { type CapabilityOptions, defineCapability } from '../../packages/capability.ts';
import type { GymEnvironmentOptions } from './bridge/gym-environment.ts';
import type { WorkspaceTask } from './environments/workspace.ts';
import { envOffer } from './offer.ts';
import type { EnvPluginOptions } from './plugin.ts';
import { environmentKinds } from './registry.ts';

/** The members of `options` of the `env` plugin. */
interface EnvOptions extends EnvPluginOptions {
  readonly gym?: readonly GymEnvironmentOptions[];
  readonly gymProcesses?: number;
  readonly gymReplyMs?: number;
  readonly workspaces?: readonly WorkspaceTask[];
}

export const env = defineCapability({
  name: 'env',
  about: 'Environments with the Gymnasium contract: episodes of steps, observations and rewards',
  byDefault: true,
  offer(options: CapabilityOptions) {
    const { gym = [], workspaces = [], durability } = options as EnvOptions;
    // Environments that the configuration names are checked at the start.
    if (gym.length > 0 || workspaces.length > 0) return undefined;
    return envOffer(environmentKinds.length, durability);
  },
  async plugin(options: CapabilityOptions) {
    const { gym = [], gymProcesses = 16, gymReplyMs = 60_000, workspaces = [], ...rest } = options as EnvOptions;
    const { envPlugin } = await import('./plugin.ts');
    if (gym.length === 0 && workspaces.length === 0) return envPlugin(rest);
    const [{ gymKinds }, { workspaceKind }] = await Promise.all([
      import('./bridge/gym-environment.ts'),
      import('./environments/workspace.ts'),
    ]);
    const bridged = gymKinds(gym, { maxProcesses: gymProcesses, replyMs: gymReplyMs });
    return envPlugin({ ...rest, environments: [...environmentKinds, ...bridged, ...workspaces.map(workspaceKind)] });
  },
  client: async (agent) => new (await import('./client.ts')).EnvClient(agent),
  check(options) {
    const { gym = [], workspaces = [], durability } = options as EnvOptions;
    const configured = [...(gym.length > 0 ? [`${gym.length} of Gymnasium`] : [])];
    if (workspaces.length > 0) configured.push(`${workspaces.length} of tasks on files`);
    const own = `${environmentKinds.length} environments that run no code`;
    const ends =
      durability === undefined || durability === 'none' ? 'episodes end with the host' : 'episodes outlive the host';
    return [{ status: 'ok', message: `${[own, ...configured].join(', ')}; ${ends}` }];
  },
  commands: async () => (await import('./commands.ts')).commands,
  hostCommands: async () => (await import('./commands.ts')).hostCommands,
});
