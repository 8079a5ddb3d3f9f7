/**
 * The common properties of the capabilities, from one table: rights, every transport, cancels, and requests beyond A2E 1.0 that
 * are offered by name; and for those with state: owners, quotas, deadlines, lost links, `kill -9`, audit lines.
 *
 * The folder of each capability has the tests of its other properties.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { getEventListeners } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentSession } from '../../src/agent/agent.ts';
import { EnvClient } from '../../src/capabilities/env/client.ts';
import { builtinCapability } from '../../src/capabilities/index.ts';
import { LearningClient } from '../../src/capabilities/learning/client.ts';
import { McpClient } from '../../src/capabilities/mcp/client.ts';
import { MemoryClient } from '../../src/capabilities/memory/client.ts';
import { PlanningClient } from '../../src/capabilities/planning/client.ts';
import { ProcClient } from '../../src/capabilities/proc/client.ts';
import { SkillClient } from '../../src/capabilities/skill/client.ts';
import { ToolkitsClient } from '../../src/capabilities/toolkits/client.ts';
import { connect } from '../../src/connect.ts';
import type { CallOptions } from '../../src/connection/call.ts';
import { createHost, type Host, type HostOptions } from '../../src/host/host.ts';
import type { Plugin } from '../../src/host/plugin.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import type { Grants, Principal } from '../../src/session/principal.ts';
import type { Link } from '../../src/transport/link.ts';
import { memoryPair } from '../../src/transport/memory.ts';
import { asError, type HandfastError } from '../../src/wire/errors.ts';
import { Command, type Json, User } from '../cli/command.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { root } from '../rules/scan.ts';
import { rawAgent } from '../support/raw-agent.ts';
import { allTransports, doorOf } from '../support/sites.ts';

/** The properties of every capability. */
interface AnyRow {
  readonly name: string;
  /** Options of its plugin. A capability with state stores on disk with these. */
  readonly options: Readonly<Record<string, unknown>>;
  /** A grant within the capability, a request that it does not allow, and the error of that request. */
  readonly narrow: { readonly grant: object; readonly code: string; refused(agent: AgentSession): Promise<unknown> };
  /** A request of A2E 1.0, as a plain client sends it. */
  readonly plain: { readonly type: string; readonly [field: string]: unknown };
  /** Its messages of A2E 1.0, in `test/vectors/a2e`. Default: its name. */
  readonly vectors?: string;
  /** Requests beyond A2E 1.0 that a host makes of an agent. */
  readonly asks?: readonly string[];
}

/** The properties of capabilities that store data. */
interface Row extends AnyRow {
  readonly name: 'memory' | 'learning' | 'planning' | 'env' | 'proc';
  /** True when none of its state survives its session. */
  readonly volatile?: boolean;
  /** Stores something; resolves with a text that {@link Row.state} has from then on. */
  change(agent: AgentSession): Promise<string>;
  /** Returns the whole state of the agent. */
  state(agent: AgentSession): Promise<unknown>;
  /** The request that stores it. */
  readonly request: string;
  /** True if agents of one principal share their stored state. */
  readonly shared?: boolean;
  /** Options that allow one entry, and the error of the second. */
  readonly small: { readonly options: object; readonly code: string };
  /** Makes the change number `at` of many; resolves when it is stored. */
  many(
    agent: AgentSession,
  ): Promise<{ next(at: number, options?: CallOptions): Promise<unknown>; count(): Promise<number> }>;
}

/** Returns the type of the reply to a request. */
const replyTo = (type: string): string => (type.endsWith('/req') ? type.replace(/req$/, 'resp') : `${type}/resp`);

/** A file that may not grow is a full disk for all writers. */
const noLimit = spawnSync('prlimit', ['--fsize=1000000', 'true']).status === 0 ? false : 'prlimit is missing';

let made = 0;
const unique = (): string => `name-${++made}`;

