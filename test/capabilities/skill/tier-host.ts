/**
 * A host in a separate process that calls a skill and reports when it runs; it is not closed. Usage: `tier-host.ts <tier>
 * <root> <skill>`
 */
import { skillPlugin } from '../../../src/capabilities/skill/plugin.ts';
import type { Tier } from '../../../src/capabilities/skill/sandbox/sandbox.ts';
import { connect } from '../../../src/connect.ts';
import { createHost } from '../../../src/host/host.ts';

const [tier, root, skill] = process.argv.slice(2) as [Tier, string, string];
const host = createHost({ plugins: [skillPlugin({ roots: [root], tier, warm: 1 })] });
await host.start();
const agent = await connect(host, { capabilities: ['skill'], agentId: 'ana' });
for await (const { kind } of agent.skill.call(skill)) if (kind === 'runs') console.log('runs');
await agent.close();
