/**
 * A host with a capability that uses the messages from a host to its agent: pushes, streams that outlive their request,
 * requests to the agent, changes. Run as a program it speaks over stdio; `capability-seam.test.ts` uses it on every
 * transport.
 */
import { createHost, type Host, type HostOptions } from '../../src/host/host.ts';
import { definePlugin, handle, type Plugin, type PluginContext } from '../../src/host/plugin.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { method, push } from '../../src/protocol/method.ts';
import { stdioLink } from '../../src/transport/stdio.ts';
import type { Check } from '../../src/wire/check.ts';
import { fail } from '../../src/wire/errors.ts';

const shaped = (fields: Readonly<Record<string, string>>): Check =>
  Object.assign(
    (value: unknown) =>
      Object.entries(fields).every(([name, type]) => typeof (value as Record<string, unknown>)[name] === type),
    { errors: [{ instancePath: '', keyword: 'type', params: {}, message: 'has the wrong shape' }] },
  );
const base = { event: 'seam/event', capability: 'seam' };

export const numbered = push<{ n: number }>({
  push: 'seam/numbered/push',
  capability: 'seam',
  check: shaped({ n: 'number' }),
});
/** Pushes 1 to `count`, or as fast as they are journaled. */
export const pushMany = method<{ count: number }, { pushed: number }>({
  ...base,
  request: 'seam/push/req',
  reply: 'seam/push/resp',
  checkRequest: shaped({ count: 'number' }),
});
/** Replies at once and sends `count` events behind the reply; without an end where `count` is 0. */
export const watch = method<{ count: number; fails?: boolean }, { started: boolean }>({
  ...base,
  request: 'seam/watch/req',
  reply: 'seam/watch/resp',
  event: 'seam/watch/event',
  checkRequest: shaped({ count: 'number' }),
  checkEvent: shaped({ n: 'number' }),
});
/** Asks the agent `question` and replies with its answer. */
export const relayQuestion = method<{ text: string; timeoutMs?: number }, { answer: string }>({
  ...base,
  request: 'seam/relay/req',
  reply: 'seam/relay/resp',
  checkRequest: shaped({ text: 'string' }),
});
export const question = method<{ text: string }, { answer: string }>({
  ...base,
  request: 'seam/question/req',
  reply: 'seam/question/resp',
  checkRequest: shaped({ text: 'string' }),
});
export const announce = method<{ fact: string }, { done: boolean }>({
  ...base,
  request: 'seam/announce/req',
  reply: 'seam/announce/resp',
  checkRequest: shaped({ fact: 'string' }),
});

declare module '../../src/capability.ts' {
  interface CapabilityClients {
    readonly seam: undefined;
  }
}

/** Streams that are open, for tests that count them. */
export const openStreams = new Set<AbortSignal>();

export function seamPlugin(): Plugin {
  let context: PluginContext | undefined;
  let fact = 'first';
  return definePlugin({
    name: 'seam',
    type: 'seam',
    metadata: ({ principal }) => (principal.name === 'nobody' ? undefined : { fact }),
    start(given) {
      context = given;
    },
    methods: [
      handle(pushMany, ({ count }, { session }) => {
        for (let n = 1; n <= count; n++) session.push(numbered, { n });
        return { pushed: count };
      }),
      handle(watch, ({ count, fails }, call) => {
        call.keepStream();
        const { signal, emit } = call;
        openStreams.add(signal);
        signal.addEventListener('abort', () => openStreams.delete(signal), { once: true });
        void (async () => {
          await new Promise((resolve) => setTimeout(resolve, 1));
          for (let n = 1; count === 0 || n <= count; n++) {
            if (signal.aborted) return;
            await emit('status', { half: n / 2 }, { n });
            // Not as fast as it can: the link is to be cut in between.
            if (n % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
          }
          call.finishStream(fails ? fail('tool_error', 'the stream broke') : undefined);
          openStreams.delete(signal);
        })().catch(() => {});
        return { started: true };
      }),
      handle(relayQuestion, async ({ text, timeoutMs }, { session, signal }) => {
        const { answer } = await session.ask(question, { text }, { timeoutMs, signal });
        return { answer };
      }),
      handle(announce, (request, { session }) => {
        fact = request.fact;
        context?.changed(fact === 'one' ? session : undefined);
        return { done: true };
      }),
    ],
  });
}

export async function seamHost(options: Partial<HostOptions> = {}): Promise<Host> {
  const host = createHost({ plugins: [seamPlugin()], journal: memoryJournal(), ...options });
  await host.start();
  return host;
}

if (import.meta.main) (await seamHost()).accept(stdioLink());