/** A folder with one skill, which has no code. */
const skills = mkdtempSync(join(tmpdir(), 'handfast-skills-'));
after(() => rmSync(skills, { recursive: true, force: true }));
mkdirSync(join(skills, 'advice'));
writeFileSync(join(skills, 'advice', 'SKILL.md'), '---\nname: advice\ndescription: Says what to do\n---\nDo it.\n');

const table: readonly Row[] = [
  {
    name: 'memory',
    options: {},
    request: 'memory/store/req',
    async change(agent) {
      const key = unique();
      await (await new MemoryClient(agent).open()).store({ key, content: 'text' });
      return key;
    },
    state: async (agent) => (await (await new MemoryClient(agent).open()).list({ limit: 1000 })).entries,
    narrow: {
      grant: { read: ['team'] },
      code: 'memory.space_denied',
      refused: async (agent) => (await new MemoryClient(agent).open()).publish('team', { keys: ['key'] }),
    },
    small: { options: { maxEntries: 1 }, code: 'memory_full' },
    async many(agent) {
      const memory = await new MemoryClient(agent).open();
      return {
        next: (at, options) => memory.store({ key: `key ${at}`, content: 'text' }, options),
        count: async () => (await memory.list({ limit: 1000 })).total,
      };
    },
    plain: { type: 'memory/init/req', agent_id: 'plain', namespace: 'default', scope: {} },
  },
  {
    name: 'learning',
    options: {},
    request: 'learn/decide/req',
    async change(agent) {
      const choice = unique();
      await new LearningClient(agent).decide(choice, ['a', 'b']);
      return choice;
    },
    state: (agent) => new LearningClient(agent).stats(),
    narrow: {
      grant: { record: false },
      code: 'learning.denied',
      refused: (agent) => new LearningClient(agent).decide('c', ['a', 'b']),
    },
    small: { options: { maxChoices: 1 }, code: 'learning.full' },
    async many(agent) {
      const learning = new LearningClient(agent);
      return {
        next: (_, options) => learning.decide('many', ['a', 'b'], options),
        count: async () => (await learning.stats()).choices[0]?.decisions ?? 0,
      };
    },
    plain: { type: 'learn/stats/req', component_name: '' },
  },
  {
    name: 'planning',
    options: {},
    request: 'planning/plan/create',
    shared: true,
    change: async (agent) => (await new PlanningClient(agent).createPlan(unique())).plan_id,
    state: (agent) => new PlanningClient(agent).plans(),
    narrow: {
      grant: { access: 'read' },
      code: 'planning.read_only',
      refused: (agent) => new PlanningClient(agent).createPlan(),
    },
    small: { options: { maxPlans: 1 }, code: 'planning.full' },
    async many(agent) {
      const planning = new PlanningClient(agent);
      const { plan_id } = await planning.createPlan('many');
      return {
        next: (at, options) => planning.add(plan_id, `task ${at}`, {}, options),
        count: async () => (await planning.tasks(plan_id)).length,
      };
    },
    plain: { type: 'planning/plan/create', name: 'plain' },
  },
  {
    name: 'env',
    options: { durability: 'step' },
    request: 'env/reset/req',
    change: async (agent) => (await new EnvClient(agent).reset('FrozenLake-v1', { seed: 1 })).id,
    state: async (agent) =>
      (await new EnvClient(agent).experience()).map(({ episode_id, env_name, status }) => [
        episode_id,
        env_name,
        status,
      ]),
    narrow: {
      grant: { environments: ['CartPole-v1'] },
      code: 'reset_denied',
      refused: (agent) => new EnvClient(agent).reset('FrozenLake-v1'),
    },
    small: { options: { maxStoredEpisodes: 1 }, code: 'reset_denied' },
    async many(agent) {
      const episode = await new EnvClient(agent).reset('CliffWalking-v1', { seed: 1 });
      // Up and against the upper edge: no episode ends by it.
      return { next: (_, options) => episode.step(0, options), count: async () => (await episode.observe()).step };
    },
    plain: { type: 'env/reset/req', env_name: 'CartPole-v1', seed: 1, options: {} },
  },
  {
    name: 'proc',
    volatile: true,
    options: { programs: ['cat', 'sh'] },
    request: 'proc/spawn/req',
    async change(agent) {
      const name = unique();
      await new ProcClient(agent).spawn(['sh', '-c', 'exec cat', name]);
      return name;
    },
    state: async (agent) => (await new ProcClient(agent).list()).map(({ argv, state }) => [argv.at(-1), state]),
    narrow: {
      grant: { programs: ['sh'] },
      code: 'proc.denied',
      refused: (agent) => new ProcClient(agent).spawn(['cat']),
    },
    small: { options: { maxProcesses: 1 }, code: 'proc_limit' },
    async many(agent) {
      const child = await new ProcClient(agent).spawn(['cat']);
      return {
        next: (at, options) => child.write(`line ${at}\n`, options),
        async count() {
          // After everything that was written before.
          const end = `${unique()}\n`;
          await child.write(end);
          let lines = 0;
          for await (const { text } of child.output()) {
            if (text === end) break;
            if (text.startsWith('line ')) lines++;
          }
          return lines;
        },
      };
    },
    plain: { type: 'proc/spawn/req', cmd: [] },
  },
];

