/**
 * A host of this library for the Python agent: one tool for each behaviour that an agent can meet.
 *
 * The HTTP tests serve it from the test itself; run as a program, it is the child that the Python agent starts and uses
 * over stdin and stdout: `our-host.ts [TOKEN]`.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { result, tool } from '../../src/capabilities/tools/tool.ts';
import { createHost, type Host } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { stdioLink } from '../../src/transport/stdio.ts';

const object = (properties: Record<string, unknown>, required: string[] = []) => ({
  type: 'object',
  properties,
  required,
});

export const tools = [
  tool({
    name: 'greet',
    description: 'Greets somebody',
    input: object(
      {
        name: { type: 'string', description: 'Whom to greet' },
        manner: { type: 'string', enum: ['kind', 'short'] },
        options: object({ times: { type: ['integer', 'null'], description: 'How often' } }),
      },
      ['name'],
    ),
    output: object({ text: { type: 'string', description: 'The greeting' } }, ['text']),
    idempotent: true,
    tags: ['text', 'social'],
    run: ({ name, options }: { name: string; options?: { times?: number | null } }) => ({
      text: `Hello, ${name}`.repeat(options?.times ?? 1),
    }),
  }),
  tool({
    name: 'steps',
    description: 'Sends an event of each kind',
    tags: ['text'],
    async run(_args, context) {
      await context.emit('status', { message: 'begun' });
      await context.emit('progress', { pct: 50, message: 'half \u2028 way' });
      await context.emit('log', { level: 'info', message: 'a line' });
      const chunk = Buffer.from('hello').toString('base64');
      await context.emit('artifact', { name: 'out.txt', mime: 'text/plain', chunk, final: true });
      return result({ done: true }, { summary: 'four steps' });
    },
  }),
  tool({
    name: 'breaks',
    description: 'Fails after its first event',
    async run(_args, context) {
      await context.emit('status', { message: 'before' });
      throw new Error('no luck');
    },
  }),
  tool({
    name: 'nap',
    description: 'Waits',
    input: object({ ms: { type: 'integer' } }, ['ms']),
    run: ({ ms }: { ms: number }, { signal }) => delay(ms, { ms }, { signal }),
  }),
  tool({
    name: 'echo',
    description: 'Gives back what it got',
    input: object({ value: {} }),
    run: ({ value }: { value?: unknown }) => value,
  }),
  tool({ name: 'exit', description: 'Ends with a code', run: () => ({ exit_code: 3, stdout: '' }) }),
  tool({ name: 'rare', description: 'Found by search only', deferred: true, run: () => 'found' }),
];

/** Returns a host with {@link tools}. With a token, agents must send it. */
export function interopHost(token?: string): Host {
  const grants =
    token === undefined
      ? []
      : [
          {
            principal: { name: 'python', capabilities: ['*'], tools: { risks: ['exec', 'destructive', 'network'] } },
            digests: [tokenDigest(token)],
          },
        ];
  return createHost({
    plugins: [toolsPlugin({ name: 'interop', tools, priority: 5 })],
    auth: createAuthenticator(grants),
    journal: memoryJournal(),
    forgetClosed: true,
  });
}

if (import.meta.main) {
  const link = stdioLink();
  const host = interopHost(process.argv[2]);
  await host.start();
  host.accept(link);
}
