/** `handfast fleet up`: runs an orchestrator and the workers of a file until it is told to stop. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { formatProblem, type HostConfig } from '../../host/config.ts';
import { type FleetConfig, loadFleetConfig } from '../../host/fleet-config.ts';
import { createLog } from '../../host/log.ts';
import { type RunningServer, startServer } from '../../server/start-server.ts';
import { configOf } from '../config-file.ts';
import { leaveSoon } from '../leave.ts';
import { packageVersion } from '../package-info.ts';
import { logStrayRejections } from '../stray-rejections.ts';
import type { Terminal } from '../terminal.ts';
import { signalled, withAdvice, withListeners } from '../until-signal.ts';

/** Read when no file is named. */
const FLEET_FILE = 'fleet.yaml';

export interface FleetUpFlags {
  readonly config?: string;
  readonly port?: number;
  readonly listen?: readonly string[];
  readonly verbose?: boolean;
}

/** Serves until a signal, then stops in good order: tasks that have not ended go on with the next start. */
export async function fleetUp(file: string | undefined, flags: FleetUpFlags, terminal: Terminal): Promise<void> {
  const fleetConfig = await loadFleetConfig(file ?? (existsSync(FLEET_FILE) ? FLEET_FILE : undefined));
  const config = hostOf(await configOf(flags.config), fleetConfig, flags);
  const format = process.stderr.isTTY ? 'text' : 'json';
  const log = createLog({ level: flags.verbose ? 'info' : 'warn', format });
  logStrayRejections(log);
  for (const warning of [...config.warnings, ...fleetConfig.warnings]) log.warn(formatProblem(warning));
  const stopped = signalled(terminal);
  const server = await startServer(config, { log, version: packageVersion(), fleet: fleetConfig }).catch((error) => {
    throw withAdvice(error);
  });
  if (terminal.json) terminal.document(readyLine(server));
  else greet(server, fleetConfig, terminal);
  const over = await Promise.race([stopped, server.control?.rpc.stopped ?? stopped, server.fleet?.ended ?? stopped]);
  await server.stop();
  leaveSoon();
  if (over !== undefined) throw over;
}

/** The host of a fleet: its addresses are those of the fleet, its sessions are kept with its tasks. */
function hostOf(config: HostConfig, fleet: FleetConfig, flags: FleetUpFlags): HostConfig {
  return withListeners(
    {
      ...config,
      hostId: `fleet-${fleet.name}`,
      listen: fleet.listen,
      control: { ...config.control, enabled: true, data: config.control.data ?? join(fleet.data, 'sessions') },
    },
    flags,
  );
}

function readyLine({ fleet, url, listeners, tokenFile }: RunningServer): object {
  return {
    ready: true,
    fleet: fleet?.name ?? null,
    url: url ?? null,
    listeners,
    workers: fleet?.workers ?? [],
    token_file: tokenFile ?? null,
    pid: process.pid,
  };
}

function greet({ fleet, listeners, tokenFile }: RunningServer, config: FleetConfig, terminal: Terminal): void {
  const facts: [string, string][] = [
    ['bus', config.natsServers.join(', ') || 'in-process'],
    ...listeners.map((address, index): [string, string] => [index === 0 ? 'listens on' : 'also on', address]),
    ...(fleet?.workers ?? []).map((worker): [string, string] => ['worker', worker]),
    ['peers', config.peers.map(({ id }) => id).join(', ') || 'none'],
    ['data', config.data],
    ['configuration', config.file ?? 'none: workers join by themselves (handfast worker)'],
    ['token', tokenFile === undefined ? 'not needed' : `${tokenFile} (handfast commands of this user find it)`],
  ];
  terminal.line(`handfast ${packageVersion()}: fleet ${config.name} is up, process ${process.pid}`);
  for (const [name, value] of facts) terminal.line(`  ${name.padEnd(14)} ${value}`);
  terminal.line();
  terminal.line('From a second terminal:');
  terminal.line('  handfast fleet workers');
  terminal.line('  handfast task submit --wait "read README.md and count its lines"');
  terminal.line('Ctrl-C stops it; open tasks go on with the next start.');
}