/** Capabilities without state, or with state of each session alone: the toolkits are in `toolkits/plugin.test.ts`. */
const others: readonly AnyRow[] = [
  {
    name: 'toolkits',
    options: {},
    narrow: {
      grant: { names: ['search'] },
      code: 'toolkits.unknown',
      refused: (agent) => new ToolkitsClient(agent).enable('filesystem'),
    },
    plain: { type: 'toolkit/list/req' },
  },
  {
    name: 'skill',
    options: { roots: [skills] },
    narrow: {
      grant: { skills: ['other'] },
      code: 'unknown_skill',
      refused: async (agent) => {
        const client = new SkillClient(agent);
        assert.deepEqual(await client.list(), []);
        return client.describe('advice');
      },
    },
    plain: { type: 'skill/discover/req', filter_tags: [], filter_categories: [] },
    vectors: 'skills',
  },
  {
    name: 'mcp',
    options: { servers: [{ name: 'notes', command: process.execPath, args: ['-e', ''] }] },
    narrow: {
      grant: { servers: ['other'] },
      code: 'mcp_server_not_found',
      refused: async (agent) => {
        const client = new McpClient(agent);
        assert.deepEqual(await client.servers(), []);
        return client.accept('notes');
      },
    },
    plain: { type: 'mcp/server/list/req', status_filter: '' },
    asks: ['mcp/elicit/req'],
  },
];

const hosts: Host[] = [];
after(() => Promise.all(hosts.map((host) => host.close(0))));

/** Returns its plugins, that of the capability first. */
const pluginsOf = async ({ name, options }: AnyRow, more: object = {}): Promise<readonly Plugin[]> =>
  [await builtinCapability(name)!.plugin!({ ...options, ...more })].flat();

/** Returns a host of one capability. The token of a principal is its name. */
async function hostOf(
  t: TestContext,
  row: AnyRow,
  { grants = {}, more, ...options }: Partial<HostOptions> & { grants?: Record<string, Grants>; more?: object } = {},
): Promise<Host> {
  const folder = temporaryFolder(t);
  const principals: Principal[] = [
    ...['p', 'q'].map((name) => ({ name, admin: true })),
    ...Object.entries(grants).map(([name, grant]) => ({ name, ...grant })),
  ];
  const auth = createAuthenticator(
    principals.map((principal) => ({ principal, digests: [tokenDigest(principal.name)] })),
  );
  const host = createHost({
    plugins: await pluginsOf(row, more),
    auth,
    stateFile: join(folder, 'state.db'),
    dataDir: join(folder, 'data'),
    ...options,
  });
  hosts.push(host);
  await host.start();
  return host;
}

interface Dialled {
  readonly agent: AgentSession;
  /** Loses the link. */
  cut(): void;
}

