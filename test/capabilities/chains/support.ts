/** Hosts with the chains capability for its tests, in this process, with tools that report their calls. */
import { copyFileSync, existsSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { type ChainsOptions, chainsPlugin } from '../../../src/capabilities/chains/plugin.ts';
import { toolsPlugin } from '../../../src/capabilities/tools/plugin.ts';
import { type AnyTool, tool } from '../../../src/capabilities/tools/tool.ts';
import type { ChainNode } from '../../../src/capability.ts';
import { connect } from '../../../src/connect.ts';
import type { CallContext } from '../../../src/host/context.ts';
import { createHost, type Host, type HostOptions } from '../../../src/host/host.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import type { Principal } from '../../../src/session/principal.ts';

export interface ChainHost {
  readonly host: Host;
  /** The calls of `echo`, `add`, `fail` and `hold`, by their argument `name`. */
  readonly called: string[];
  /** Lets a held call end. */
  readonly release: (name: string) => void;
  /** Resolves when a call of `hold` with this name waits. */
  readonly held: (name: string) => Promise<void>;
  /** Calls of `hold` that were cancelled. */
  readonly cancelled: string[];
  /** Returns the maximum number of concurrent calls of `hold` and `pause`. */
  readonly width: () => number;
}

/**
 * Returns a host for principals whose token is their name and `-token`; without principals, for `local`. Its tools: `echo`
 * returns its arguments, `add` a sum, `fail` fails, `flaky` fails a given number of times, `hold` waits until it is released,
 * `pause` waits for a moment.
 */
export async function chainHost(
  t: TestContext,
  {
    principals,
    chains,
    tools = [],
    plugins = [],
    ...options
  }: {
    principals?: readonly Principal[];
    chains?: ChainsOptions;
    tools?: readonly AnyTool[];
  } & Partial<HostOptions> = {},
): Promise<ChainHost> {
  const auth = principals && {
    auth: createAuthenticator(
      principals.map((principal) => ({ principal, digests: [tokenDigest(`${principal.name}-token`)] })),
    ),
  };
  const called: string[] = [];
  const cancelled: string[] = [];
  const gates = new Map<
    string,
    { readonly here: PromiseWithResolvers<void>; readonly gone: PromiseWithResolvers<void> }
  >();
  const failures = new Map<string, number>();
  const gate = (name: string) => {
    const found = gates.get(name) ?? { here: Promise.withResolvers<void>(), gone: Promise.withResolvers<void>() };
    gates.set(name, found);
    return found;
  };
  let running = 0;
  let widest = 0;
  const any = { type: 'object' } as const;
  const plugin = toolsPlugin({
    tools: [
      tool({
        name: 'echo',
        description: 'Returns its arguments',
        input: any,
        idempotent: true,
        run: (args: Record<string, unknown>) => {
          called.push(String(args.name ?? 'echo'));
          return args;
        },
      }),
      tool({
        name: 'add',
        description: 'Adds',
        input: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
        run: ({ a, b }: { a: number; b: number }) => {
          called.push('add');
          return { sum: a + b };
        },
      }),
      tool({
        name: 'fail',
        description: 'Fails',
        input: any,
        run: ({ name = 'fail' }: { name?: string }) => {
          called.push(name);
          throw new Error(`${name} is broken`);
        },
      }),
      tool({
        name: 'flaky',
        description: 'Fails some times',
        input: any,
        run: ({ name, times }: { name: string; times: number }) => {
          called.push(name);
          const failed = failures.get(name) ?? 0;
          failures.set(name, failed + 1);
          if (failed < times) throw new Error('not yet');
          return { failed };
        },
      }),
      tool({
        name: 'hold',
        description: 'Waits until it is released',
        input: any,
        run: async ({ name }: { name: string }, { signal }: CallContext) => {
          called.push(name);
          running += 1;
          widest = Math.max(widest, running);
          const { here, gone } = gate(name);
          here.resolve();
          const stopped = Promise.withResolvers<never>();
          stopped.promise.catch(() => {});
          signal.addEventListener('abort', () => stopped.reject(signal.reason), { once: true });
          try {
            await Promise.race([gone.promise, stopped.promise]);
          } catch (error) {
            cancelled.push(name);
            throw error;
          } finally {
            running -= 1;
          }
          return { name };
        },
      }),
      tool({
        name: 'pause',
        description: 'Waits for a moment',
        input: any,
        run: async (args: Record<string, unknown>) => {
          running += 1;
          widest = Math.max(widest, running);
          await new Promise((resolve) => setTimeout(resolve, 1));
          running -= 1;
          return args;
        },
      }),
      ...tools,
    ],
  });
  const host = createHost({ plugins: [plugin, chainsPlugin(chains), ...plugins], ...auth, ...options });
  await host.start();
  t.after(() => host.close(0));
  return {
    host,
    called,
    cancelled,
    release: (name) => gate(name).gone.resolve(),
    held: (name) => gate(name).here.promise,
    width: () => widest,
  };
}

/** Connects an agent to a host. */
export async function agentOf(t: TestContext, host: Host, agentId = 'ana', principal?: string) {
  const agent = await connect(host, {
    capabilities: ['chains'],
    agentId,
    ...(principal !== undefined && { token: `${principal}-token` }),
  });
  t.after(() => agent.close());
  return agent;
}

/** Copies the store of a running host, as a kill would leave it. */
export function copyState(file: string, to: string): void {
  for (const part of ['', '-wal']) if (existsSync(file + part)) copyFileSync(file + part, to + part);
}

/** Returns a node that calls a tool with its own id as `name`. */
export const call = (node_id: string, more: Partial<ChainNode> = {}): ChainNode => ({
  node_id,
  kind: 'tool',
  name: 'echo',
  input: { name: node_id },
  ...more,
});
