/** `handfast worker`: runs one worker, lets it join a fleet, and stops it in order. */

import { handfastHome } from '../../base/handfast-home.ts';
import type { Log } from '../../base/log.ts';
import { createLog } from '../../base/log.ts';
import { DEFAULT_JOIN_MESSAGE_BYTES, join as joinFleet } from '../../bridge/join-fleet.ts';
import { EXECUTOR_KINDS, needsSettings } from '../../config/executor-settings.ts';
import { loadWorkerConfig, type WorkerConfig, workerConfig } from '../../config/fleet-config.ts';
import { hasSecret, NO_SECRETS } from '../../config/nats-settings.ts';
import type { NatsConnectionSettings } from '../../config/worker.schema.ts';
import { type Joined, workerOverStdio } from '../../fleet/bus/stream/join.ts';
import type { Worker } from '../../fleet/worker/worker.ts';
import { natsAccess } from '../../server/fleet/fleet-nats.ts';
import { registerRunningWorker } from '../../server/fleet/running-workers.ts';
import { assembleWorker } from '../../server/fleet/worker-assembly.ts';
import { stdioLink } from '../../transport/stdio.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import { findHost } from '../connect/find-host.ts';
import { requireOwnListener } from '../connect/own-listener.ts';
import { leaveSoon } from '../leave.ts';
import type { Terminal } from '../output/terminal.ts';
import { packageVersion } from '../package-info.ts';
import { logUnhandledRejections } from '../unhandled-rejections.ts';
import { untilSignal } from '../until-signal.ts';

export interface WorkerFlags {
  readonly join?: string;
  readonly fleet?: string;
  readonly stdio?: boolean;
  readonly tokenFile?: string;
  readonly id?: string;
  readonly executor?: string;
  readonly repo?: string;
  readonly tier?: string;
  readonly tool?: readonly string[];
  readonly pool?: readonly string[];
  readonly maxConcurrent?: number;
  readonly provision?: boolean;
  readonly verbose?: boolean;
}

export async function worker(file: string | undefined, flags: WorkerFlags, terminal: Terminal): Promise<number> {
  // Before anything prints: from here on stdout is the orchestrator's.
  const link = flags.stdio ? stdioLink({ maxMessageBytes: DEFAULT_JOIN_MESSAGE_BYTES }) : undefined;
  const format = process.stderr.isTTY ? 'text' : 'json';
  const log = createLog({ level: flags.verbose ? 'info' : 'warn', format });
  logUnhandledRejections(log);
  if (file === undefined && flags.repo === undefined) await requireTrustedRepository(terminal);
  const { config, nats } = await configured(file, flags);
  if (flags.provision) return provisioned(config, nats, flags, log);
  const assembled = await assembleWorker(config, { log, version: packageVersion() }).catch((error) => {
    throw withOther(error, config.id);
  });
  const running = assembled.worker;
  const stopped = untilSignal(terminal);
  let unregister: (() => Promise<void>) | undefined;
  try {
    await assembled.start();
    // Before it joins: an orchestrator of this user looks for it then.
    unregister = await registerRunningWorker(handfastHome(process.env), {
      pid: process.pid,
      id: config.id,
      repo: config.repo,
    });
    for (const address of assembled.addresses) log.info('also accepts tasks over HTTP', { address });
    if (link !== undefined) {
      const leaving = new AbortController();
      void stopped.then(() => leaving.abort());
      await workerOverStdio(running, link, { log, signal: leaving.signal });
      return 0;
    }
    return await joined(running, flags, { nats, log, terminal, stopped });
  } finally {
    await unregister?.();
    await assembled.stop();
    leaveSoon();
  }
}

/** Returns the same error; where the worker is running already, with the next step. */
function withOther(thrown: unknown, id: string): unknown {
  const { code, detail } = asError(thrown);
  if (code !== 'journal_locked') return thrown;
  return fail(
    'journal_locked',
    `worker ${id} of this user is running already; give this one another --id`,
    detail,
    thrown,
  );
}

/**
 * Fails with `untrusted_folder` for a current folder that is not trusted. A worker runs git in its folder, and the settings of
 * a repository name programs that git starts. A folder that the user named, here or in a file, is the user's own choice; the
 * current folder is not.
 */
async function requireTrustedRepository(terminal: Terminal): Promise<void> {
  const [{ isTrustedRepository, untrusted }, { placeOf }, { TrustStore }] = await Promise.all([
    import('../../trust/check.ts'),
    import('../../trust/repository.ts'),
    import('../../trust/store.ts'),
  ]);
  const place = placeOf('.');
  if (!place.isRepository) return;
  const { offerTrust } = await import('../trust/trust-question.ts');
  await offerTrust(['repository', 'agent files'], terminal);
  if (await isTrustedRepository(place, new TrustStore({ home: handfastHome(process.env) }))) return;
  throw untrusted(
    place.folder,
    'git would run here with settings of a repository that is not trusted; name it with --repo',
  );
}

/** Returns the settings of the file, overridden by the command line. */
async function configured(
  file: string | undefined,
  flags: WorkerFlags,
): Promise<{ readonly config: WorkerConfig; readonly nats: NatsConnectionSettings }> {
  const { id, executor, repo, tier, tool, pool, maxConcurrent } = flags;
  if (executor !== undefined && !(EXECUTOR_KINDS as readonly string[]).includes(executor)) {
    throw fail('usage', `--executor must be one of ${EXECUTOR_KINDS.join(', ')}`);
  }
  const overrides = {
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
      throw fail('usage', 'without a file, --id and --executor are required');
    }
    if (needsSettings(executor)) {
      throw fail(
        'usage',
        `--executor ${executor} needs more than options can express: write a file, see docs/fleet.md`,
      );
    }
    const config = await workerConfig(overrides).catch((error) => {
      throw asOption(error);
    });
    return { config, nats: {} };
  }
  return loadWorkerConfig(file, { instead: overrides });
}