async function dial(
  t: TestContext,
  host: Host,
  { name }: AnyRow,
  { token = 'p', agentId = 'one' } = {},
): Promise<Dialled> {
  let link: Link | undefined;
  const agent = await AgentSession.open(
    async () => {
      const [ours, theirs] = memoryPair();
      host.accept(theirs);
      link = ours;
      return ours;
    },
    [name],
    { token, agentId, reconnect: { backoff: { firstDelayMs: 1, maxDelayMs: 5 } } },
  );
  t.after(() => agent.close());
  return { agent, cut: () => link?.destroy('cut by the test') };
}

const agentOf = async (...given: Parameters<typeof dial>): Promise<AgentSession> => (await dial(...given)).agent;
const text = async (row: Row, agent: AgentSession): Promise<string> => JSON.stringify(await row.state(agent));

for (const row of [...table, ...others]) {
  describe(row.name, { timeout: 240_000 }, () => {
    test('is asked for its grant: without one there is neither a session nor a request', async (t) => {
      const host = await hostOf(t, row, {
        grants: { none: { capabilities: ['tools'] }, some: { capabilities: [row.name] } },
      });
      await assert.rejects(agentOf(t, host, row, { token: 'none' }), ({ code, message }: HandfastError) => {
        assert.equal(code, 'no_caps');
        assert.match(message, new RegExp(`${row.name}: not allowed for this principal.*capabilities of the token`));
        return true;
      });
      const some = rawAgent(host);
      await some.shake({ auth_token: 'some', agent_caps: [row.name] });
      some.send({ id: 'r', a2e: '1.0', version: '1.0', ts: 1, ...row.plain });
      assert.notEqual((await some.reply('r')).code, 'capability_missing');
      const raw = rawAgent(host);
      await raw.shake({ auth_token: 'p', agent_caps: [] });
      raw.send({ id: 'r', a2e: '1.0', version: '1.0', ts: 1, ...row.plain });
      assert.equal((await raw.reply('r')).code, 'capability_missing');
    });

    test('has a finer grant, which refuses by name', async (t) => {
      const { grant, code, refused } = row.narrow;
      const host = await hostOf(t, row, {
        grants: { narrow: { capabilities: [row.name], grants: { [row.name]: grant } } },
      });
      await assert.rejects(refused(await agentOf(t, host, row, { token: 'narrow' })), { code });
    });

    test('is the same over every transport', async (t) => {
      const seen = new Set<string>();
      for (const transport of allTransports.filter((name) => name !== 'stdio')) {
        const door = await doorOf(transport, await hostOf(t, row));
        const peer = await door.dial();
        peer.send({
          type: 'handshake/req',
          id: 'hs',
          a2e: '1.0',
          version: '1.0',
          ts: 1,
          agent_caps: [row.name],
          auth_token: 'p',
        });
        const welcome = (await peer.next()) as Json;
        peer.send({ id: 'r', a2e: '1.0', version: '1.0', ts: 1, ...row.plain });
        const reply = (await peer.next()) as Json;
        assert.equal(reply.type, replyTo(row.plain.type), JSON.stringify(reply));
        seen.add(JSON.stringify([welcome.accepted_caps, Object.keys(reply).sort()]));
        peer.cut();
        await door.close();
      }
      assert.equal(seen.size, 1, [...seen].join('\n'));
    });

    test('a cancelled request has one reply', async (t) => {
      const host = await hostOf(t, row);
      const raw = rawAgent(host);
      await raw.shake({ auth_token: 'p', agent_caps: [row.name], extensions: { 'handfast/cancel': {} } });
      raw.send({ id: 'r', a2e: '1.0', version: '1.0', ts: 1, ...row.plain });
      raw.send({ type: 'cancel', req_id: 'r' });
      raw.send({ type: 'ping', id: 'p', a2e: '1.0', version: '1.0', ts: 1 });
      const replies: Json[] = [await raw.reply('r')];
      await new Promise((resolve) => setTimeout(resolve, 50));
      replies.push(...raw.received.filter((message) => message.req_id === 'r' && !replies.includes(message)));
      assert.equal(replies.length, 1);
      assert.ok(replies[0].type === replyTo(row.plain.type) || replies[0].code === 'cancelled');
    });

    test('what is beyond A2E 1.0 is offered by name', async () => {
      const [{ methods, metadata }] = (await pluginsOf(row)) as [Plugin];
      const plain = new Set(
        readFileSync(join(root, 'test/vectors/a2e', `${row.vectors ?? row.name}.ndjson`), 'utf8')
          .trim()
          .split('\n')
          .map((line) => (JSON.parse(line) as { type: string }).type),
      );
      // A request of A2E 1.0 that its set of messages lacks.
      plain.add('env/plan/req');
      const more = [...new Set(methods.map(({ method }) => method.request))].filter((type) => !plain.has(type));
      const known = typeof metadata === 'function' ? metadata({} as never) : metadata;
      const { messages } = known as { messages: readonly string[] };
      assert.deepEqual(messages.toSorted(), [...more, ...(row.asks ?? [])].sort());
    });
  });
}

