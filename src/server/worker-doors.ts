/**
 * The doors of a worker beside its bus: a port where senders of earlier versions hand it tasks, and one where it is an A2A
 * agent.
 *
 * Opened by `fleet-assembly.ts` and by the `worker` command, as its configuration says.
 */

import { join } from 'node:path';
import { listenHttp, PORT_BANDS, type PortBand } from '../fleet/bus/http/http-listener.ts';
import { httpReceiver } from '../fleet/bus/http/receiver.ts';
import type { Executor } from '../fleet/executors/executor.ts';
import type { Worker } from '../fleet/worker/worker.ts';
import { type Authenticator, createAuthenticator, tokenDigest } from '../host/auth.ts';
import type { Log } from '../host/context.ts';
import type { WorkerConfig } from '../host/fleet-config.ts';
import { type SecretSource, secretOf } from './secret-of.ts';

export interface WorkerDoorsOptions {
  /** What does the work; senders that look are told whether it can. */
  readonly executor: Executor;
  readonly log: Log;
  readonly version: string;
  /** Folder that paths of token files start at. */
  readonly folder: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Longest look at an executor. */
const PROBE_MS = 3000;

export interface WorkerDoors {
  readonly addresses: readonly string[];
  close(): Promise<void>;
}

/** Opens what the configuration asks for. Fails with `runtime_error` for a port that cannot be had, `not_configured`. */
export async function openWorkerDoors(
  worker: Worker,
  config: WorkerConfig,
  { executor, log, version, folder, env = process.env }: WorkerDoorsOptions,
): Promise<WorkerDoors> {
  const addresses: string[] = [];
  const closing: (() => Promise<void>)[] = [];
  let receiverUrl = '';
  const { receiver: wanted } = config;
  if (wanted !== undefined) {
    const auth = await accessBy(secretOf(wanted, folder, env), 'sender');
    const receiver = httpReceiver({
      worker,
      repoPath: config.repo,
      url: () => receiverUrl,
      version,
      auth,
      ready: () => readiness(executor),
      log,
    });
    const listener = await listenHttp({
      port: wanted.port === 0 ? bandOf(config) : wanted.port,
      hasTokens: auth !== undefined,
      handle: (request, response) => receiver.handle(request, response),
    });
    receiverUrl = listener.address;
    addresses.push(listener.address);
    closing.push(async () => {
      receiver.close();
      await listener.close();
    });
  }
  if (config.a2a !== undefined) {
    const { serveA2a } = await import('../fleet/bus/a2a/agent-server.ts');
    const auth = await accessBy(secretOf(config.a2a, folder, env), 'client');
    const agent = await serveA2a(worker, {
      port: config.a2a.port,
      file: join(config.data, 'a2a.db'),
      auth,
      version,
      log,
    });
    addresses.push(agent.address);
    closing.push(() => agent.close());
  }
  return {
    addresses,
    async close() {
      await Promise.all(closing.map((close) => close()));
    },
  };
}

/** The ports receivers of this kind are looked for at; any free one for the others. */
function bandOf({ executor }: WorkerConfig): PortBand | 0 {
  const kind = executor?.kind ?? '';
  return Object.hasOwn(PORT_BANDS, kind) ? (kind as PortBand) : 0;
}

/** A port that answers says nothing about the program behind it, so that is asked. */
async function readiness(executor: Executor): Promise<{ readonly ok: boolean; readonly detail: string }> {
  const { present, authenticated, detail } = await executor.probe(AbortSignal.timeout(PROBE_MS));
  return { ok: present && authenticated !== false, detail };
}

/** One token, one principal; undefined where none is configured. */
export async function accessBy(secret: SecretSource | undefined, name: string): Promise<Authenticator | undefined> {
  if (secret === undefined) return undefined;
  return createAuthenticator([{ principal: { name }, digests: [tokenDigest(await secret())] }]);
}
