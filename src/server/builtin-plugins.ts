/**
 * Makes the plugins that come with Handfast from what the configuration says of them.
 *
 * Called by `assemble.ts`. Their options were checked when the configuration was read (`config/host.schema.ts`).
 */
import { builtinTools } from '../capabilities/tools/builtin/index.ts';
import { toolsPlugin } from '../capabilities/tools/plugin.ts';
import type { PluginConfig } from '../config/config.ts';
import type { Plugin } from '../host/plugin.ts';

/** What `options` of the `tools` plugin may hold. */
interface ToolsOptions {
  readonly shell?: boolean;
  readonly allowPrivateAddresses?: boolean;
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  readonly denyRisks?: readonly string[];
  readonly maxSeconds?: number;
}

/** The built-in plugin that `use` names. The configuration lets no other name through. */
export function builtinPlugin({ priority, exclusive, options }: PluginConfig): Plugin {
  const { shell, allowPrivateAddresses, allow, deny, denyRisks, maxSeconds } = options as ToolsOptions;
  return toolsPlugin({
    tools: builtinTools({ shell, allowPrivateAddresses }),
    priority,
    exclusive,
    rules: { allow, deny, denyRisks },
    maxSeconds,
    // These schemas are known to be right, and compiling them would double the time to the first handshake.
    compile: 'first-call',
  });
}