for (const row of table) {
  describe(`the state of ${row.name}`, { timeout: 240_000 }, () => {
    test('a principal with its grant stores', async (t) => {
      const host = await hostOf(t, row, { grants: { some: { capabilities: [row.name] } } });
      const agent = await agentOf(t, host, row, { token: 'some' });
      const marker = await row.change(agent);
      assert.ok((await text(row, agent)).includes(marker));
    });

    test('keeps principals apart, and agents of one', async (t) => {
      const host = await hostOf(t, row);
      const mine = await agentOf(t, host, row);
      const marker = await row.change(mine);
      assert.ok((await text(row, mine)).includes(marker));
      const same = await agentOf(t, host, row);
      assert.ok((await text(row, same)).includes(marker) || row.name === 'env', 'another session of the agent has it');
      const other = await agentOf(t, host, row, { agentId: 'two' });
      assert.equal((await text(row, other)).includes(marker), row.shared === true);
      // An agent id alone is no identity.
      const stranger = await agentOf(t, host, row, { token: 'q' });
      assert.ok(!(await text(row, stranger)).includes(marker));
    });

    test('has a quota with an error of its own', async (t) => {
      const { options, code } = row.small;
      const agent = await agentOf(t, await hostOf(t, row, { more: options }), row);
      await row.change(agent);
      const failure = await row.change(agent).then(
        () => assert.fail('the second should be refused'),
        (error: unknown) => asError(error),
      );
      assert.equal(failure.code, code);
    });

    test('an aborted call ends with cancelled and stores nothing', async (t) => {
      const host = await hostOf(t, row);
      const agent = await agentOf(t, host, row);
      const before = await text(row, agent);
      await assert.rejects(agent.request(row.plain.type, row.plain, { signal: AbortSignal.abort() }), {
        code: 'cancelled',
      });
      assert.equal(await text(row, agent), before);
    });

    test('calls whose deadline passes, and aborted ones, end at once, are made once or not at all, and leave nothing', async (t) => {
      const host = await hostOf(t, row);
      const agent = await agentOf(t, host, row);
      const { next, count } = await row.many(agent);
      // Calls that are aborted while they wait.
      const controller = new AbortController();
      const ends = {
        timeout: (): CallOptions => ({ timeoutMs: 1 }),
        cancelled: (): CallOptions => ({ signal: controller.signal }),
      };
      let made = 0;
      let failed = 0;
      for (const [code, options] of Object.entries(ends)) {
        const before = failed;
        for (let round = 0; failed === before && round < 50; round++) {
          const calls = Array.from({ length: 20 }, (_, at) => next(at, options()));
          if (code === 'cancelled') setImmediate(() => controller.abort());
          // The deadline passes while the host is busy.
          else for (const until = performance.now() + 3; performance.now() < until; );
          for (const outcome of await Promise.allSettled(calls)) {
            if (outcome.status === 'fulfilled') made += 1;
            else {
              failed += 1;
              assert.equal(asError(outcome.reason).code, code);
            }
          }
        }
        assert.ok(failed > before, `no call ended with ${code}`);
      }
      assert.deepEqual(getEventListeners(controller.signal, 'abort'), []);
      // After all sent messages.
      await agent.ping();
      const busy = (): number => host.health().running + host.health().abandoned;
      for (let waited = 0; busy() > 0 && waited < 10_000; waited += 10) await sleep(10);
      assert.equal(busy(), 0);
      // Acknowledged after all calls under way.
      await next(10_000);
      made += 1;
      const counted = await count();
      assert.ok(counted >= made && counted <= made + failed, `${counted} of ${made} made and ${failed} failed`);
      // The count of a process comes with its end.
      if (row.volatile === true) return;
      await next(10_001);
      assert.equal(await count(), counted + 1, 'nothing is made later');
    });

    test('changes over a link that is lost again and again happen exactly once', async (t) => {
      const host = await hostOf(t, row, { journal: memoryJournal() });
      const { agent, cut } = await dial(t, host, row);
      const { next, count } = await row.many(agent);
      const cutting = setInterval(cut, 3);
      try {
        await Promise.all(Array.from({ length: 60 }, (_, at) => next(at)));
      } finally {
        clearInterval(cutting);
      }
      assert.equal(await count(), 60);
    });
  });
}