/** Returns a problem of settings outside of a file, named by its option. */
function asOption(thrown: unknown): unknown {
  const { detail } = asError(thrown);
  const [problem] = (detail.problems ?? []) as readonly { readonly path: string; readonly message: string }[];
  return problem === undefined ? thrown : fail('usage', `--${problem.path}: ${problem.message}`, {}, thrown);
}

const isNats = (join: string | undefined): join is string => /^(nats|tls):/.test(join ?? '');

/** Returns the servers of `--join`, and the authentication of this worker to them. */
function overNats(join: string, nats: NatsConnectionSettings, { tokenFile }: WorkerFlags) {
  const servers = join.split(',');
  if (servers.some(hasSecret)) throw fail('usage', `--join: ${NO_SECRETS}`);
  const { tls } = nats;
  return { servers, ...natsAccess(tokenFile === undefined ? nats : { ...(tls && { tls }), tokenFile }) };
}

/** Makes the queues and consumers of the worker on the server, with these rights, for when it comes with fewer. */
async function provisioned(
  { id, pools, maxConcurrent }: WorkerConfig,
  nats: NatsConnectionSettings,
  flags: WorkerFlags,
  log: Log,
): Promise<number> {
  const { join } = flags;
  if (!isNats(join)) throw fail('usage', '--provision needs --join with nats:// addresses');
  const { provisionWorker } = await import('../../fleet/bus/nats/provision.ts');
  await provisionWorker({ ...overNats(join, nats, flags), log }, { agentId: id, pools, maxConcurrent });
  return 0;
}

interface Joining {
  /** The NATS settings of its file. */
  readonly nats: NatsConnectionSettings;
  readonly log: Log;
  readonly terminal: Terminal;
  readonly stopped: Promise<void>;
}

/** Belongs to a fleet until a signal, or until another process has superseded it. */
async function joined(running: Worker, flags: WorkerFlags, { nats, log, terminal, stopped }: Joining): Promise<number> {
  const { tokenFile, join } = flags;
  if (isNats(join)) {
    const { joinNats } = await import('../../fleet/bus/nats/join.ts');
    const member = joinNats(running, { ...overNats(join, nats, flags), log });
    return belongs(running, member, join, { terminal, stopped });
  }
  const found = await findHost({ connect: join, tokenFile, fleet: flags.fleet ?? true });
  const { address, via } = found;
  // Later a foreign listener is one more reason to wait for the orchestrator; now it is the answer.
  if (found.own !== undefined) await requireOwnListener(via, found.own);
  const refused = Promise.withResolvers<HandfastError>();
  const member = joinFleet(running, via, {
    log,
    onRefused(reason) {
      const error = refusalOf(reason, address);
      if (error !== undefined) refused.resolve(error);
    },
    // Asked when a link is open and before the token is sent on it. A token that was replaced is found for the next link.
    token: async () => {
      const { token, own } = await findHost({ connect: address, tokenFile }).catch(() => found);
      if (own === undefined || (await requireOwnListener(via, own))) return token;
      throw fail('unreachable', `${address}: the host stopped listening`);
    },
  });
  return belongs(running, member, address, { terminal, stopped, refused: refused.promise });
}

/** Returns the error that refuses this worker; undefined for a reason that may pass. */
function refusalOf(reason: string, address: string): HandfastError | undefined {
  const [code] = reason.split(':', 1);
  if (code === 'auth_failed') {
    return fail('auth_failed', `${address} does not accept the token; check --token-file and HANDFAST_TOKEN`);
  }
  if (code === 'unauthorized')
    return fail(
      'unauthorized',
      `${address}: the token has no grant fleet.worker for this name; grant it, or choose --id`,
    );
  if (code === 'unsupported_version')
    return fail('version_mismatch', `${address} speaks another version of the protocol`);
  if (code === 'name_taken') return fail('denied', `${address} has a worker of this name already; choose another --id`);
  return undefined;
}

/** Waits until a signal, which lets running work end, or until another process has superseded the worker. */
async function belongs(
  running: Worker,
  member: Joined,
  address: string,
  { terminal, stopped, refused }: Pick<Joining, 'terminal' | 'stopped'> & { readonly refused?: Promise<HandfastError> },
): Promise<number> {
  void member.accepted.then(
    () => ready(running.agentId, member.peerId, address, terminal),
    () => {},
  );
  const ends = [stopped.then(() => undefined), member.closed, ...(refused === undefined ? [] : [refused])];
  const ended = await Promise.race(ends);
  if (ended === undefined) await running.drain('stopping');
  await member.close();
  if (ended !== undefined) throw ended;
  return 0;
}

/** @param as its id at the orchestrator, which its token identifies */
function ready(agentId: string, as: string | undefined, address: string, terminal: Terminal): void {
  if (terminal.json) {
    return terminal.document({
      ready: true,
      worker: agentId,
      peer_id: as ?? agentId,
      joined: address,
      pid: process.pid,
    });
  }
  const named = as === undefined || as === agentId ? '' : ` as ${as}`;
  terminal.line(
    `handfast ${packageVersion()}: worker ${agentId} has joined ${address}${named}, process ${process.pid}`,
  );
}
