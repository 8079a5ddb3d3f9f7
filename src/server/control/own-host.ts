/**
 * The host of the workspace for a server of sessions that has none beside it, as `handfast chat` and `handfast rpc` start them:
 * it is made when a session first needs it, with the state of this user's hosts, and ends when no environment uses it any more.
 */
import type { HostConfig } from '../../config/config.ts';
import type { AuditSink, Host } from '../../host/host.ts';
import { type Authenticator, LOCAL_PRINCIPAL } from '../../session/auth.ts';
import type { Principal } from '../../session/principal.ts';
import { type AssembledHost, type AssembleOptions, assembleHost } from '../assemble.ts';
import { InternalTokens } from '../fleet/internal-tokens.ts';

/** A host that runs already, and the token with which sessions of a principal come in. */
export interface WorkspaceHost {
  readonly host: Host;
  /** The audit that records its requests; hosts of other folders use it too. */
  readonly audit?: AuditSink | undefined;
  tokenFor(principal: Principal): string;
}

export interface OwnHostOptions extends Pick<AssembleOptions, 'log' | 'slots' | 'guard' | 'editors' | 'audit'> {
  /** Knows principals as they are configured now. Default: this user is the only principal. */
  readonly auth?: Authenticator | undefined;
}

/** A host that is shared by environments, each of which reports when it no longer needs the host. */
export class OwnHost {
  readonly #config: HostConfig;
  readonly #options: OwnHostOptions;
  #started: Promise<{ readonly assembled: AssembledHost; readonly workspace: WorkspaceHost }> | undefined;
  #users = 0;

  constructor(config: HostConfig, options: OwnHostOptions) {
    this.#config = config;
    this.#options = options;
  }

  /** Starts it where it does not run. Rejects as `assembleHost`. */
  async use(): Promise<WorkspaceHost> {
    this.#users += 1;
    this.#started ??= this.#start();
    try {
      return (await this.#started).workspace;
    } catch (error) {
      await this.leave();
      throw error;
    }
  }

  /** Ends it with its last user. Never rejects. */
  async leave(): Promise<void> {
    this.#users -= 1;
    if (this.#users > 0) return;
    const started = this.#started;
    this.#started = undefined;
    await (await started?.catch(() => undefined))?.assembled.stop(0);
  }

  async #start() {
    const { auth, audit, ...options } = this.#options;
    // Only the sessions of this process come in. This user itself is in no list.
    const inside = new InternalTokens({
      hasTokens: true,
      authenticate: () => undefined,
      current: (name) => (name === LOCAL_PRINCIPAL.name ? LOCAL_PRINCIPAL : auth?.current?.(name)),
      onChange: (listener) => auth?.onChange?.(listener),
    });
    const { limits, journal } = this.#config;
    const config = {
      ...this.#config,
      limits: { ...limits, maxParallel: 64 },
      // Its sessions end with this process: a journal on disk is for hosts that agents come back to.
      journal: { ...journal, kind: 'memory' as const },
    };
    const assembled = await assembleHost(config, { ...options, auth: inside, ...(audit !== undefined && { audit }) });
    const workspace: WorkspaceHost = {
      host: assembled.host,
      audit,
      tokenFor: (principal) => inside.tokenFor(principal),
    };
    return { assembled, workspace };
  }
}