describe('hosts as processes', { timeout: 240_000 }, () => {
  const users: User[] = [];
  after(() => Promise.all(users.map((user) => user.leave())));

  const durable = table.filter(({ volatile }) => volatile !== true);
  const names = durable.map(({ name }) => name);
  const plugins = `plugins:\n${durable.map(({ name }) => `  - ${name === 'env' ? '{ use: env, options: { durability: step } }' : name}\n`).join('')}`;

  /** Returns the whole state of the agent, by capability. */
  const all = async (agent: AgentSession) => Promise.all(durable.map((row) => row.state(agent)));

  test('what was acknowledged survives kill -9 and an orderly restart; every change has a line in the audit', async (t) => {
    const user = new User();
    users.push(user);
    const config = user.write('state.yaml', plugins);
    const states: unknown[] = [];
    for (const end of ['SIGKILL', 'SIGTERM', 'SIGKILL'] as const) {
      const { command, ready } = await user.up(['--config', config]);
      const token = readFileSync(ready.token_file as string, 'utf8').trim();
      const agent = await connect(ready.url, { capabilities: names, agentId: 'one', token });
      if (states.length > 0) assert.deepEqual(await all(agent), states.at(-1));
      for (const row of durable) await row.change(agent);
      states.push(await all(agent));
      command.child.kill(end);
      await command.ended();
      await agent.close();
    }
    const audit = readFileSync(join(user.home, 'hosts', 'handfast', 'audit.jsonl'), 'utf8');
    const lines = audit
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Json);
    for (const { request, name } of durable) {
      const line = lines.find(({ type }) => type === request) ?? assert.fail(`no line of ${request}`);
      assert.deepEqual([line.principal, line.outcome], ['local', 'ok'], name);
    }
    t.diagnostic(`${lines.length} lines of audit`);
  });

  for (const row of durable) {
    test(`${row.name} on a full disk refuses with disk_full, reads, and has what it acknowledged once there is space`, {
      skip: noLimit,
    }, async (t) => {
      const user = new User();
      users.push(user);
      const config = user.write('state.yaml', `audit: { enabled: false }\n${plugins}`);
      const line = user.line(['up', '--json', '--port', '0', '--config', config]);
      const options = { cwd: user.cwd, env: user.environment() };
      const limited = new Command(spawn('prlimit', ['--fsize=600000', ...line], options));
      t.after(() => limited.child.kill('SIGKILL'));
      await limited.says('\n');
      const { url, token_file } = JSON.parse(limited.stdout) as { url: string; token_file: string };
      const asked = { capabilities: [row.name], agentId: 'one', token: readFileSync(token_file, 'utf8').trim() };
      const agent = await connect(url, asked);
      t.after(() => agent.close());
      const { next, count } = await row.many(agent);
      let made = 0;
      let failure: HandfastError | undefined;
      while (failure === undefined && made < 5_000) {
        await next(made).then(
          () => {
            made += 1;
          },
          (thrown: unknown) => {
            failure = asError(thrown);
          },
        );
      }
      assert.equal(failure?.code, 'disk_full', `after ${made}: ${failure?.message}`);
      assert.match(failure?.message ?? '', /space|disk|full/);
      // The readable state is the acknowledged one, and the host continues. A checkpoint between two changes frees space in the
      // log of the database: the next change is refused like the first, or it succeeds.
      assert.equal(await count(), made);
      await next(made).then(
        () => {
          made += 1;
        },
        (thrown: unknown) => assert.equal(asError(thrown).code, 'disk_full'),
      );
      assert.equal(await count(), made);
      const before = await row.state(agent);
      await agent.ping();
      limited.child.kill('SIGKILL');
      await limited.ended();
      const { ready } = await user.up(['--config', config]);
      const again = await connect(ready.url, {
        ...asked,
        token: readFileSync(ready.token_file as string, 'utf8').trim(),
      });
      t.after(() => again.close());
      assert.deepEqual(await row.state(again), before);
      const marker = await row.change(again);
      assert.ok((await text(row, again)).includes(marker));
      t.diagnostic(`${made} before the disk was full`);
    });
  }

  test('a host on pipes, which its agent started, has all of them', async (t) => {
    const user = new User();
    users.push(user);
    const agent = await connect(`stdio:${user.line(['stdio']).join(' ')}`, {
      capabilities: names,
      cwd: user.cwd,
      env: user.environment(),
    });
    t.after(() => agent.close());
    for (const row of durable) {
      const marker = await row.change(agent);
      assert.ok((await text(row, agent)).includes(marker), row.name);
    }
  });
});

