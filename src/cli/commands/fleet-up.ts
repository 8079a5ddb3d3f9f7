/** `handfast fleet up`: runs an orchestrator and the workers of a file until a signal. */
import { join } from 'node:path';
import { createLog } from '../../base/log.ts';
import { formatProblem, type HostConfig } from '../../config/config.ts';
import type { FleetConfig } from '../../config/fleet-config.ts';
import { findRunning } from '../../server/running-hosts.ts';
import { type RunningServer, serve } from '../../server/serve.ts';
import type { TrustSubject } from '../../trust/store.ts';
import { asError, fail, HandfastError } from '../../wire/errors.ts';
import { configOf, fleetConfigOf } from '../config-file.ts';
import { leaveSoon } from '../leave.ts';
import type { Terminal } from '../output/terminal.ts';
import { packageVersion } from '../package-info.ts';
import { offerTrust } from '../trust/trust-question.ts';
import { logUnhandledRejections } from '../unhandled-rejections.ts';
import { reloadOnHangup, untilSignal, withAdvice, withListeners } from '../until-signal.ts';

export interface FleetUpFlags {
  readonly config?: string;
  readonly port?: number;
  readonly listen?: readonly string[];
  readonly verbose?: boolean;
}

/** Serves until a signal, then stops in order: open tasks continue after the next start. */
export async function fleetUp(file: string | undefined, flags: FleetUpFlags, terminal: Terminal): Promise<void> {
  const found: readonly TrustSubject[] = [
    ...(file === undefined ? (['fleet.yaml'] as const) : []),
    ...(flags.config === undefined ? (['handfast.yaml'] as const) : []),
  ];
  await offerTrust([...found, 'skills', 'agent files'], terminal);
  const fleetConfig = await fleetConfigOf(file);
  const config = hostOf(await configOf(flags.config), fleetConfig, flags);
  const format = process.stderr.isTTY ? 'text' : 'json';
  const log = createLog({ level: flags.verbose ? 'info' : 'warn', format });
  logUnhandledRejections(log);
  for (const warning of [...config.warnings, ...fleetConfig.warnings]) log.warn(formatProblem(warning));
  const stopped = untilSignal(terminal);
  const starting = new AbortController();
  const { signal } = starting;
  let up = false;
  void stopped.then(() => {
    starting.abort();
    // No timeout: it waits for the server of its bus.
    if (!up) leaveSoon();
  });
  const reread = async () => hostOf(await configOf(flags.config), fleetConfig, flags);
  const options = { log, version: packageVersion(), fleet: fleetConfig, signal, reread };
  const server = await serve(config, options).catch(async (error) => {
    // Stopped by a signal while it was a standby.
    if (signal.aborted) return undefined;
    throw withAdvice(await withWayOn(error, fleetConfig));
  });
  if (server === undefined) return leaveSoon();
  up = true;
  reloadOnHangup(server, log);
  if (terminal.json) terminal.document(readyLine(server));
  else greet(server, fleetConfig, terminal);
  const error = await Promise.race([stopped, server.closed]);
  // After an error another process has the work: it is left to that one.
  if (server.state === 'open') await server.fleet?.drain();
  await server.close();
  leaveSoon();
  if (error instanceof HandfastError) throw error;
}

/** Returns the same error with the cause that was found and the next step. */
async function withWayOn(thrown: unknown, { name, home, dataDir, natsServers }: FleetConfig): Promise<unknown> {
  const { code, message, detail } = asError(thrown);
  if (code === 'unreachable' && natsServers.length > 0) {
    const bus = natsServers.join(', ');
    return fail('unreachable', `${message} (${bus}); start one with: nats-server -js`, detail, thrown);
  }
  if (code !== 'journal_locked') return thrown;
  const running = (await findRunning(home)).find(({ fleet }) => fleet === name);
  const there = running === undefined ? `${message} (${dataDir})` : `fleet ${name} is running: process ${running.pid}`;
  const at = running?.url ? ` at ${running.url}` : '';
  const way = 'use it (handfast fleet workers), or give this one another name and data_dir';
  return fail('journal_locked', `${there}${at}; ${way}`, detail, thrown);
}

/** Returns the host of a fleet: its addresses are those of the fleet, its sessions are stored with its tasks. */
function hostOf(config: HostConfig, fleet: FleetConfig, flags: FleetUpFlags): HostConfig {
  return withListeners(
    {
      ...config,
      hostId: `fleet-${fleet.name}`,
      listen: fleet.listen,
      control: { ...config.control, enabled: true, dataDir: config.control.dataDir ?? join(fleet.dataDir, 'sessions') },
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
  const open = fleet?.orchestrator.counts().open ?? 0;
  const facts: [string, string][] = [
    ['bus', config.natsServers.join(', ') || 'in-process'],
    ...listeners.map((address, index): [string, string] => [index === 0 ? 'listens on' : 'also on', address]),
    ...(fleet?.workers ?? []).map((worker): [string, string] => ['worker', worker]),
    ['peers', config.peers.map(({ id }) => id).join(', ') || 'none'],
    ['data', config.dataDir],
    ...(open === 0
      ? []
      : [['open tasks', `${open} of an earlier run continue (handfast task ls --open)`] as [string, string]]),
    ['configuration', config.file ?? 'none: workers join by themselves (handfast worker)'],
    ['token', tokenFile === undefined ? 'not needed' : `${tokenFile} (handfast commands of this user find it)`],
  ];
  terminal.line(`handfast ${packageVersion()}: fleet ${config.name} is up, process ${process.pid}`);
  for (const [name, value] of facts) terminal.line(`  ${name.padEnd(14)} ${value}`);
  terminal.line();
  terminal.line('From a second terminal:');
  if ((fleet?.workers ?? []).length === 0 && config.peers.length === 0) {
    terminal.line('  handfast worker --id trial-1 --executor rehearsal --repo .');
  }
  terminal.line('  handfast fleet workers');
  terminal.line('  handfast task submit --wait "read README.md and count its lines"');
  terminal.line('Ctrl-C stops it after its running tasks have ended; other tasks continue after the next start.');
}
