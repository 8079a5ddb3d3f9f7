/** The tools capability as a value: its parts for hosts, agents and the command line. */
import { defineCapability } from '../../packages/capability.ts';

/** The members of `options` of the `tools` plugin. */
interface ToolsOptions {
  readonly shell?: boolean;
  readonly allowPrivateAddresses?: boolean;
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  readonly denyRisks?: readonly string[];
  readonly maxSeconds?: number;
}

export const tools = defineCapability({
  name: 'tools',
  about: 'Files, search, the web and programs of this machine',
  byDefault: true,
  async plugin(options) {
    const { shell, allowPrivateAddresses, allow, deny, denyRisks, maxSeconds } = options as ToolsOptions;
    const [{ builtinTools }, { toolsPlugin }] = await Promise.all([
      import('./builtin/index.ts'),
      import('./plugin.ts'),
    ]);
    return toolsPlugin({
      tools: builtinTools({ shell, allowPrivateAddresses }),
      rules: { allow, deny, denyRisks },
      maxSeconds,
      // These schemas are known to be valid, and compiling them would double the time to the first handshake.
      compile: 'first-call',
    });
  },
  client: async (agent) => new (await import('./client.ts')).ToolsClient(agent),
  check({ shell }, { workspace }) {
    if (shell === false) return [{ status: 'ok', message: `files in ${workspace}, search, web; no shell` }];
    if (process.getBuiltinModule('node:fs').existsSync('/bin/sh')) {
      return [{ status: 'ok', message: `files in ${workspace}, search, web, and a shell outside any sandbox` }];
    }
    const fix = 'call the shell tool with argv instead of command';
    return [{ status: 'warn', message: 'the shell tool is on, but there is no /bin/sh', fix }];
  },
});