test('a subscription over a link that is lost again and again has every change once, in order', async (t) => {
  const row = table.find(({ name }) => name === 'planning') as Row;
  const host = await hostOf(t, row, { journal: memoryJournal() });
  const writer = new PlanningClient(await agentOf(t, host, row));
  const { agent, cut } = await dial(t, host, row);
  const { plan_id } = await writer.createPlan('followed');
  const seen: number[] = [];
  const following = (async () => {
    for await (const { seq } of new PlanningClient(agent).watch(plan_id, { after: 0 })) {
      seen.push(seq);
      if (seen.length === 61) return;
    }
  })();
  const cutting = setInterval(cut, 3);
  t.after(() => clearInterval(cutting));
  for (let at = 0; at < 60; at++) await writer.add(plan_id, `task ${at}`);
  await following;
  assert.deepEqual(
    seen,
    Array.from({ length: 61 }, (_, at) => at + 1),
  );
});

test('pushes over a link that is lost again and again arrive once, in order', async (t) => {
  const row = table.find(({ name }) => name === 'env') as Row;
  const host = await hostOf(t, row, { journal: memoryJournal() });
  const episode = await new EnvClient(await agentOf(t, host, row)).reset('CliffWalking-v1', { seed: 1 });
  const { agent, cut } = await dial(t, host, row);
  const { promise: complete, resolve } = Promise.withResolvers<void>();
  const seen: number[] = [];
  new EnvClient(agent).onEvent(({ step_id }) => {
    if (seen.push(step_id) === 60) resolve();
  });
  const cutting = setInterval(cut, 3);
  t.after(() => clearInterval(cutting));
  for (let at = 0; at < 60; at++) await episode.step(0);
  await complete;
  assert.deepEqual(
    seen,
    Array.from({ length: 60 }, (_, at) => at),
  );
});
