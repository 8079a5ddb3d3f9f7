/** All session RPC cases: the messages of the recorded conversations, and those about lines and many requests. */
import { expect, type Level } from '../case.ts';
import type { Fields } from '../line-peer.ts';
import { looseCheckOf, problemOf } from '../published.ts';
import { type RpcCase, type RpcContext, response } from './context.ts';
import { type Vector, vectorsOf } from './player.ts';

/** The conversations a target can be asked for without anything beside it, their group and the section of their rules. */
const GROUPS = [
  ['00-framing', 'FR', 'Session RPC 1.0.0: lines and requests'],
  ['01-handshake', 'HS', 'rpc.handshake'],
  ['02-system', 'SY', 'Session RPC 1.0.0: system methods'],
  ['03-session-idle', 'SE', 'Session RPC 1.0.0: sessions'],
  ['06-command-execute', 'CM', 'Session RPC 1.0.0: command.execute'],
  ['07-history', 'HI', 'Session RPC 1.0.0: saved history'],
  ['09-model', 'MO', 'Session RPC 1.0.0: models'],
  ['10-auth', 'AU', 'Session RPC 1.0.0: authentication'],
  ['11-skills-tools-limits', 'ST', 'Session RPC 1.0.0: skills, tools, limits'],
  ['12-shutdown', 'SD', 'Session RPC 1.0.0: shutdown'],
  ['13-shutdown-no-reason', 'SR', 'Session RPC 1.0.0: shutdown'],
] as const;

/** Methods that change nothing permanently, and whose results do not depend on the server's data. */
const HARMLESS = [
  'rpc.handshake',
  'system.ping',
  'session.create',
  'session.get',
  'session.steer',
  'session.interrupt',
  'session.queue.list',
  'session.queue.clear',
  'skills.list',
  'tools.list',
];

/** Codes of requests that were refused for their form. */
const FORM = [-32700, -32600, -32601, -32602];

/** Returns the reason why a message must not be sent to a server that others use; undefined if it may be. */
export function leftOutOf({ send, expect: answer, events, tags = [] }: Vector): string | undefined {
  const method = (send as Fields | null)?.method;
  const code = ((answer as Fields | null)?.error as Fields | undefined)?.code;
  if (tags.includes('final')) return FRESH;
  if (FORM.includes(Number(code))) return undefined;
  const ends = typeof method === 'string' && /shutdown|auth|onboarding/.test(method);
  const isSilent = answer === undefined || answer === null;
  if (!ends && (isSilent || typeof send === 'string' || HARMLESS.includes(String(method)))) {
    // A turn may have begun before: its traces are not there.
    return JSON.stringify([answer, events ?? []]).includes('"system"') ? FRESH : undefined;
  }
  return FRESH;
}

const FRESH = 'needs a fresh server: a target by stdio:COMMAND';

/** Returns the level of a vector: the sources of the protocol leave some replies to the server. */
function levelOf({ tags = [], expect: answer }: Vector): Level {
  const code = ((answer as Fields | null)?.error as Fields | undefined)?.code;
  const isLoose = tags.includes('lenient') || tags.includes('reference-bug');
  // The reference has one code for every failure of a request that was well formed.
  return isLoose || code === -32603 ? 'SHOULD' : 'MUST';
}

const recorded: readonly RpcCase[] = GROUPS.flatMap(([conversation, group, section]) =>
  vectorsOf(conversation).map((vector, at) => ({
    id: `RPC-${group}-${String(at + 1).padStart(3, '0')}`,
    level: levelOf(vector),
    section,
    title: vector.name,
    run: (context: RpcContext) => context.play(conversation, vector),
  })),
);

const ping = (id: string, more: Fields = {}): Fields => ({ jsonrpc: '2.0', id, method: 'system.ping', ...more });

/** Fails the case unless a result fits its published schema. */
function fitsResult(method: string, answer: Fields): void {
  expect(answer.result !== undefined, `a result of ${method}`, answer);
  const problem = problemOf(looseCheckOf('session-rpc', `${method}.result`), answer.result);
  expect(problem === undefined, `a result of ${method} as its schema has it: ${problem}`, answer);
}

type Row = readonly [id: string, level: Level, title: string, run: RpcCase['run']];

