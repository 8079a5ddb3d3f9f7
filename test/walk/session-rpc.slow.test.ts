/**
 * No request of session RPC holds the event loop, however large a legal one is: every method, those of a fleet too,
 * with each of its parameters at its largest. New methods and parameters are included by their schemas.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { TaskSpec } from '../../src/protocol/fleet-records.schema.ts';
import * as fleetMethods from '../../src/protocol/fleet-rpc.schema.ts';
import * as sessionMethods from '../../src/protocol/session-rpc.schema.ts';
import { longMethods } from '../../src/protocol/session-rpc.ts';
import { DEFAULT_MAX_PROMPT_BYTES } from '../../src/transport/link.ts';
import { isObject, type JsonObject, membersOf } from '../../src/wire/json.ts';
import { exported, restored } from './exported-session.ts';
import { type Known, largest, small } from './largest.ts';
import { type Message, PlainAgent, SILENCE } from './plain-agent.ts';
import { ADMIN, Walk, walkedHost } from './walk.ts';

const BYTES = 1024 * 1024 - 16 * 1024;
const REPLY_MS = 3_000;
/** Ends the server. */
const ENDING: ReadonlySet<string> = new Set(['system.shutdown']);
/** Refusals of an illegal request. */
const ILLEGAL: ReadonlySet<string> = new Set(['schema_violation', 'unknown_type', 'too_large']);
/** Events that end a turn. */
const ENDS: ReadonlySet<unknown> = new Set(['session.completed', 'session.interrupted', 'session.error']);

interface RpcMethod {
  readonly name: string;
  readonly params: JsonObject;
}

/** Parameters whose shape their method checks by itself. */
const shapes: Readonly<Record<string, unknown>> = {
  'session.send:images': { type: 'array', items: { type: 'object', properties: { data_url: { type: 'string' } } } },
  'fleet.task.submit:spec': TaskSpec,
  'fleet.route.explain:spec': TaskSpec,
  'fleet.task.submit_batch:specs': { type: 'array', items: TaskSpec },
};

const methods: readonly RpcMethod[] = [...Object.values(sessionMethods), ...Object.values(fleetMethods)].flatMap(
  (value) => {
    const { name, params } = membersOf(value);
    if (typeof name !== 'string' || !isObject(params)) return [];
    const properties = Object.entries(membersOf(params.properties));
    const known = properties.map(([key, schema]) => [key, shapes[`${name}:${key}`] ?? schema]);
    return [{ name, params: { ...params, properties: Object.fromEntries(known) } }];
  },
);

const item = (text: string) => ({ role: 'user', turn: 't', text });

/** Largest requests that no schema describes. */
const more: Readonly<Record<string, (bytes: number) => readonly (readonly [string, JsonObject])[]>> = {
  'session.send': (bytes) => {
    // Random bytes: no compression makes them shorter.
    const image = (size: number) =>
      `data:image/png;base64,${randomBytes(Math.floor((size / 4) * 3)).toString('base64')}`;
    const images = (count: number) => Array.from({ length: count }, () => ({ data_url: image(bytes / count) }));
    return [
      ['images: one', { images: [{ data_url: image(Math.min(bytes, 11_000_000)) }] }],
      ['images: some', { images: images(4) }],
      ['images: many', { images: images(16) }],
      ['images: many that wait', { images: images(16), enqueue: true }],
      ['images: with line breaks', { images: [{ data_url: image(bytes - 200_000).replace(/.{76}/g, '$&\n') }] }],
      ['images: blanks', { images: [{ data_url: `data:image/png;base64,${'A '.repeat((bytes - 100) / 2)}` }] }],
      [
        'images: no base64',
        { images: [{ data_url: `data:image/png;base64,${'A*'.repeat((bytes - 100) / 2)}` }], enqueue: true },
      ],
    ];
  },
  'session.import': (bytes) => {
    const texts = (count: number) => Array.from({ length: count }, () => item('a'.repeat(bytes / count - 100)));
    const entries = (count: number) => Array.from({ length: count }, (_, at) => restored(at));
    const lines = (members: object) => ({ lines: exported([restored(1, members)]) });
    const picture = (dataUrl: string) => {
      const images = [{ path: 'p.png', mimeType: 'image/png', dataUrl, byteSize: 1 }];
      return lines({ history: [{ ...item('x'), images }] });
    };
    const base64 = randomBytes(Math.floor((bytes / 4) * 3) - 1000).toString('base64');
    return [
      ['lines: one item', lines({ history: texts(1) })],
      ['lines: many items', lines({ history: texts(8000) })],
      ['lines: many entries', { lines: exported(entries(Math.min(30_000, bytes / 120))) }],
      ['lines: a picture', picture(`data:image/png;base64,${base64}`)],
      ['lines: a false picture', picture('i'.repeat(bytes - 1000))],
      ['lines: a line of lists', lines({ more: Array(bytes / 4).fill([]) })],
      ['lines: a line of short texts', lines({ more: Array(Math.floor(bytes / 16)).fill('a'.repeat(10)) })],
    ];
  },
};

