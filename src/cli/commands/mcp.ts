/**
 * `handfast mcp`: the tools, memory, prompts and resources of a host for the MCP client that started this process, on its
 * pipes. Nothing but the protocol goes to stdout.
 *
 * Uses the host that runs, else it starts one for as long as the client stays.
 */
import { AgentSession } from '../../agent/agent.ts';
import type { Log } from '../../base/log.ts';
import { HostSession, type OpenAgent } from '../../mcp-endpoint/host-session.ts';
import { McpRequests } from '../../mcp-endpoint/requests.ts';
import { serveMcpLink } from '../../mcp-endpoint/stdio.ts';
import { createAuthenticator, LOCAL_PRINCIPAL } from '../../session/auth.ts';
import type { Link } from '../../transport/link.ts';
import { memoryPair } from '../../transport/memory.ts';
import { asError } from '../../wire/errors.ts';
import { type ConnectFlags, findHost, routeOf } from '../connect/find-host.ts';
import { leaveSoon } from '../leave.ts';
import { ownPipes } from '../own-pipes.ts';
import { packageVersion } from '../package-info.ts';

export interface McpFlags extends Pick<ConnectFlags, 'connect' | 'tokenFile'> {
  /** Configuration of a host that this command starts. */
  readonly config?: string;
  readonly verbose?: boolean;
}

/** Longest message of a client, in bytes. */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
const CONNECT_TIMEOUT_MS = 10_000;
/** Time that a lost host is dialled at the same address, milliseconds. */
const RECONNECT_MS = 10_000;

/** A host, and how sessions with it are opened. */
interface ReachedHost {
  readonly open: OpenAgent;
  stop(): Promise<void>;
}

/**
 * Serves until the client closes the pipes, or a signal. Fails as finding and reaching the host do, and with `config_invalid`
 * and `untrusted_folder` for a host that it starts.
 */
export async function mcp(flags: McpFlags): Promise<void> {
  const { link, log } = ownPipes(MAX_MESSAGE_BYTES, flags.verbose);
  let behind: ReachedHost | undefined;
  try {
    behind = await reachHost(flags, link, log);
    const host = new HostSession(behind.open);
    // A host that cannot be used is reported now, not at the first call.
    await host.ready();
    const server = { name: 'handfast', title: 'Handfast', version: packageVersion() };
    const requests = new McpRequests(host, server);
    await serveMcpLink(link, requests);
    requests.close();
  } finally {
    link.destroy();
    await behind?.stop();
    leaveSoon();
  }
}

/** Reaches the host that runs, else one of this process. */
async function reachHost(flags: McpFlags, link: Link, log: Log): Promise<ReachedHost> {
  const find = () => findHost(flags);
  const found = await find().catch((thrown: unknown) => {
    if (flags.connect === undefined && asError(thrown).code === 'unreachable') return undefined;
    throw thrown;
  });
  if (found === undefined) return ownHost(flags, link, log);
  log.info('using the host that runs', { address: found.address, workspace: found.running?.workspace });
  return {
    async open(capabilities, options) {
      // Another host may run by now.
      const next = await find();
      const { token } = next;
      const { dial, reconnects } = routeOf(next, {
        timeoutMs: CONNECT_TIMEOUT_MS,
        maxMessageBytes: MAX_MESSAGE_BYTES,
        onStderr: (line) => log.warn(line),
      });
      return AgentSession.open(dial, capabilities, {
        ...options,
        token,
        connectTimeoutMs: CONNECT_TIMEOUT_MS,
        maxMessageBytes: MAX_MESSAGE_BYTES,
        // Behind that it is looked for again: its successor may have another address.
        reconnect: { maxMs: RECONNECT_MS },
        ...(!reconnects && { resume: false }),
      });
    },
    stop: async () => {},
  };
}

/** Starts a host in this process, which has the rights of its user: so have its clients, which started it. */
async function ownHost({ config: file }: McpFlags, link: Link, log: Log): Promise<ReachedHost> {
  const [{ configOf }, { assembleHost }] = await Promise.all([
    import('../config-file.ts'),
    import('../../server/assemble.ts'),
  ]);
  const config = await configOf(file);
  const assembled = await assembleHost(config, { auth: createAuthenticator([]), log });
  log.info('no host is running; using one of this process', { workspace: config.workspace });
  config.trust?.onWithdrawn((error) => {
    log.error(error.message);
    void link.close('the trust in the configuration was withdrawn');
  });
  return {
    open: (capabilities, options) => {
      const dial = async (): Promise<Link> => {
        const [ours, theirs] = memoryPair();
        assembled.host.accept(theirs, LOCAL_PRINCIPAL);
        return ours;
      };
      return AgentSession.open(dial, capabilities, { ...options, resume: false });
    },
    stop: () => assembled.stop(0),
  };
}
