/** `handfast worker`: runs one worker, lets it join a fleet, and ends it in good order. */
import { addressOf } from '../../agent/addresses.ts';
import { type Joined, joinOverLink, workerOverStdio } from '../../fleet/bus/stream/join.ts';
import type { Worker } from '../../fleet/worker/worker.ts';
import type { Log } from '../../host/context.ts';
import { loadWorkerConfig, type WorkerConfig, workerConfig } from '../../host/fleet-config.ts';
import { EXECUTOR_KINDS } from '../../host/fleet-config-schema.ts';
import { createLog } from '../../host/log.ts';
import { assembleWorker } from '../../server/worker-assembly.ts';
import { stdioLink } from '../../transport/stdio.ts';
import { fail } from '../../wire/errors.ts';
import { findHost } from '../find-host.ts';
import { leaveSoon } from '../leave.ts';
import { packageVersion } from '../package-info.ts';
import { logStrayRejections } from '../stray-rejections.ts';
import type { Terminal } from '../terminal.ts';
import { signalled } from '../until-signal.ts';

export interface WorkerFlags {
  readonly join?: string;
  readonly stdio?: boolean;
  readonly tokenFile?: string;
  readonly id?: string;
  readonly executor?: string;
  readonly repo?: string;
  readonly tier?: string;
  readonly tool?: readonly string[];
  readonly pool?: readonly string[];
  readonly maxConcurrent?: number;
  readonly verbose?: boolean;
}

/** Messages an orchestrator may send: a brief of 256 KiB and what is around it. */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
const DIAL_MS = 10_000;

export async function worker(file: string | undefined, flags: WorkerFlags, terminal: Terminal): Promise<number> {
  // Before anything prints: from here on stdout is the orchestrator's.
  const link = flags.stdio ? stdioLink({ maxMessageBytes: MAX_MESSAGE_BYTES }) : undefined;
  const format = process.stderr.isTTY ? 'text' : 'json';
  const log = createLog({ level: flags.verbose ? 'info' : 'warn', format });
  logStrayRejections(log);
  const { config, folder } = await configured(file, flags);
  const assembled = await assembleWorker(config, { log, version: packageVersion(), folder });
  const running = assembled.worker;
  const stopped = signalled(terminal);
  try {
    await assembled.start();
    for (const address of assembled.addresses) log.info('also takes tasks over HTTP', { address });
    if (link !== undefined) {
      const leaving = new AbortController();
      void stopped.then(() => leaving.abort());
      await workerOverStdio(running, link, { log, signal: leaving.signal });
      return 0;
    }
    return await joined(running, flags, { log, terminal, stopped });
  } finally {
    await assembled.stop();
    leaveSoon();
  }
}

/** What the file says, and the command line instead of it. */
async function configured(
  file: string | undefined,
  flags: WorkerFlags,
): Promise<{ readonly config: WorkerConfig; readonly folder: string }> {
  const { id, executor, repo, tier, tool, pool, maxConcurrent } = flags;
  if (executor !== undefined && !(EXECUTOR_KINDS as readonly string[]).includes(executor)) {
    throw fail('usage', `--executor is one of ${EXECUTOR_KINDS.join(', ')}`);
  }
  const said = {
    ...(id !== undefined && { id }),
    ...(executor !== undefined && { executor }),
    ...(repo !== undefined && { repo }),
    ...(tier !== undefined && { tier }),
    ...(tool !== undefined && { tools: tool }),
    ...(pool !== undefined && { pools: pool }),
    ...(maxConcurrent !== undefined && { max_concurrent: maxConcurrent }),
  };
  if (file === undefined) {
    if (id === undefined || executor === undefined) {
      throw fail('usage', 'without a file, --id and --executor say what the worker is');
    }
    return { config: await workerConfig(said), folder: process.cwd() };
  }
  return loadWorkerConfig(file, { instead: said });
}

interface Joining {
  readonly log: Log;
  readonly terminal: Terminal;
  readonly stopped: Promise<void>;
}

/** Belongs to a fleet until a signal, or until another process has taken its name. */
async function joined(running: Worker, flags: WorkerFlags, { log, terminal, stopped }: Joining): Promise<number> {
  const { tokenFile, join } = flags;
  if (join !== undefined && /^(nats|tls):/.test(join)) {
    const { joinNats } = await import('../../fleet/bus/nats/join.ts');
    const auth = tokenFile === undefined ? {} : { tokenFile };
    return belongs(running, joinNats(running, { servers: join.split(','), auth, log }), join, { terminal, stopped });
  }
  const { address, token } = await findHost({ connect: join, tokenFile, fleet: true });
  // The HTTP port takes links of any protocol at /ws.
  const url = address.replace(/^http(s?):\/\/([^/?#]+)\/?$/, 'ws$1://$2/ws');
  const route = addressOf(url, { timeoutMs: DIAL_MS, maxMessageBytes: MAX_MESSAGE_BYTES });
  const member = joinOverLink(running, (signal) => route.dial(signal), {
    log,
    // A token that was replaced is found for the next link.
    token: async () => (await findHost({ connect: address, tokenFile }).catch(() => ({ token }))).token,
  });
  return belongs(running, member, url, { terminal, stopped });
}

/** Until a signal, which lets running work end, or until another process has taken the name. */
async function belongs(
  running: Worker,
  member: Joined,
  address: string,
  { terminal, stopped }: Omit<Joining, 'log'>,
): Promise<number> {
  void member.accepted.then(
    () => ready(running, address, terminal),
    () => {},
  );
  const ended = await Promise.race([stopped.then(() => undefined), member.ended]);
  if (ended === undefined) await running.drain('stopping');
  await member.leave();
  if (ended !== undefined) throw ended;
  return 0;
}

function ready({ agentId }: Worker, address: string, terminal: Terminal): void {
  if (terminal.json) terminal.document({ ready: true, worker: agentId, joined: address, pid: process.pid });
  else terminal.line(`handfast ${packageVersion()}: worker ${agentId} has joined ${address}, process ${process.pid}`);
}
