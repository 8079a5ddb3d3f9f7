/**
 * `handfast fleet check`: checks the file of a fleet, and shows its effect. Nothing is started.
 */

import { formatProblem } from '../../config/config.ts';
import { compileHooks } from '../../fleet/route/hooks.ts';
import { LENT } from '../../server/fleet/task-rights.ts';
import { checkLentGrants } from '../../server/grant-check.ts';
import { fleetConfigOf } from '../config-file.ts';
import type { Terminal } from '../output/terminal.ts';

/** Fails with `config_invalid` and every problem; prints warnings and the most important settings. */
export async function fleetCheck(file: string | undefined, terminal: Terminal): Promise<void> {
  const config = await fleetConfigOf(file, { unchecked: true });
  compileHooks(config.routing.hooks);
  for (const [index, { environment }] of config.workers.entries()) {
    // Without a configuration its plugins are the built-in ones.
    if (environment === undefined || environment.config !== undefined) continue;
    checkLentGrants(`workers[${index}].environment.grants`, environment.grants, []);
  }
  const { name, natsServers, listen, dataDir, workers, peers, warnings } = config;
  const ids = workers.map(({ id }) => id);
  const others = peers.map(({ id }) => id);
  const lent = workers.flatMap(({ id, environment }) =>
    environment === undefined ? [] : [[id, environment.capabilities ?? LENT] as const],
  );
  if (terminal.json) {
    const environments = Object.fromEntries(lent);
    const about = {
      fleet: name,
      bus: natsServers,
      listen,
      data_dir: dataDir,
      workers: ids,
      environments,
      peers: others,
    };
    return terminal.document({ ok: true, file: config.file ?? null, ...about, warnings });
  }
  for (const warning of warnings) terminal.note(`warning: ${formatProblem(warning)}`);
  terminal.line(`${config.file ?? 'no file: the defaults'}: fine`);
  terminal.line(`  fleet    ${name} on ${natsServers.join(', ') || 'in-process'}`);
  terminal.line(`  listen   ${listen.join(', ')}`);
  terminal.line(`  workers  ${ids.join(', ') || 'none'}`);
  for (const [id, capabilities] of lent) terminal.line(`  lends    ${id}: ${capabilities.join(', ')}`);
  terminal.line(`  peers    ${others.join(', ') || 'none'}`);
  terminal.line(`  data dir ${dataDir}`);
}