const lines: readonly Row[] = [
  [
    'RPC-LN-001',
    'MUST',
    'several requests in one write are each answered once',
    async (context) => {
      const peer = await context.open();
      const ids = Array.from({ length: 20 }, (_, at) => `joined ${at}`);
      const text = ids.map((id) => `${JSON.stringify(ping(id))}\n`).join('');
      peer.write(peer.binding === 'websocket' ? text.trimEnd() : text);
      for (const id of ids) await response(peer, id);
      await context.request(peer, 'system.ping');
      const counts = ids.map((id) => peer.messages.filter((message) => message.id === id).length);
      expect(
        counts.every((count) => count === 1),
        'one answer for each',
        counts,
      );
    },
  ],
  [
    'RPC-LN-002',
    'MUST',
    'a request may be cut anywhere, also within a character',
    async (context) => {
      const peer = await context.open();
      if (!peer.isByteStream) return;
      const id = 'été 東京 😀 \u2028';
      const bytes = Buffer.from(`${JSON.stringify(ping(id))}\n`);
      for (let at = 0; at < bytes.length; at += 5) {
        peer.write(bytes.subarray(at, at + 5));
        await new Promise((resolve) => setImmediate(resolve));
      }
      await response(peer, id);
    },
  ],
  [
    'RPC-LN-003',
    'MUST',
    'text beyond ASCII comes back unharmed',
    async (context) => {
      const peer = await context.open();
      const id = 'été 東京 😀 \u2028\u2029\u0085 \\ " \t';
      peer.line(ping(id));
      await response(peer, id);
    },
  ],
  [
    'RPC-LN-004',
    'MUST',
    '50 requests that are open at once are each answered',
    async (context) => {
      const peer = await context.open();
      const ids = Array.from({ length: 50 }, (_, at) => `open ${at}`);
      for (const id of ids) peer.line(ping(id));
      for (const id of ids) await response(peer, id);
    },
  ],
  [
    'RPC-LN-005',
    'SHOULD',
    'a line of 4 MiB is answered or refused, and the server serves the next connection',
    async (context) => {
      const peer = await context.open();
      peer.line(ping('large', { params: { padding: 'a'.repeat(4 * 1024 * 1024) } }));
      const answered = ({ id }: Fields): boolean => id === 'large' || id === null;
      const answer = await peer.sought(answered, 0, peer.patienceMs * 3);
      expect(answer !== undefined || peer.over, 'an answer, an error or the end of the connection', 'nothing');
      await context.request(await context.open(), 'system.ping');
    },
  ],
  [
    'RPC-LN-006',
    'SHOULD',
    'nesting 20,000 levels deep is answered or refused, and the server serves the next connection',
    async (context) => {
      const peer = await context.open();
      const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;
      peer.line(`{"jsonrpc":"2.0","id":"deep","method":"system.ping","params":${deep}}`);
      const answer = await peer.sought(({ id }) => id === 'deep' || id === null);
      expect(answer !== undefined || peer.over, 'an answer, an error or the end of the connection', 'nothing');
      await context.request(await context.open(), 'system.ping');
    },
  ],
  [
    'RPC-LN-007',
    'MUST',
    'everything that comes is a JSON object with jsonrpc "2.0"',
    async (context) => {
      const peer = await context.open();
      await context.request(peer, 'session.create', {});
      const wrong = [...peer.strange, ...peer.messages.filter(({ jsonrpc }) => jsonrpc !== '2.0')];
      expect(wrong.length === 0, 'JSON-RPC 2.0 messages only', wrong);
    },
  ],
  [
    'RPC-LN-008',
    'MUST',
    'an event is a notification with a type, a timestamp of ISO 8601 and a payload',
    async (context) => {
      const peer = await context.open();
      await context.request(peer, 'session.create', {});
      const events = peer.messages.filter(({ method }) => method === 'event');
      expect(events.length > 0, 'the event state.changed', peer.messages);
      for (const event of events) {
        const { type, timestamp, payload } = (event.params ?? {}) as Fields;
        expect(typeof type === 'string' && typeof payload === 'object' && payload !== null, 'type and payload', event);
        expect(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/.test(String(timestamp)), 'a timestamp', event);
        expect(!('id' in event), 'no id', event);
      }
    },
  ],
  [
    'RPC-LN-009',
    'MUST',
    'state.changed comes before the response of session.create',
    async (context) => {
      const peer = await context.open();
      const created = await context.request(peer, 'session.create', {});
      const isChange = ({ method, params }: Fields): boolean =>
        method === 'event' && (params as Fields | undefined)?.type === 'state.changed';
      const at = peer.messages.findIndex(isChange);
      expect(at >= 0 && at < peer.messages.indexOf(created), 'the event, then the response', peer.messages);
    },
  ],
  ...(['rpc.handshake', 'session.create', 'state.get', 'tools.list', 'skills.list', 'auth.status'] as const).map(
    (method, at): Row => [
      `RPC-LN-${String(10 + at).padStart(3, '0')}`,
      'MUST',
      `the members of the result of ${method} have their published types`,
      async (context) => fitsResult(method, await context.request(await context.open(), method, {})),
    ],
  ),
];

export const rpcCases: readonly RpcCase[] = [
  ...recorded,
  ...lines.map(([id, level, title, run]) => ({
    id,
    level,
    section: 'Session RPC 1.0.0: lines and events',
    title,
    run,
  })),
];
