/**
 * The loop of an agent, with rules where a model would decide: look for something, read what was found, count.
 *
 * The question it answers about this repository: which error names do the sources throw, and from how many places? Run
 * it with `node -C source examples/agent-loop.ts`.
 */
import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { connect, createHost, toolsPlugin } from 'handfast';
import { builtinTools } from 'handfast/tools';

const workspace = dirname(import.meta.dirname);
const host = createHost({ plugins: [toolsPlugin({ tools: builtinTools() })], workspace });
await host.start();
await using agent = await connect(host, { capabilities: ['tools'] });
const r = await agent.tools.call('grep', { pattern: "fail\\('", path: 'src', output: 'count' });
console.log(JSON.stringify(r, null, 1).slice(0, 600));
await host.stop();
