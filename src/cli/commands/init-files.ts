/** The files `handfast init` writes: the commented configuration and a first plugin that works. Pure. */
import { configTemplate } from '../../config/template.ts';
import { fail } from '../../wire/errors.ts';
import { CONFIG_FILE } from '../config-file.ts';

/** `.mts`, so that Node loads it as a module in every folder. */
export const PLUGIN_FILE = 'hello.mts';

const PLUGIN = `// A plugin of your own. handfast.yaml names it, so "handfast up" loads it; after a change, restart the host.
import { setTimeout as pause } from 'node:timers/promises';
import { tool, toolsPlugin } from 'handfast';

// The smallest tool: what comes in, what goes out. Arguments are checked against the schema before "run" sees them.
const hello = tool({
  name: 'hello',
  description: 'Greets a person.',
  input: {
    type: 'object',
    properties: { name: { type: 'string', minLength: 1, description: 'Whom to greet.' } },
    required: ['name'],
  },
  run: ({ name }: { name: string }) => \`Hello, \${name}!\`,
});

// A slow tool: it reports its progress, and stops when its caller cancels or its deadline passes.
const countDown = tool({
  name: 'count_down',
  description: 'Counts down, a number every 200 ms.',
  input: {
    type: 'object',
    properties: { from: { type: 'integer', minimum: 1, maximum: 100, default: 5 } },
  },
  async run({ from }: { from: number }, { emit, signal }) {
    for (let left = from; left > 0; left--) {
      await emit('progress', { pct: (100 * (from - left)) / from, message: String(left) });
      await pause(200, undefined, { signal });
    }
    return { counted: from };
  },
});

export const plugin = toolsPlugin({ name: 'hello', tools: [hello, countDown] });
`;

/**
 * Returns the texts by file name. `schema` is the path of the JSON Schema of the configuration, as an editor finds it from
 * there.
 */
export function initFiles(schema: string): ReadonlyMap<string, string> {
  const plugins = 'plugins:\n  - tools\n';
  const template = configTemplate();
  if (!template.includes(`\n${plugins}`)) throw fail('runtime_error', 'the template has no list of plugins to add to');
  return new Map([
    // Editors with a YAML language server complete and check the file by this line.
    [
      CONFIG_FILE,
      `# yaml-language-server: $schema=${schema}\n${template.replace(plugins, `${plugins}  - ./${PLUGIN_FILE}\n`)}`,
    ],
    [PLUGIN_FILE, PLUGIN],
  ]);
}