class ClientWalk {
  readonly #walk: Walk;
  readonly #tcp: string;
  #client: PlainAgent;
  known: Known = {};
  readonly illegal: string[] = [];

  private constructor(walk: Walk, tcp: string, client: PlainAgent) {
    this.#walk = walk;
    this.#tcp = tcp;
    this.#client = client;
  }

  static async open(walk: Walk, tcp: string): Promise<ClientWalk> {
    const client = new ClientWalk(walk, tcp, await PlainAgent.dial(tcp));
    await client.#prepare();
    return client;
  }

  async #prepare(): Promise<void> {
    const hello = await this.#client.call('rpc.handshake', { token: ADMIN, client_name: 'walker' });
    assert.ok(isObject(hello.result), JSON.stringify(hello));
    const created = await this.#client.call('session.create', { title: 'walked' });
    const { session_id } = membersOf(created.result);
    assert.ok(session_id !== undefined, JSON.stringify(created));
    await this.#client.call('session.send', { session_id, text: 'hello' });
    const task = await this.#client.call('fleet.task.submit', { spec: { brief: 'say hello' } });
    this.known = {
      session_id,
      task_id: membersOf(membersOf(task.result).task).task_id,
      'fleet.task.submit:task_id': undefined,
      'fleet.task.submit_batch:task_id': undefined,
      'fleet.task.drop:task_id': 'none',
      'fleet.task.cancel:task_id': 'none',
      'session.close:session_id': 'none',
      'session.delete:session_id': 'none',
      'history.clear_session:session_id': 'none',
      'session.steer:session_id': 'none',
      'session.send:text': 'hello',
      'session.import:lines': exported([]),
      'rpc.handshake:token': ADMIN,
      brief: 'say hello',
      'fleet.task.submit:spec': { brief: 'say hello' },
      'fleet.task.submit_batch:specs': [{ brief: 'say hello' }],
      'approval.answer:decision': 'deny',
      provider: 'openrouter',
      wait_ms: 1,
      // The walk must not change the configuration.
      enabled: true,
    };
  }

  async #sent(method: string, params: unknown): Promise<Message> {
    this.#client.others.length = 0;
    const reply = await this.#client.call(method, params, REPLY_MS);
    if (reply === SILENCE) this.#client.close();
    const state = membersOf(reply.result);
    // The turn that a prompt starts is work of the same request.
    for (let waited = 0; method === 'session.send' && state.turn_id !== undefined && waited < 100; waited++) {
      if (this.#client.others.some(({ params: event }) => ENDS.has(membersOf(event).type))) break;
      await this.#client.call('system.ping', {});
    }
    return reply;
  }

  async method({ name, params }: RpcMethod): Promise<void> {
    const base = small(params, this.known, '', name);
    const reply = await this.#sent(name, base);
    const why = membersOf(membersOf(reply.error).data).kind;
    if (ILLEGAL.has(String(why))) this.illegal.push(`${name} ${JSON.stringify(base)}: ${JSON.stringify(reply.error)}`);
    const sizes = longMethods.has(name) ? [BYTES, DEFAULT_MAX_PROMPT_BYTES - BYTES] : [BYTES];
    for (const bytes of sizes) {
      const others =
        more[name]?.(bytes).map(([title, value]) => ({ title, value: { ...(base as object), ...value } })) ?? [];
      for (const { title, value } of [...largest(params, this.known, bytes, name), ...others]) {
        // These members alone make a request of these methods long.
        if (bytes !== BYTES && !/^(images|lines)/.test(title)) continue;
        await this.#walk.step(`${name} ${title}, ${Math.round(bytes / 1024)} KiB`, async () => {
          if (this.#client.closed) {
            this.#client = await PlainAgent.dial(this.#tcp);
            await this.#prepare();
          }
          await this.#sent(name, value);
        });
      }
    }
  }

  close(): void {
    this.#client.close();
  }
}

/** A fleet with one worker, which rehearses in its own folder. */
const fleet = `name: walked
workers:
  - { id: small, executor: rehearsal }
`;

async function started(t: TestContext): Promise<{ walk: Walk; client: ClientWalk }> {
  const host = await walkedHost(t, { yaml: 'control: { backend: rehearsal }\n', fleet, files: { 'one.txt': 'one\n' } });
  const walk = new Walk(host);
  const client = await ClientWalk.open(walk, host.tcp);
  t.after(() => client.close());
  return { walk, client };
}

const parts = ['session', 'fleet', ''] as const;
const rankOf = ({ name }: RpcMethod): number => ['session.import', 'session.send'].indexOf(name);
const partOf = (name: string): string => parts.find((part) => name.startsWith(part)) as string;

for (const part of parts) {
  test(`requests of ${part || 'other'} methods hold the loop no longer than 50 ms`, async (t) => {
    const { walk, client } = await started(t);
    const those = methods.filter(({ name }) => partOf(name) === part && !ENDING.has(name));
    assert.ok(those.length > 5);
    // A session that has large images is slow afterwards, with every request.
    for (const each of those.toSorted((one, other) => rankOf(one) - rankOf(other))) await client.method(each);
    assert.deepEqual(client.illegal, []);
    walk.mustHaveHeldNobody();
  });
}
