/**
 * The environment that a worker lends to the executors of its tasks: `/mcp` on a separate loopback address, where the token of
 * a task is valid from its start to its end and only for capabilities that the worker lends and the task asks for.
 *
 * For a worker with `environment`; each attempt opens one. Each has a separate MCP endpoint, so that no session of one task is
 * known to the token of another.
 * @see docs/fleet-executors.md#environment
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { join } from 'node:path';
import type { Log } from '../../base/log.ts';
import { type HostConfig, loadConfig } from '../../config/config.ts';
import type { WorkerConfig } from '../../config/fleet-config.ts';
import type { EnvironmentTask, OpenEnvironment, TaskEnvironments } from '../../fleet/worker/task-environment.ts';
import type { Host } from '../../host/host.ts';
import { hostSlots } from '../../host/host-limits.ts';
import type { OwnToolRule } from '../../mcp-endpoint/host-session.ts';
import { type Authenticator, tokenDigest } from '../../session/auth.ts';
import { AuthThrottle } from '../../session/auth-throttle.ts';
import { bearerToken, refusedToken } from '../../session/bearer.ts';
import type { Principal } from '../../session/principal.ts';
import { permits } from '../../session/rights.ts';
import { StorageShares } from '../../session/storage-shares.ts';
import { TrafficShares } from '../../session/traffic-shares.ts';
import { type HttpRoute, sendReply } from '../../transport/http/http-exchange.ts';
import { type AssembledHost, assembleHost } from '../assemble.ts';
import { auditOf, type DeferredAudit } from '../deferred-audit.ts';
import { checkLentGrants } from '../grant-check.ts';
import { type HttpListener, httpServer } from '../http/http.ts';
import { type McpRoutes, mcpRoutes } from '../http/mcp-routes.ts';
import { REFUSED, type ServerRoute, TOO_MANY } from '../http/server-route.ts';
import { guardAround } from '../protected-paths.ts';
import { lentPrincipal, taskPrincipal, taskTools } from './task-rights.ts';

export interface TaskEnvironmentsOptions {
  readonly log: Log;
  /** Version of this software, sent to MCP clients. */
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Environments that a worker lends while it runs. */
export interface LentEnvironments extends TaskEnvironments {
  /** Withdraws every token and stops running requests. Bounded, never rejects. */
  close(): Promise<void>;
}

/** A host of one folder, and the number of tasks that use it. */
interface FolderHost {
  readonly assembled: Promise<AssembledHost>;
  users: number;
}

/** Name by which executors know the environment. */
const NAME = 'handfast';
const PATH = '/mcp';
const METHODS = ['POST', 'GET', 'DELETE'] as const;

/**
 * Opens the address of a worker's environment. Its hosts are started with the first task that uses them.
 *
 * Fails with `config_invalid` for a configuration that cannot be used, `runtime_error` for an address that cannot be bound.
 */
export async function lendEnvironments(
  worker: WorkerConfig,
  options: TaskEnvironmentsOptions,
): Promise<LentEnvironments> {
  const settings = worker.environment ?? {};
  const loaded = await loadConfig(settings.config, { env: options.env, cwd: worker.repo });
  checkLentGrants('environment.grants', settings.grants, loaded.plugins);
  const lent = new Lent(worker, loaded, lentPrincipal(worker.id, settings), options);
  await lent.listen();
  return lent;
}

class Lent implements LentEnvironments {
  readonly #worker: WorkerConfig;
  /** As it was loaded. */
  readonly #loaded: HostConfig;
  /** The configuration of its hosts: with separate data. */
  readonly #config: HostConfig;
  /** The most that a task may use. */
  readonly #lender: Principal;
  readonly #options: TaskEnvironmentsOptions;
  readonly #audit: DeferredAudit | undefined;
  readonly #throttle = new AuthThrottle();
  readonly #traffic: TrafficShares;
  readonly #slots: ReturnType<typeof hostSlots>;
  readonly #storage: StorageShares;
  readonly #hosts = new Map<string, FolderHost>();
  /** Lent environments by the hex digest of their token. */
  readonly #open = new Map<string, LentToTask>();
  #listener: HttpListener | undefined;
  #closing: Promise<void> | undefined;

