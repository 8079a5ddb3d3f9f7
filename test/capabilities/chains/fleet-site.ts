/** A server with the chains capability and a fleet, all of it in this process. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { loadConfig } from '../../../src/config/config.ts';
import { loadFleetConfig } from '../../../src/config/fleet-config.ts';
import { connect } from '../../../src/connect.ts';
import { serve } from '../../../src/server/serve.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

const WORKERS = `workers:
  - { id: small, executor: rehearsal, overhead_tokens: 0, tier: haiku, min_lead_s: 0 }
  - { id: large, executor: rehearsal, overhead_tokens: 0, tier: opus, min_lead_s: 0 }
`;

export interface SiteOptions {
  /** Kinds of the plugin multi_agent, as YAML. Default: one whose tasks are those of the fleet. */
  readonly kinds?: string;
  /** Further plugins, as YAML, each behind a comma; `FOLDER` is the folder of the configuration. */
  readonly plugins?: string;
  readonly fleet?: boolean;
}

/** Starts a server with a fleet of two workers in this process, and a kind of subagents for its tasks. */
export async function fleetSite(
  t: TestContext,
  { kinds = '[{ name: fleet, fleet: {} }]', plugins = '', fleet: hasFleet = true }: SiteOptions = {},
) {
  const folder = temporaryFolder(t);
  const surroundings = { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } };
  const options = `max_subagents: 64, kinds: ${kinds}`;
  writeFileSync(
    join(folder, 'handfast.yaml'),
    `auth: { required: false }\nplugins: [chains, { use: multi_agent, options: { ${options} } }${plugins.replaceAll('FOLDER', folder)}]\n`,
  );
  const routing = 'routing: { min_lead_s: 0 }\njoin_grace_s: 0\n';
  writeFileSync(join(folder, 'fleet.yaml'), `data_dir: data\n${routing}${WORKERS}`);
  const config = await loadConfig('handfast.yaml', surroundings);
  const fleet = await loadFleetConfig('fleet.yaml', surroundings);
  const control = { ...config.control, enabled: true, dataDir: join(folder, 'sessions') };
  const listen = [`unix://${join(folder, 'socket')}`];
  const server = await serve({ ...config, listen, control }, { ...(hasFleet && { fleet }), announce: false });
  t.after(() => server.close(0));
  const agent = await connect(listen[0] as string, { capabilities: ['chains', 'multi_agent'], agentId: 'ana' });
  t.after(() => agent.close());
  const tasks = () => server.fleet?.orchestrator.find({}) ?? Promise.resolve([]);
  return { agent, chains: agent.chains, tasks, server, folder };
}
