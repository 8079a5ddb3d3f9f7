/**
 * The endpoints of a worker beside its bus: an HTTP receiver for senders of earlier versions, and an A2A agent. The
 * configuration of the worker enables each of them.
 *
 * They are opened when a worker starts.
 */
import { join } from 'node:path';
import type { Log } from '../../base/log.ts';
import { SENDER, type WorkerConfig } from '../../config/fleet-config.ts';
import type { Callback } from '../../fleet/bus/http/callbacks.ts';
import { httpReceiver } from '../../fleet/bus/http/worker-server.ts';
import { listenHttp, PORT_BANDS, type PortBand } from '../../fleet/bus/plain/http-listener.ts';
import type { Executor } from '../../fleet/executors/executor.ts';
import type { Worker } from '../../fleet/worker/worker.ts';
import {
  type Authenticator,
  createAuthenticator,
  LOCAL_PRINCIPAL,
  type PrincipalTokens,
  tokenDigest,
} from '../../session/auth.ts';
import type { Principal } from '../../session/principal.ts';
import { type SecretSource, secretReader } from './secret-reader.ts';

export interface WorkerEndpointsOptions {
  /** Its readiness is on the health page. */
  readonly executor: Executor;
  readonly log: Log;
  readonly version: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Timeout of a probe of the executor, milliseconds. */
const PROBE_MS = 3000;
const DAY_MS = 86_400_000;

export interface WorkerEndpoints {
  readonly addresses: readonly string[];
  close(): Promise<void>;
}

/** Opens the configured endpoints. Fails with `runtime_error` for a port that cannot be bound, `not_configured`. */
export async function openWorkerEndpoints(
  worker: Worker,
  config: WorkerConfig,
  options: WorkerEndpointsOptions,
): Promise<WorkerEndpoints> {
  const endpoints: WorkerEndpoint[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(endpoints.map((endpoint) => endpoint.close()));
  };
  try {
    if (config.receiver !== undefined) endpoints.push(await openReceiver(worker, config, config.receiver, options));
    if (config.a2a !== undefined) endpoints.push(await openAgent(worker, config, config.a2a, options));
  } catch (error) {
    await close();
    throw error;
  }
  return { addresses: endpoints.map(({ address }) => address), close };
}

interface WorkerEndpoint {
  readonly address: string;
  close(): Promise<void>;
}

async function openReceiver(
  worker: Worker,
  config: WorkerConfig,
  wanted: NonNullable<WorkerConfig['receiver']>,
  { executor, log, version, env = process.env }: WorkerEndpointsOptions,
): Promise<WorkerEndpoint> {
  const { auth, callbacks } = await sendersOf(wanted, env);
  let address = '';
  const receiver = httpReceiver({
    worker,
    repoPath: config.repo,
    url: () => wanted.url ?? address,
    version,
    auth,
    ready: () => readiness(executor),
    callbacks,
    replyTimeoutMs: wanted.replyTimeoutS * 1000,
    log,
  });
  const listening = listenHttp({
    host: wanted.host,
    port: wanted.port === 0 ? bandOf(config) : wanted.port,
    hasTokens: auth !== undefined,
    trustedProxies: wanted.trustedProxies,
    handle: (request, response) => receiver.handle(request, response),
  });
  const listener = await listening.catch((error) => {
    receiver.close();
    throw error;
  });
  address = listener.address;
  return {
    address,
    async close() {
      receiver.close();
      await listener.close();
    },
  };
}

async function openAgent(
  worker: Worker,
  config: WorkerConfig,
  wanted: NonNullable<WorkerConfig['a2a']>,
  { log, version, env = process.env }: WorkerEndpointsOptions,
): Promise<WorkerEndpoint> {
  const { serveA2a } = await import('../../fleet/bus/a2a/worker-server.ts');
  const { host, port, trustedProxies, url, partialState, retainDays } = wanted;
  return serveA2a(worker, {
    host,
    port,
    trustedProxies,
    ...(url !== undefined && { url: () => url }),
    partialState,
    retainMs: retainDays * DAY_MS,
    file: join(config.dataDir, 'a2a.db'),
    auth: await accessBy(secretReader(wanted, env), 'client'),
    version,
    log,
  });
}

/** Returns the port band of this kind of receiver; any free port for the others. */
function bandOf({ executor }: WorkerConfig): PortBand | 0 {
  const kind = executor?.kind ?? '';
  return Object.hasOwn(PORT_BANDS, kind) ? (kind as PortBand) : 0;
}

/** Probes the executor, because an open port does not show that the program behind it works. */
async function readiness(executor: Executor): Promise<{ readonly ok: boolean; readonly detail: string }> {
  const { present, authenticated, detail } = await executor.probe(AbortSignal.timeout(PROBE_MS));
  return { ok: present && authenticated !== false, detail };
}

/** Returns the senders that a receiver authenticates, and the callback address of each. */
async function sendersOf(
  receiver: NonNullable<WorkerConfig['receiver']>,
  env: Readonly<Record<string, string | undefined>>,
): Promise<{ readonly auth: Authenticator | undefined; readonly callbacks: ReadonlyMap<string, Callback> }> {
  const grants: PrincipalTokens[] = [];
  const callbacks = new Map<string, Callback>();
  const one = secretReader(receiver, env);
  // Without any token every client of the port counts as the local user.
  const first = { ...receiver, name: one === undefined ? LOCAL_PRINCIPAL.name : SENDER };
  for (const sender of [first, ...receiver.senders]) {
    const { name, callback } = sender;
    const secret = secretReader(sender, env);
    if (secret !== undefined) grants.push({ principal: senderOf(name), digests: [tokenDigest(await secret())] });
    // As receivers of earlier versions do, it brings the token its sender uses, unless it has one for the call-back.
    if (callback !== undefined)
      callbacks.set(name, { url: callback.url, token: secretReader(callback, env) ?? secret });
  }
  return { auth: grants.length === 0 ? undefined : createAuthenticator(grants), callbacks };
}

/** Returns a client that the file of the worker names: it submits tasks, and may do nothing else. */
const senderOf = (name: string): Principal => ({ name, fleet: { submit: true } });

/** Makes an authenticator of one token and one principal; undefined where none is configured. */
async function accessBy(secret: SecretSource | undefined, name: string): Promise<Authenticator | undefined> {
  if (secret === undefined) return undefined;
  return createAuthenticator([{ principal: senderOf(name), digests: [tokenDigest(await secret())] }]);
}
