/**
 * The state of plugins, shared by the hosts of one user that have the same `host_id`: an editor's `handfast stdio` beside
 * `handfast up`, or two of them. The first to need it has it open and listens on a socket beside it; the others make the
 * requests of plugins that need it there, with the agent's own name, and pass its pushes on. When it ends, the next one opens
 * the state itself. A request that starts work in a workspace is not made at the host of another one.
 *
 * The system lets only this user connect (file 0600, folder 0700), so no token is required.
 */

import { AgentSession, type GrantedCapability } from '../agent/agent.ts';
import type { Log } from '../base/log.ts';
import { writePrivateFile } from '../base/private-file.ts';
import { readRegular } from '../base/regular-file.ts';
import { hearsChanges } from '../host/changed-capability.ts';
import type { CallContext, SessionView } from '../host/context.ts';
import type { Host } from '../host/host.ts';
import type { SharedState } from '../host/store/shared-state.ts';
import { waiting } from '../host/waiting.ts';
import { capabilitiesChanged } from '../protocol/a2e.ts';
import type { Method } from '../protocol/method.ts';
import { LOCAL_PRINCIPAL } from '../session/auth.ts';
import { may } from '../session/rights.ts';
import type { Session } from '../session/session.ts';
import { connectUnix, listenUnix } from '../transport/socket.ts';
import { withoutEnvelope } from '../wire/a2e.ts';
import { asError, fail } from '../wire/errors.ts';

/** Time for reaching the other host and for the handshake. */
const CONNECT_TIMEOUT_MS = 5_000;

export interface SharingDeps {
  /** Path of the socket. */
  readonly path: string;
  /** Absolute real path. */
  readonly workspace: string;
  readonly host: Pick<Host, 'accept' | 'closed' | 'limits'>;
  readonly log: Log;
}

/** Serves the state that `host` has opened to the other hosts. Never rejects: without the socket they say that it is locked. */
export async function serveState({ path, workspace, host, log }: SharingDeps): Promise<void> {
  if (process.platform === 'win32') return;
  try {
    const { maxMessageBytes } = host.limits;
    // Before a client can connect: a reader of the file has reached this host.
    await writePrivateFile(workspaceFile(path), workspace);
    const listener = await listenUnix({ path, maxMessageBytes }, (link) => host.accept(link, LOCAL_PRINCIPAL));
    void host.closed.then(() => listener.close());
  } catch (error) {
    log.warn('other hosts of this host_id have no learning and planning while this one runs', { error });
  }
}

const workspaceFile = (path: string): string => `${path}.workspace`;

/** Makes requests at the host that has the state, in one session there for each session here and each capability. */
export class StateForwarding implements Pick<SharedState, 'forward'> {
  readonly #path: string;
  readonly #sessions = new WeakMap<SessionView, Map<string, Promise<AgentSession>>>();
  /** Sessions for agents of plain A2E that got the losses. */
  readonly #informed = new WeakSet<AgentSession>();

  constructor(path: string) {
    this.#path = path;
  }

  async forward(method: Method, request: object, context: CallContext): Promise<object> {
    const { principal } = context.session;
    // The other host knows the rights of this user, not those that are granted here.
    if (principal.name !== LOCAL_PRINCIPAL.name || !may(principal, 'administer')) {
      throw fail('journal_locked', 'it serves this request to administrators of this user alone');
    }
    const agent = await this.#agent(context.session, method.capability);
    // Behind the connection: the file belongs to the host which has been reached, or to one that has taken over since.
    if (method.inWorkspace === true && (await this.#workspace()) !== context.workspace) {
      throw fail('journal_locked', 'it works in another folder, and this request starts work there');
    }
    const { subscribes = false } = method;
    if (subscribes) context.keepStream();
    const call = agent.calls.call(method, withoutEnvelope({ ...request }), {
      signal: context.signal,
      timeoutMs: 0,
      streaming: true,
      keepStream: subscribes,
    });
    const emitted = (async () => {
      for await (const { kind, data } of call) await context.emit(kind, data);
    })();
    if (subscribes) {
      emitted.then(
        () => context.finishStream(),
        (error) => context.finishStream(asError(error)),
      );
    } else await (method.waits?.(request as never) === true ? waiting(context, emitted) : emitted);
    return this.#withLosses(await call, context, agent);
  }

  /** Returns the reply to an agent that is not notified of changes, with the losses of the state once in its session. */
  #withLosses(reply: object, { depth, session }: CallContext, agent: AgentSession): object {
    const [granted] = agent.capabilities.values();
    const losses = granted?.metadata.losses;
    if (losses === undefined || depth > 0 || hearsChanges(session as Session) || this.#informed.has(agent))
      return reply;
    this.#informed.add(agent);
    return { ...reply, losses };
  }

  /** Returns the workspace of the host which has the state; undefined: it names none. */
  #workspace(): Promise<string | undefined> {
    return readRegular(workspaceFile(this.#path)).catch(() => undefined);
  }

  #agent(session: SessionView, capability: string): Promise<AgentSession> {
    const agents = this.#sessions.get(session) ?? new Map<string, Promise<AgentSession>>();
    this.#sessions.set(session, agents);
    let agent = agents.get(capability);
    if (agent === undefined) {
      agent = this.#open(session, capability, () => agents.delete(capability));
      agents.set(capability, agent);
    }
    return agent;
  }

  async #open(session: SessionView, capability: string, ended: () => void): Promise<AgentSession> {
    try {
      const dial = (signal: AbortSignal | undefined) =>
        connectUnix(`unix://${this.#path}`, { timeoutMs: CONNECT_TIMEOUT_MS, ...(signal && { signal }) });
      const agent = await AgentSession.open(dial, [capability], {
        agentId: session.agentId,
        connectTimeoutMs: CONNECT_TIMEOUT_MS,
        timeoutMs: 0,
        resume: false,
        onCapabilityChanged: (_, granted) => passOn(session, capability, granted),
      });
      // It was granted this capability alone, so the pushes belong to it.
      agent.onOtherPush((push, content) => session.push({ push, capability }, withoutEnvelope(content)));
      void agent.closed.then(ended);
      const close = (): void => void agent.close();
      if (session.signal.aborted) close();
      else session.signal.addEventListener('abort', close, { once: true });
      agent.require(capability);
      const granted = agent.capabilities.get(capability);
      if (granted?.metadata.losses !== undefined) passOn(session, capability, granted);
      return agent;
    } catch (error) {
      ended();
      throw error;
    }
  }
}

/** Passes on the facts of a capability at the other host, among them the losses of its state. */
function passOn(session: SessionView, capability: string, { enabled, metadata }: GrantedCapability): void {
  if (!hearsChanges(session as Session)) return;
  session.push({ push: capabilitiesChanged.push, capability }, { capability, enabled, metadata });
}