  constructor(worker: WorkerConfig, loaded: HostConfig, lender: Principal, options: TaskEnvironmentsOptions) {
    const home = join(worker.dataDir, 'environment');
    this.#worker = worker;
    this.#loaded = loaded;
    this.#config = {
      ...loaded,
      home,
      journal: { ...loaded.journal, kind: 'memory' },
      audit: { ...loaded.audit, file: join(home, 'audit.jsonl') },
    };
    this.#lender = lender;
    this.#options = options;
    this.#audit = auditOf(this.#config, options.log);
    this.#traffic = new TrafficShares(loaded.limits);
    this.#slots = hostSlots(loaded.limits);
    this.#storage = new StorageShares(loaded.limits);
  }

  /** Fails with `runtime_error`. */
  async listen(): Promise<void> {
    const { log } = this.#options;
    this.#listener = await httpServer({
      routes: METHODS.map((method) => this.#route(method)),
      onHandlerError: (error, path) => log.error('a request to the environment failed', { path, error }),
    });
  }

  async open(task: EnvironmentTask): Promise<OpenEnvironment | undefined> {
    const principal = taskPrincipal(this.#lender, task);
    const { address } = this.#listener ?? {};
    if (principal === undefined || address === undefined || this.#closing !== undefined) return undefined;
    const host = this.#acquire(task.cwd);
    try {
      const { host: running } = await host.assembled;
      const token = randomBytes(32).toString('base64url');
      const digest = tokenDigest(token);
      const key = hex(digest);
      const rules = taskTools(task.dispatch);
      const lent = new LentToTask(running, principal, digest, {
        permits: (tool) => permits(rules, tool),
        traffic: this.#traffic,
        authThrottle: this.#throttle,
        version: this.#options.version,
      });
      this.#open.set(key, lent);
      const withdraw = (): void => {
        this.#open.delete(key);
        lent.withdraw();
      };
      let closed: Promise<void> | undefined;
      return {
        server: { name: NAME, url: `${address}${PATH}`, token },
        withdraw,
        close: () => {
          withdraw();
          closed ??= this.#release(task.cwd, host);
          return closed;
        },
      };
    } catch (error) {
      await this.#release(task.cwd, host);
      throw error;
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const lent of this.#open.values()) lent.withdraw();
    this.#open.clear();
    const hosts = [...this.#hosts.values()];
    this.#hosts.clear();
    await this.#listener?.close();
    await Promise.all(hosts.map(stop));
    await this.#audit?.close();
  }

  #route(method: (typeof METHODS)[number]): ServerRoute {
    const handle: HttpRoute['handle'] = async (...exchange) => {
      const [request, response] = exchange;
      const token = bearerToken(request.headers.authorization);
      const lent = this.#open.get(hex(tokenDigest(token)));
      if (lent !== undefined) return lent.handle(method, ...exchange);
      const status = await refusedToken(request, this.#throttle);
      sendReply(response, status === 401 ? REFUSED : TOO_MANY);
    };
    return { method, path: PATH, needs: 'messages', handle };
  }

  /**
   * Returns the host of a folder: the host of the worker's own folder stays, those of worktrees end with the last task there.
   */
  #acquire(cwd: string): FolderHost {
    let host = this.#hosts.get(cwd);
    if (host === undefined) {
      host = { assembled: this.#assemble(cwd), users: 0 };
      host.assembled.catch(() => {});
      this.#hosts.set(cwd, host);
    }
    host.users += 1;
    return host;
  }

  async #release(cwd: string, host: FolderHost): Promise<void> {
    host.users -= 1;
    const failed = await host.assembled.then(
      () => false,
      () => true,
    );
    const kept = cwd === this.#worker.repo && !failed;
    if (host.users > 0 || kept || this.#hosts.get(cwd) !== host) return;
    this.#hosts.delete(cwd);
    await stop(host);
  }

  #assemble(cwd: string): Promise<AssembledHost> {
    const { log } = this.#options;
    const isOwn = cwd === this.#worker.repo;
    const { plugins } = this.#config;
    const config = {
      ...this.#config,
      workspace: cwd,
      // Plugins of the user are started once: they may own resources that allow one owner only.
      plugins: isOwn ? plugins : plugins.filter(({ builtin }) => builtin),
    };
    return assembleHost(config, {
      auth: NO_TOKENS,
      log,
      audit: this.#audit,
      slots: this.#slots,
      storage: this.#storage,
      traffic: this.#traffic,
      authThrottle: this.#throttle,
      guard: guardAround(cwd, this.#loaded, [this.#worker.dataDir, this.#config.home]),
    });
  }
}

/** The parts of one task: a token, its rights, an MCP endpoint. */
class LentToTask implements Authenticator {
  readonly hasTokens = true;
  readonly #principal: Principal;
  readonly #digest: Uint8Array;
  readonly #listeners: (() => void)[] = [];
  readonly #mcp: McpRoutes;
  #withdrawn = false;

  constructor(
    host: Host,
    principal: Principal,
    digest: Uint8Array,
    access: { permits: OwnToolRule; traffic: TrafficShares; authThrottle: AuthThrottle; version: string },
  ) {
    this.#principal = principal;
    this.#digest = digest;
    const { version, permits, ...others } = access;
    this.#mcp = mcpRoutes({ host, access: { auth: this, ...others }, version, permits });
  }

  authenticate(token: unknown): Principal | undefined {
    if (this.#withdrawn || typeof token !== 'string') return undefined;
    return timingSafeEqual(tokenDigest(token), this.#digest) ? this.#principal : undefined;
  }

  current(): Principal | undefined {
    return this.#withdrawn ? undefined : this.#principal;
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  handle(method: string, ...exchange: Parameters<HttpRoute['handle']>): ReturnType<HttpRoute['handle']> {
    const route = this.#mcp.routes.find((one) => one.method === method);
    if (route !== undefined && 'handle' in route) return route.handle(...exchange);
  }

  withdraw(): void {
    if (this.#withdrawn) return;
    this.#withdrawn = true;
    // Replies to running requests, and ends its sessions.
    for (const listener of this.#listeners) listener();
    this.#mcp.close();
  }
}

/** Links are accepted with their principal; no token opens one. */
const NO_TOKENS: Authenticator = { hasTokens: true, authenticate: () => undefined };

const hex = (digest: Uint8Array): string => Buffer.from(digest).toString('hex');

async function stop({ assembled }: FolderHost): Promise<void> {
  await assembled.then(
    (host) => host.stop(0),
    () => {},
  );
}
