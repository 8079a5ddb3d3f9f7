/**
 * The hosts that wire fixtures and transcripts are written against: the same tools and limits over every transport, in
 * this process or in a child (`stdio-host.ts`).
 */
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { result, tool } from '../../src/capabilities/tools/tool.ts';
import { createHost, type Host, type HostOptions } from '../../src/host/host.ts';
import { definePlugin, handle } from '../../src/host/plugin.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { method } from '../../src/protocol/method.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { echo, flood } from './tools.ts';

/** A token that no output of a host may ever hold. */
export const TOKEN = 'canary-3f9c1e77-token';

/** The error of a failing plugin: an absolute path and a secret that only the host's own log may show. */
export const SECRET_FAILURE = 'cannot open /etc/handfast/private.pem with passphrase canary-51d0';

/**
 * - `open`: no token, default limits
 * - `guarded`, `guessed`: {@link TOKEN} is asked for
 * - `narrow`: one request at a time, one waiting
 * - `broken`: its plugin cannot open a session
 */
export type HostKind = 'open' | 'guarded' | 'guessed' | 'narrow' | 'broken';

/** Any value fits. */
const anything = Object.assign(() => true, { errors: null });

/** A plugin whose handler has a bug. */
const buggy = definePlugin({
  name: 'buggy',
  type: 'test',
  methods: [
    handle(
      method({
        request: 'test/bug/req',
        reply: 'test/bug/resp',
        event: 'invoke/event',
        capability: 'test',
        checkRequest: anything,
      }),
      () => {
        throw new Error(SECRET_FAILURE);
      },
    ),
  ],
});

const broken = definePlugin({
  name: 'tools',
  type: 'tools',
  methods: [],
  opened() {
    throw new Error(SECRET_FAILURE);
  },
});

/** Returns the tools of the contract; `ran` gets the name of each call that really runs. */
function contractTools(ran: (name: string) => void) {
  return [
    echo,
    flood,
    tool({
      name: 'mark',
      description: 'Notes that it ran',
      input: { type: 'object', properties: { name: { type: 'string' } } },
      run: ({ name = '' }: { name?: string }) => {
        ran(name);
        return { name };
      },
    }),
    tool({
      name: 'sum',
      description: 'Adds numbers',
      kind: 'math',
      tags: ['pure'],
      input: {
        type: 'object',
        properties: { numbers: { type: 'array', items: { type: 'number' }, description: 'What to add' } },
        required: ['numbers'],
        additionalProperties: false,
      },
      output: { type: 'object', properties: { total: { type: 'number' } }, required: ['total'] },
      idempotent: true,
      run: ({ numbers }: { numbers: number[] }) => {
        const total = numbers.reduce((left, right) => left + right, 0);
        return result({ total }, { summary: `the sum is ${total}` });
      },
    }),
    tool({
      name: 'lucky',
      description: 'A tool that only a search finds',
      deferred: true,
      run: () => 7,
    }),
    tool({
      name: 'wait',
      description: 'Answers after so many milliseconds, or stops when told to',
      input: { type: 'object', properties: { ms: { type: 'number', maximum: 100_000 } }, required: ['ms'] },
      run: ({ ms }: { ms: number }, { signal }) =>
        new Promise((resolve, reject) => {
          const timer = setTimeout(() => resolve({ ms }), ms);
          signal.addEventListener('abort', () => {
            clearTimeout(timer);
            reject(signal.reason);
          });
        }),
    }),
    tool({
      name: 'fails',
      description: 'Fails',
      run: () => {
        throw new Error('the kettle is empty');
      },
    }),
  ];
}

const auth = createAuthenticator([
  { principal: { name: 'alice', capabilities: ['*'] }, digests: [tokenDigest(TOKEN)] },
]);

/** Children that are started ahead wait for their peer, however slow the tests before it are. */
const limits = { handshakeTimeoutMs: 600_000 };

const optionsOf: Record<HostKind, Partial<HostOptions>> = {
  open: {},
  guarded: { auth },
  guessed: { auth },
  narrow: { limits: { ...limits, maxParallel: 1, queueLimit: 1 } },
  broken: { plugins: [broken] },
};

/** Starts a host of a kind. */
export async function contractHost(
  kind: HostKind,
  ran: (name: string) => void,
  extra: Partial<HostOptions> = {},
): Promise<Host> {
  const host = createHost({
    plugins: [toolsPlugin({ tools: contractTools(ran) }), buggy],
    journal: memoryJournal(),
    forgetClosed: true,
    limits,
    ...optionsOf[kind],
    ...extra,
  });
  await host.start();
  return host;
}
