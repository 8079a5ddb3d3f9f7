/** Environments with real hosts of this process and the built-in tools, each working in its own folder on the disk. */
import type { TestContext } from 'node:test';
import { type BuiltinToolsOptions, builtinTools } from '../../../src/capabilities/tools/builtin/index.ts';
import { toolsPlugin } from '../../../src/capabilities/tools/plugin.ts';
import type { AnyTool } from '../../../src/capabilities/tools/tool.ts';
import { connect } from '../../../src/connect.ts';
import {
  type EnvironmentKey,
  Environments,
  type EnvironmentsOptions,
} from '../../../src/control/rounds/environments.ts';
import { createHost, type Host } from '../../../src/host/host.ts';

export interface HostEnvironments {
  readonly environments: Environments;
  /** Every host that was started, the oldest first. */
  readonly hosts: { readonly host: Host; readonly place: EnvironmentKey }[];
}

export function hostEnvironments(
  t: TestContext,
  options: Partial<EnvironmentsOptions> & {
    readonly tools?: readonly AnyTool[];
    readonly builtin?: BuiltinToolsOptions;
  } = {},
): HostEnvironments {
  const { tools = [], builtin, ...rest } = options;
  const hosts: HostEnvironments['hosts'] = [];
  const environments = new Environments({
    async open(place) {
      const host = createHost({
        plugins: [toolsPlugin({ tools: [...builtinTools(builtin), ...tools], compile: 'first-call' })],
        workspace: place.cwd,
        auth: { hasTokens: false, authenticate: () => place.principal },
      });
      await host.start();
      hosts.push({ host, place });
      return { connect: () => connect(host, { capabilities: ['tools'] }), stop: () => host.close(0) };
    },
    ...rest,
  });
  t.after(() => environments.stop());
  return { environments, hosts };
}
