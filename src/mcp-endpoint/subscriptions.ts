/**
 * Resources whose changes clients subscribe to: those of servers behind the host, each subscribed to once for all
 * holders, and those of the memory, which is watched as a whole.
 *
 * A holder is a client of the sessions era, or one request that listens.
 */
import type { McpClient } from '../capabilities/mcp/client.ts';
import { fail } from '../wire/errors.ts';
import { keyOfResource } from './memory-tools.ts';

/** Resources of one holder, and of all that share an agent session. */
export const MAX_SUBSCRIPTIONS = 256;
const MAX_ALL = 4_096;

/** Members of an agent session with the host that are used. */
interface ResourceHost {
  readonly mcp: Pick<McpClient, 'subscribe' | 'unsubscribe'> | undefined;
  readonly memory: object | undefined;
}

export class Subscriptions {
  readonly #byUri = new Map<string, Set<object>>();
  readonly #byHolder = new Map<object, Set<string>>();

  /** Rejects with `quota_exceeded`, and as the host does for a resource that no server has. */
  async add(holder: object, uri: string, host: ResourceHost, signal: AbortSignal): Promise<void> {
    const own = this.#byHolder.get(holder) ?? new Set<string>();
    if (own.has(uri)) return;
    if (own.size >= MAX_SUBSCRIPTIONS || (this.#byUri.size >= MAX_ALL && !this.#byUri.has(uri))) {
      throw fail('quota_exceeded', `${MAX_SUBSCRIPTIONS} resources are subscribed to; unsubscribe from one`);
    }
    const holders = this.#byUri.get(uri) ?? new Set<object>();
    // First, because a change may arrive at once.
    this.#byUri.set(uri, holders.add(holder));
    this.#byHolder.set(holder, own.add(uri));
    try {
      if (isRemembered(uri, host)) return;
      if (host.mcp === undefined) throw fail('not_found', `there is no resource ${uri}`);
      // Also if another holder has it: it is subscribed to once, and this shows that it can be.
      await host.mcp.subscribe(uri, '', { signal, timeoutMs: 0 });
      if (!own.has(uri)) this.#unsubscribe(uri, host.mcp);
    } catch (error) {
      this.remove(holder, uri, host);
      throw error;
    }
  }

  /** Ends a subscription; does nothing without one. */
  remove(holder: object, uri: string, host: ResourceHost | undefined): void {
    const own = this.#byHolder.get(holder);
    if (own?.delete(uri) !== true) return;
    if (own.size === 0) this.#byHolder.delete(holder);
    const holders = this.#byUri.get(uri);
    holders?.delete(holder);
    if (holders?.size !== 0) return;
    this.#byUri.delete(uri);
    this.#unsubscribe(uri, host?.mcp);
  }

  /** Ends all of a holder. */
  release(holder: object, host: ResourceHost | undefined): void {
    for (const uri of [...(this.#byHolder.get(holder) ?? [])]) this.remove(holder, uri, host);
  }

  has(holder: object, uri: string): boolean {
    return this.#byHolder.get(holder)?.has(uri) === true;
  }

  /** The resources of the memory, of all holders. */
  get remembered(): string[] {
    return [...this.#byUri.keys()].filter((uri) => keyOfResource(uri) !== undefined);
  }

  /** Subscribes again in a new session with the host. Those that the host does not have any more stay as they are. */
  async renew(host: ResourceHost): Promise<void> {
    for (const uri of [...this.#byUri.keys()]) {
      if (!isRemembered(uri, host)) await Promise.resolve(host.mcp?.subscribe(uri)).catch(() => {});
    }
  }

  #unsubscribe(uri: string, mcp: ResourceHost['mcp']): void {
    if (this.#byUri.has(uri)) return;
    // A session that was lost has no subscriptions.
    Promise.resolve(mcp?.unsubscribe(uri)).catch(() => {});
  }
}

const isRemembered = (uri: string, { memory }: ResourceHost): boolean =>
  memory !== undefined && keyOfResource(uri) !== undefined;
