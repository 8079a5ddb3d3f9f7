/** A host in a process of its own that calls the skill `endless` of a folder, and says when it runs. Usage: `tier-host.ts <tier> <root>` */
import { skillPlugin } from '../../../src/capabilities/skill/plugin.ts';
import type { Tier } from '../../../src/capabilities/skill/sandbox/sandbox.ts';
import { connect } from '../../../src/connect.ts';
import { createHost } from '../../../src/host/host.ts';

const [tier, root] = process.argv.slice(2) as [Tier, string];
const host = createHost({ plugins: [skillPlugin({ roots: [root], tier, warm: 1 })] });
await host.start();
const agent = await connect(host, { capabilities: ['skill'], agentId: 'ana' });
for await (const { kind } of agent.skill.call('endless')) if (kind === 'runs') console.log('runs');
