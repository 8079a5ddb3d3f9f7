/**
 * No request of A2E holds the event loop, however large a legal one is: every type that agents send, and every tool,
 * with each of its members at its largest. New types and members are included by their schemas.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { builtinCapabilities } from '../../src/capabilities/index.ts';
import { a2eSchemas } from '../../src/protocol/a2e.schema.ts';
import { NOTE } from '../../src/protocol/member.ts';
import { isObject, type JsonObject } from '../../src/wire/json.ts';
import { liveValues, walkedCapabilities } from './a2e-live.ts';
import { type Known, largest, small } from './largest.ts';
import { type Message, PlainAgent, SILENCE } from './plain-agent.ts';
import { ADMIN, Walk, walkedHost } from './walk.ts';

/** A message has at most 1 MiB; its envelope and its other members have the rest. */
const BYTES = 1024 * 1024 - 16 * 1024;
/** Before the handshake a message has at most 64 KiB. */
const HANDSHAKE_BYTES = 60 * 1024;
/** The refusal of a wrong token is delayed. */
const WRONG_TOKEN_MS = 500;
/** Requests that wait for something get a reply only then. */
const REPLY_MS = 3_000;

const CAPABILITIES = builtinCapabilities.map(({ name }) => name);
/** Types that end the session or the walk. */
const ENDING: ReadonlySet<string> = new Set(['shutdown']);

/** Refusals of an illegal message. */
const ILLEGAL: ReadonlySet<string> = new Set(['schema_violation', 'invalid_message', 'unknown_type', 'too_large']);

interface RequestType {
  readonly type: string;
  readonly schema: JsonObject;
}

/** Returns the types that agents send, by capability. */
async function requestTypes(capability: string): Promise<readonly RequestType[]> {
  const file = `../../src/capabilities/${capability}/${capability}.schema.ts`;
  const schemas = capability === '' ? a2eSchemas : ((await import(file)) as JsonObject)[`${capability}Schemas`];
  const found: RequestType[] = [];
  for (const schema of Object.values(schemas as JsonObject)) {
    const { [NOTE]: note, properties } = schema as JsonObject;
    const type = ((properties as JsonObject | undefined)?.type as JsonObject | undefined)?.const;
    if (isObject(note) && note.from === 'agent' && typeof type === 'string') {
      found.push({ type, schema: schema as JsonObject });
    }
  }
  assert.ok(found.length > 0, `no request type of ${capability || 'the core'} was found`);
  return found;
}

class AgentWalk {
  readonly #walk: Walk;
  readonly #tcp: string;
  #agent: PlainAgent;
  known: Known = {};
  /** Small messages that were refused as such, with why. */
  readonly illegal: string[] = [];

  private constructor(walk: Walk, tcp: string, agent: PlainAgent) {
    this.#walk = walk;
    this.#tcp = tcp;
    this.#agent = agent;
  }

  static async open(walk: Walk, tcp: string): Promise<AgentWalk> {
    return new AgentWalk(walk, tcp, await PlainAgent.open(tcp, ADMIN, CAPABILITIES));
  }

  async prepare(): Promise<void> {
    this.known = await liveValues(this.#agent);
  }

  ask(message: Message): Promise<Message> {
    return this.#agent.ask(message, REPLY_MS);
  }

  async step(title: string, message: JsonObject): Promise<void> {
    await this.#walk.step(title, async () => {
      if (this.#agent.closed) {
        this.#agent = await PlainAgent.open(this.#tcp, ADMIN, CAPABILITIES);
        this.known = await liveValues(this.#agent);
      }
      await this.#sent(message);
    });
  }

  async #sent(message: JsonObject): Promise<Message> {
    if (message.type === 'handshake/req') return this.#greeted(message);
    if (message.type === 'cancel' || /\/resp$/.test(String(message.type))) {
      this.#agent.write(`${JSON.stringify({ ...message, id: this.#agent.id() })}\n`);
      return this.#agent.ask({ type: 'ping' }, REPLY_MS);
    }
    const isOwn = typeof message.id === 'string' && message.id.length > 64;
    if (!isOwn) {
      const id = this.#agent.id();
      const reply = await this.#agent.send(JSON.stringify({ ...message, id }), id, REPLY_MS);
      if (reply === SILENCE) this.#agent.write(`{"type":"cancel","id":"c${id}","req_id":"${id}"}\n`);
      return reply;
    }
    return this.#agent.send(JSON.stringify(message), message.id, REPLY_MS);
  }

  /** Sends a handshake, each on a separate link. */
  async #greeted(message: JsonObject): Promise<Message> {
    const link = await PlainAgent.dial(this.#tcp);
    const reply = await link.ask({ auth_token: ADMIN, ...message }, WRONG_TOKEN_MS);
    link.close();
    return reply;
  }

  /**
   * Walks a type. A type whose small message is not even legal needs a value in `a2e-live.ts`: its large ones would all
   * be refused unread.
   */
  async type({ type, schema }: RequestType): Promise<void> {
    const base = { ...(small(schema, this.known, '', type) as JsonObject), type };
    const reply = await this.#sent(base);
    if (ILLEGAL.has(String(reply.reason ?? reply.code))) this.illegal.push(`${JSON.stringify(base)}: ${reply.message}`);
    const bytes = type === 'handshake/req' ? HANDSHAKE_BYTES : BYTES;
    for (const { title, value } of largest(schema, this.known, bytes, type)) {
      await this.step(`${type} ${title}`, { ...value, type });
    }
  }

  close(): void {
    this.#agent.close();
  }
}

async function started(t: TestContext): Promise<{ walk: Walk; agent: AgentWalk }> {
  const host = await walkedHost(t, walkedCapabilities);
  const walk = new Walk(host);
  const agent = await AgentWalk.open(walk, host.tcp);
  t.after(() => agent.close());
  await agent.prepare();
  return { walk, agent };
}

for (const capability of ['', ...CAPABILITIES]) {
  test(`requests of ${capability || 'the core'} hold the loop no longer than 50 ms`, async (t) => {
    const types = await requestTypes(capability);
    const { walk, agent } = await started(t);
    for (const each of types) if (!ENDING.has(each.type)) await agent.type(each);
    assert.deepEqual(agent.illegal, []);
    walk.mustHaveHeldNobody();
  });
}

test('calls of every tool hold the loop no longer than 50 ms', async (t) => {
  const { walk, agent } = await started(t);
  const { tools } = await agent.ask({ type: 'tool/list/req' });
  assert.ok(Array.isArray(tools) && tools.length > 8);
  const known: Known = { path: 'one.txt', pattern: 'one', content: 'x', timeout: 5 };
  for (const { name, input_schema } of tools as { name: string; input_schema: JsonObject }[]) {
    for (const { title, value } of largest(input_schema, known, BYTES)) {
      await agent.step(`${name} ${title}`, { type: 'tool/call/req', tool_name: name, arguments: value, timeout: 5 });
    }
  }
  walk.mustHaveHeldNobody();
});
