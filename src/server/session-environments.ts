/**
 * The hosts whose tools sessions use: by default one in this process for each folder sessions work in, with the built-in
 * plugins of the configuration and the rights of the session's owner; or one host at an address, for all of them.
 *
 * Used by `control-assembly.ts`. `control/turns/environments.ts` decides how long each is kept.
 */
import { addressOf } from '../agent/addresses.ts';
import { AgentSession, type Dial } from '../agent/agent.ts';
import { ToolsClient } from '../capabilities/tools/client.ts';
import type { Environment, Place } from '../control/turns/environments.ts';
import type { HostConfig } from '../host/config.ts';
import type { Log } from '../host/context.ts';
import { createHost, type Host } from '../host/host.ts';
import { DEFAULT_MAX_MESSAGE_BYTES } from '../transport/link.ts';
import { memoryPair } from '../transport/memory.ts';
import { builtinPlugin } from './builtin-plugins.ts';

const CONNECT_TIMEOUT_MS = 10_000;

export interface SessionEnvironmentsOptions {
  readonly config: HostConfig;
  /** For a host at an address: this process's token for it. */
  readonly token?: string;
  readonly log: Log;
}

/** Finds or starts the host of a place. Rejects with `unreachable`, `auth_failed`, `no_caps`. */
export function sessionEnvironments(options: SessionEnvironmentsOptions): (place: Place) => Promise<Environment> {
  const { config, log } = options;
  const { host: address } = config.control;
  if (address !== undefined) return () => Promise.resolve(remote(address, options));
  return async ({ cwd, principal }) => {
    const host = createHost({
      hostId: config.hostId,
      plugins: config.plugins.filter(({ builtin }) => builtin).map(builtinPlugin),
      limits: { ...config.limits, maxParallel: 64 },
      workspace: cwd,
      auth: { hasTokens: false, authenticate: () => principal },
      log,
    });
    await host.start();
    return { connect: () => agentOf(inProcess(host), { resume: false }), stop: () => host.stop(0) };
  };
}

function remote(address: string, { token = '' }: SessionEnvironmentsOptions): Environment {
  const { dial, reconnects } = addressOf(address, {
    timeoutMs: CONNECT_TIMEOUT_MS,
    maxMessageBytes: DEFAULT_MAX_MESSAGE_BYTES,
  });
  return {
    connect: () => agentOf(dial, { token, ...(!reconnects && { resume: false }) }),
    // It is not ours to stop.
    stop: async () => {},
  };
}

async function agentOf(dial: Dial, options: { token?: string; resume?: boolean }) {
  const agent = await AgentSession.open(dial, ['tools'], {
    agentId: 'handfast-sessions',
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    // How long a call may take is up to the turn.
    timeoutMs: 0,
    ...options,
  });
  return {
    get state() {
      return agent.state;
    },
    tools: new ToolsClient(agent),
    close: () => agent.close(),
  };
}

function inProcess(host: Host): Dial {
  return async () => {
    const [ours, theirs] = memoryPair();
    host.accept(theirs);
    return ours;
  };
}
