/**
 * Every call of the public client of this project, with its arguments against a host of the A2E Python SDK. The list of
 * calls is read from the classes; {@link CALLS} has the use of each, and {@link DIFFERENCES} the impossible results
 * there, with the reason.
 */
import { AgentSession } from '../../src/agent/agent.ts';
import { type Agent, connect } from '../../src/connect.ts';
import { asError } from '../../src/wire/errors.ts';

/** The capabilities that the SDK has plugins for. */
export const CAPABILITIES = [
  'tools',
  'toolkits',
  'skill',
  'env',
  'proc',
  'memory',
  'learning',
  'chains',
  'mcp',
  'planning',
] as const;
export type WholeAgent = Agent<(typeof CAPABILITIES)[number]>;

/** Far above the reply time of a host that replies at all; a call without a reply waits for it. */
const REPLY_MS = 4_000;

type Class = { readonly name: string; readonly prototype: object };

/** Returns the classes whose objects make calls: the agent, and those that the client of a capability exports. */
async function classes(): Promise<Class[]> {
  const found: Class[] = [AgentSession as unknown as Class];
  for (const capability of CAPABILITIES) {
    const module: Record<string, unknown> = await import(`../../src/capabilities/${capability}/client.ts`);
    for (const value of Object.values(module)) {
      if (typeof value === 'function' && value.prototype !== undefined && /^class/.test(String(value))) {
        found.push(value as unknown as Class);
      }
    }
  }
  return found;
}

/** No calls of users: `withoutClient` is internal. */
const NO_CALLS: ReadonlySet<string> = new Set(['constructor', 'withoutClient']);

/** Returns every call, as `Class.method`, read from the classes. */
export async function listCalls(): Promise<string[]> {
  return (await classes()).flatMap(({ name, prototype }) =>
    Object.entries(Object.getOwnPropertyDescriptors(prototype))
      .filter(([method, { value }]) => !NO_CALLS.has(method) && typeof value === 'function')
      .map(([method]) => `${name}.${method}`),
  );
}

/** The outcome of a call. */
export interface Outcome {
  readonly call: string;
  /** `ok`, or the code of the error it rejected with. */
  readonly outcome: string;
  readonly message: string;
}

/** Data that the calls of one run share: each call creates the objects for later ones. */
export class Run {
  readonly agent: WholeAgent;
  /** A command of a server of the Model Context Protocol. */
  readonly server: readonly string[];
  readonly seen = new Map<string, unknown>();

  constructor(agent: WholeAgent, server: readonly string[]) {
    this.agent = agent;
    this.server = server;
  }

  keep<T>(name: string, value: T): T {
    this.seen.set(name, value);
    return value;
  }

  // biome-ignore lint/suspicious/noExplicitAny: what an earlier call made
  of(name: string): any {
    return this.seen.get(name);
  }
}

/** A missing result of a call against the SDK's host, with the reason. */
export interface Difference {
  /** The code of the error it rejects with; `ok` if a part of the result is missing. */
  readonly outcome: string;
  readonly reason: string;
}

const noServe = 'the base class of its environments serves `reset`, `step`, `observe` and `close` alone';
const cookbook = 'the plugin of its cookbook:';
const misnamed = 'its plugin fills fields that the reply does not have, so that `ok` is false also when it was done';
const models = 'its plugin puts models where its own reply wants mappings, and raises';

/**
 * Calls whose messages A2E 1.0 has, and which its host does not handle as A2E 1.0 demands. Messages that A2E 1.0 does
 * not have are additions.
 */
export const DIFFERENCES: Readonly<Record<string, Difference>> = {
  'AgentSession.journal': {
    outcome: 'capability_missing',
    reason: 'an extension of Handfast, which its host does not offer; nothing is sent',
  },
  'ToolkitsClient.configure': {
    outcome: 'timeout',
    reason: 'it configures and does not reply: the base class of its plugins returns a value that was never set',
  },
  'RemoteEpisode.render': { outcome: 'invalid_message', reason: noServe },
  'RemoteEpisode.suggestions': {
    outcome: 'parse_error',
    reason: `${noServe}, and it knows the request by the type of its reply`,
  },
  'RemoteEpisode.transitions': { outcome: 'invalid_message', reason: noServe },
  'EnvClient.spaces': { outcome: 'invalid_message', reason: noServe },
  'EnvClient.vector': { outcome: 'ok', reason: 'its host has one episode at a time: both are the second one' },
  'EnvClient.experience': { outcome: 'invalid_message', reason: noServe },
  'RemoteVector.step': { outcome: 'invalid_message', reason: noServe },
  'RemoteVector.stepEach': { outcome: 'invalid_message', reason: noServe },
  'ProcClient.spawn': {
    outcome: 'ok',
    reason: 'it ignores the folder, the variables, the kind of input and the time limit',
  },
  'RemoteProcess.eof': { outcome: 'ok', reason: 'it replies, and leaves the input open' },
  'RemoteProcess.kill': {
    outcome: 'ok',
    reason: 'every signal is SIGTERM, and the reply says that it failed: the state of the process decides',
  },
  'Memory.search': { outcome: 'ok', reason: `${cookbook} it ignores the query, so a search is a list` },
  'Memory.forget': {
    outcome: 'ok',
    reason: `${cookbook} it forgets by tag, and by key nothing, since it compares keys with digests`,
  },
  'LearningClient.reward': { outcome: 'ok', reason: 'it is stored as an experience: its host has no decisions' },
  'LearningClient.stats': {
    outcome: 'runtime_error',
    reason: `${cookbook} it reads \`tool_name\`, which its request does not have`,
  },
  'LearningClient.plan': { outcome: 'runtime_error', reason: `${cookbook} it uses a name that it does not define` },
  'LearningClient.review': { outcome: 'runtime_error', reason: `${cookbook} it calls a method that it does not have` },
  'LearningClient.apply': { outcome: 'runtime_error', reason: `${cookbook} it calls a method that it does not have` },
  'LearningClient.rollback': {
    outcome: 'runtime_error',
    reason: `${cookbook} it calls a method that it does not have`,
  },
  'LearningClient.adapt': {
    outcome: 'timeout',
    reason: `${cookbook} it acquires a lock that it holds, and replies to no feedback or experience afterwards`,
  },
  'McpClient.register': { outcome: 'mcp.refused', reason: `the server is connected; ${misnamed}` },
  'McpClient.servers': { outcome: 'mcp_transport_error', reason: models },
  'McpClient.call': {
    outcome: 'tool_error',
    reason: 'its gateway puts tools of servers into a registry that its tools plugins do not read',
  },
  'McpClient.resources': { outcome: 'mcp_transport_error', reason: models },
  'McpClient.read': {
    outcome: 'mcp_transport_error',
    reason: 'its plugin reads `req_id` of the request, which has none',
  },
  'McpClient.prompts': { outcome: 'mcp_transport_error', reason: models },
  'McpClient.prompt': {
    outcome: 'mcp_transport_error',
    reason: 'its plugin reads `req_id` of the request, which has none',
  },
  'McpClient.unregister': { outcome: 'mcp.refused', reason: misnamed },
};

/** Code with which its host refuses an unknown message: one that A2E 1.0 does not have is an addition of this project. */
export const ADDITION = 'parse_error';

/** A call with its arguments; it throws when the result is wrong. */
type Case = (run: Run) => unknown;

const is = (condition: unknown, what: unknown): void => {
  if (!condition) throw new TypeError(`not as expected: ${JSON.stringify(what)}`);
};
const brief = { timeoutMs: REPLY_MS };
const first = async <Item>(items: AsyncGenerator<Item, unknown>): Promise<Item | undefined> => {
  const { value, done } = await items.next();
  await items.return(undefined);
  return done ? undefined : (value as Item);
};
const ask = { request: 'whole/ask/req', reply: 'whole/ask/resp', capability: 'tools' };
const proposal = { target: 'router_weight', op: 'update', path: 'router.weights.grep', new_value: 0.7 };
const rated = {
  polarity: 'positive',
  score: 0.5,
  rated_turn: { prompt: 'p', response: 'r', model: 'm', version: 'v' },
} as const;

/** Every call. The order matters: later ones use objects of earlier ones. */
export const CALLS: Readonly<Record<string, Case>> = {
  'AgentSession.ping': async ({ agent }) => is((await agent.ping()).roundTripMs >= 0, 'ping'),
  'AgentSession.require': ({ agent }) => agent.require('tools'),
  'AgentSession.request': async ({ agent }) =>
    is((await agent.request('tool/list/req', {}, brief)).tools !== undefined, 'request'),
  'AgentSession.on': ({ agent }) => agent.on({ push: 'env/state/push', capability: 'env' }, () => {})(),
  'AgentSession.onOtherPush': ({ agent }) => agent.onOtherPush(() => {}),
  'AgentSession.serve': ({ agent }) => agent.serve(ask as never, async () => ({}))(),
  'AgentSession.journal': ({ agent }) => agent.journal('', {}, brief),
  'ToolsClient.list': async ({ agent }) =>
    is(
      (await agent.tools.list()).some(({ name }) => name === 'greet'),
      'greet',
    ),
  'ToolsClient.search': async ({ agent }) => is((await agent.tools.search('rare')).length === 1, 'rare'),
  'ToolsClient.call': async ({ agent }) => {
    const kinds: string[] = [];
    const { data } = await agent.tools.call('steps', {}, { onEvent: ({ kind }) => void kinds.push(kind) });
    is(JSON.stringify(data) === '{"done":true}' && kinds.length === 4, kinds);
  },
  'ToolkitsClient.list': async ({ agent }) => {
    const toolkits = await agent.toolkits.list({ tags: ['fs'], ...brief });
    is(toolkits[0]?.name === 'files', toolkits);
  },
  'ToolkitsClient.configure': async ({ agent }) => {
    await agent.toolkits.configure('files', { root: '.' }, brief);
    is((await agent.toolkits.list(brief))[0]?.configured, 'configured');
  },
  'ToolkitsClient.describe': ({ agent }) => agent.toolkits.describe('files', brief),
  'ToolkitsClient.enable': ({ agent }) => agent.toolkits.enable('files', brief),
  'ToolkitsClient.disable': ({ agent }) => agent.toolkits.disable('files', brief),
  'ToolkitsClient.search': ({ agent }) => agent.toolkits.search('echo', brief),
  'SkillClient.list': async ({ agent }) => {
    const skills = await agent.skill.list({ tags: ['text'] }, brief);
    is(skills[0]?.version === '1.2.0', skills);
  },
  'SkillClient.call': async ({ agent }) => {
    const kinds: string[] = [];
    const onEvent = ({ kind }: { kind: string }) => void kinds.push(kind);
    const { data } = await agent.skill.call('count', { text: 'one two' }, { onEvent, ...brief });
    is(JSON.stringify(data) === '{"words":2}' && kinds.join() === 'progress', [data, kinds]);
  },
  'SkillClient.problems': ({ agent }) => agent.skill.problems(brief),
  'SkillClient.describe': ({ agent }) => agent.skill.describe('count', brief),
  'EnvClient.reset': async (run) => {
    const episode = run.keep('episode', await run.agent.env.reset<number, number>('corridor', { seed: 1 }, brief));
    is(episode.observation === 0 && !episode.done, episode.latest);
  },
  'RemoteEpisode.step': async (run) => is((await run.of('episode').step(1)).observation === 1, 'step'),
  'RemoteEpisode.observe': async (run) => is((await run.of('episode').observe()).step === 1, 'observe'),
  'EnvClient.episode': async (run) =>
    is((await run.agent.env.episode(run.of('episode').id, brief)).id !== '', 'episode'),
  'RemoteEpisode.render': (run) => run.of('episode').render('text'),
  'RemoteEpisode.suggestions': (run) => run.of('episode').suggestions(),
  'RemoteEpisode.transitions': (run) => first(run.of('episode').transitions(brief)),
  'RemoteEpisode.play': async (run) => {
    const steps = await Array.fromAsync(run.of('episode').play(() => 1) as AsyncGenerator<{ reward: number }>);
    is(steps.length === 3 && steps.at(-1)?.reward === 1, steps);
  },
  'RemoteEpisode.close': (run) => run.of('episode').close(),
  'EnvClient.list': ({ agent }) => agent.env.list(brief),
  'EnvClient.spaces': ({ agent }) => agent.env.spaces('corridor', {}, brief),
  'EnvClient.vector': async (run) => {
    const both = run.keep('vector', await run.agent.env.vector<number, number>('corridor', 2, { seed: 1 }));
    is(both.count === 2, both.observations);
  },
  'RemoteVector.step': (run) => run.of('vector').step([1, 1], brief),
  'RemoteVector.stepEach': (run) => run.of('vector').stepEach([1, 1], brief),
  'RemoteVector.close': (run) => run.of('vector').close(brief),
  'EnvClient.contains': ({ agent }) => agent.env.contains({ env: 'corridor', space: 'action' } as never, 1),
  'EnvClient.sample': ({ agent }) => agent.env.sample({ env: 'corridor', space: 'action' } as never, { n: 1 }),
  'EnvClient.check': ({ agent }) => agent.env.check('corridor', {}, brief),
  'EnvClient.onEvent': ({ agent }) => agent.env.onEvent(() => {})(),
  'EnvClient.experience': ({ agent }) => agent.env.experience(5, brief),
  'ProcClient.spawn': async (run) => {
    const child = run.keep('cat', await run.agent.proc.spawn(['cat'], {}, brief));
    is(child.pid > 1, child.pid);
  },
  'ProcClient.list': async ({ agent }) => is((await agent.proc.list({}, brief))[0]?.cmd === 'cat', 'list'),
  'ProcClient.programs': async ({ agent }) => is((await agent.proc.programs(brief)) === undefined, 'programs'),
  'ProcClient.find': async (run) =>
    is((await run.agent.proc.find(run.of('cat').id, brief)).id === run.of('cat').id, 'find'),
  'RemoteProcess.info': async (run) => is((await run.of('cat').info(brief)).state === 'running', 'info'),
  'RemoteProcess.write': (run) => run.of('cat').write('one\n', brief),
  'RemoteProcess.output': async (run) =>
    is((await first<{ text: string }>(run.of('cat').output()))?.text === 'one\n', 'output'),
  'RemoteProcess.resize': (run) => run.of('cat').resize({ cols: 80, rows: 25 }, brief),
  'RemoteProcess.eof': (run) => run.of('cat').eof(brief),
  'RemoteProcess.wait': async ({ agent }) => {
    const child = await agent.proc.spawn(['sh', '-c', 'sleep 0.2; exit 3'], {}, brief);
    is((await child.wait({ signal: AbortSignal.timeout(REPLY_MS) })).code === 3, 'code');
  },
  'RemoteProcess.kill': async ({ agent }) => {
    const child = await agent.proc.spawn(['sleep', '60'], {}, brief);
    const state = await child.kill('SIGTERM', brief);
    // Its status of a process that was killed is `failed`.
    is(state === 'stopped' || state === 'crashed', state);
    is((await child.wait()).code === -15, 'code');
  },
  'MemoryClient.open': async (run) => {
    const memory = run.keep('memory', await run.agent.memory.open({ namespace: 'whole' }, brief));
    is(memory.id !== '', memory.id);
  },
  'Memory.store': async (run) => {
    const { errors } = await run
      .of('memory')
      .store({ key: { k: 1 }, content: 'Ada lives in Lisbon', tags: ['n'] }, brief);
    is(errors.length === 0, errors);
  },
  'Memory.search': async (run) => is((await run.of('memory').search('Ada', {}, brief)).entries.length === 1, 'search'),
  'Memory.list': async (run) => is((await run.of('memory').list({ tags: ['n'] }, brief)).entries.length === 1, 'list'),
  'Memory.get': async (run) =>
    is((await run.of('memory').get({ k: 1 }, {}, brief))?.content === 'Ada lives in Lisbon', 'get'),
  'Memory.all': async (run) => is((await Array.fromAsync(run.of('memory').all({}, brief))).length === 1, 'all'),
  'Memory.history': (run) => run.of('memory').history({ k: 1 }, '', brief),
  'Memory.publish': (run) => run.of('memory').publish('team', { tags: ['n'] }, brief),
  'Memory.stats': (run) => run.of('memory').stats(brief),
  'Memory.forget': async (run) => is((await run.of('memory').forget({ tags: ['n'] }, brief)).deleted === 1, 'forget'),
  'MemoryClient.watch': ({ agent }) => agent.memory.watch({}, () => {}, brief),
  'MemoryClient.spaces': ({ agent }) => agent.memory.spaces(brief),
  'MemoryClient.stats': ({ agent }) => agent.memory.stats(brief),
  'LearningClient.feedback': async ({ agent }) =>
    is((await agent.learning.feedback([rated], brief)).recorded === 1, 'feedback'),
  'LearningClient.experience': async ({ agent }) =>
    is((await agent.learning.experience([{ reward: 1 }], brief)).stored === 1, 'experience'),
  'LearningClient.reward': async ({ agent }) =>
    is((await agent.learning.reward('e2', 1, brief)) === false, 'it has no decisions'),
  'LearningClient.history': async ({ agent }) => is(Array.isArray(await agent.learning.history(brief)), 'history'),
  'LearningClient.decide': ({ agent }) => agent.learning.decide('search', ['lexical', 'hybrid'], brief),
  'LearningClient.stats': ({ agent }) => agent.learning.stats('', brief),
  'LearningClient.experiences': ({ agent }) => first(agent.learning.experiences(brief)),
  'LearningClient.feedbacks': ({ agent }) => first(agent.learning.feedbacks(brief)),
  'LearningClient.plan': ({ agent }) => agent.learning.plan('', 'local', brief),
  'LearningClient.review': ({ agent }) => agent.learning.review(proposal, brief),
  'LearningClient.apply': ({ agent }) => agent.learning.apply(proposal, brief),
  'LearningClient.rollback': ({ agent }) => agent.learning.rollback('none', brief),
  'LearningClient.evaluate': ({ agent }) => agent.learning.evaluate('search', { option: 'hybrid', ...brief }),
  'LearningClient.forget': ({ agent }) => agent.learning.forget('search', brief as never),
  // The last one: its plugin replies to nothing after it.
  'LearningClient.adapt': ({ agent }) => agent.learning.adapt('grep', brief),
  'ChainsClient.run': async ({ agent }) => {
    const phases: string[] = [];
    const onEvent = ({ fields }: { fields?: { phase?: unknown } }) => void phases.push(String(fields?.phase));
    const nodes = [
      { node_id: 'greet', kind: 'tool', name: 'greet', input_map: { name: '$.who' }, next_node: 'count' },
      { node_id: 'count', kind: 'skill', name: 'count', input_map: { text: '$.greet.text' } },
    ];
    const { success, final_output } = await agent.chains.run(
      { nodes, entry_node: 'greet' } as never,
      { who: 'Ada' },
      { onEvent: onEvent as never, ...brief },
    );
    is(success && JSON.stringify(final_output) === '{"words":2}' && phases.join() === 'start,done,start,done', [
      final_output,
      phases,
    ]);
  },
  ...Object.fromEntries(
    (
      [
        ['check', [{ nodes: [] }]],
        ['put', ['a', { nodes: [] }]],
        ['get', ['a']],
        ['list', [{}]],
        ['remove', ['a']],
        ['runs', [{}]],
        ['status', ['a']],
        ['history', ['a', {}]],
        ['watch', ['a']],
        ['pause', ['a']],
        ['resume', ['a']],
        ['retry', ['a', 'n']],
        ['cancel', ['a']],
        ['approve', ['a', 'n']],
        ['approvals', []],
        ['deliver', ['a', 'e', null]],
      ] as const
    ).map(([method, words]) => [
      `ChainsClient.${method}`,
      // biome-ignore lint/suspicious/noExplicitAny: one line for each of the additions
      ({ agent }: Run) => (agent.chains as any)[method](...words, brief),
    ]),
  ),
  'McpClient.register': async ({ agent, server }) => {
    const info = await agent.mcp.register({ server_id: 'all', name: 'all', cmd: [...server] } as never, {
      timeoutMs: 30_000,
    });
    is(info.status === 'ready', info);
  },
  'McpClient.servers': async ({ agent }) => is(Array.isArray(await agent.mcp.servers(brief)), 'servers'),
  'McpClient.call': async ({ agent }) =>
    is((await agent.mcp.call('all', 'echo', { message: 'hello' }, brief)).success, 'call'),
  'McpClient.resources': async ({ agent }) => is((await agent.mcp.resources('all', brief)).length > 0, 'resources'),
  'McpClient.read': async ({ agent }) =>
    is((await agent.mcp.read('demo://resource/dynamic/text/7', 'all', brief)).length > 0, 'read'),
  'McpClient.subscribe': ({ agent }) => agent.mcp.subscribe('demo://resource/dynamic/text/7', 'all', brief),
  'McpClient.prompts': async ({ agent }) => is((await agent.mcp.prompts('all', brief)).length > 0, 'prompts'),
  'McpClient.prompt': async ({ agent }) =>
    is((await agent.mcp.prompt('args-prompt', { city: 'Lisbon' }, 'all', brief)).length > 0, 'prompt'),
  'McpClient.accept': ({ agent }) => agent.mcp.accept('all', [], brief),
  'McpClient.unsubscribe': ({ agent }) => agent.mcp.unsubscribe('demo://resource/dynamic/text/7', 'all', brief),
  'McpClient.templates': ({ agent }) => agent.mcp.templates('all', brief),
  'McpClient.complete': ({ agent }) =>
    agent.mcp.complete({ of: { prompt: 'args-prompt' }, argument: 'city', server: 'all' }, brief),
  'McpClient.onSampling': ({ agent }) =>
    agent.mcp.onSampling(() => ({ content: { type: 'text', text: 'x' }, model: 'm' }) as never)(),
  'McpClient.onElicitation': ({ agent }) => agent.mcp.onElicitation(() => ({ action: 'decline' }) as never)(),
  'McpClient.onRoots': ({ agent }) => agent.mcp.onRoots(() => [])(),
  'McpClient.onNotification': ({ agent }) => agent.mcp.onNotification(() => {})(),
  'McpClient.unregister': ({ agent }) => agent.mcp.unregister('all', { timeoutMs: 30_000 }),
  'PlanningClient.createPlan': async (run) => {
    const plan = run.keep('plan', await run.agent.planning.createPlan('whole', {}, brief));
    is(plan.columns.length === 4, plan);
  },
  'PlanningClient.plans': async (run) =>
    is(
      (await run.agent.planning.plans({}, brief)).some(({ plan_id }) => plan_id === run.of('plan').plan_id),
      'plans',
    ),
  'PlanningClient.add': async (run) => {
    const task = run.keep(
      'task',
      await run.agent.planning.add(run.of('plan').plan_id, 'Write', { status: 'todo' }, brief),
    );
    is(task.task_id !== '', task);
  },
  'PlanningClient.update': (run) =>
    run.agent.planning.update(run.of('plan').plan_id, run.of('task').task_id, { status: 'done' }, brief),
  'PlanningClient.tasks': async (run) => {
    const tasks = await run.agent.planning.tasks(run.of('plan').plan_id, { status: 'done' } as never, brief);
    is(tasks.length === 1, tasks);
  },
  'PlanningClient.boards': async (run) => {
    const [board] = await run.agent.planning.boards(run.of('plan').plan_id, {}, brief);
    is(board?.tasks.done?.length === 1, board);
  },
  ...Object.fromEntries(
    (
      [
        ['plan', []],
        ['configure', [{ description: 'x' }]],
        ['archivePlan', []],
        ['restorePlan', []],
        ['deletePlan', [{}]],
        ['share', ['other', 'viewer']],
        ['ready', [{}]],
        ['markdown', ['', {}]],
        ['claim', [brief]],
      ] as const
    ).map(([method, words]) => [
      `PlanningClient.${method}`,
      // biome-ignore lint/suspicious/noExplicitAny: one line for each of the additions
      (run: Run) => (run.agent.planning as any)[method](run.of('plan').plan_id, ...words, brief),
    ]),
  ),
  ...Object.fromEntries(
    (
      [
        ['task', []],
        ['renew', [1, 1000]],
        ['release', [1, '']],
        ['comment', ['x']],
        ['archive', []],
        ['restore', []],
        ['delete', [{}]],
      ] as const
    ).map(([method, words]) => [
      `PlanningClient.${method}`,
      (run: Run) =>
        // biome-ignore lint/suspicious/noExplicitAny: one line for each of the additions
        (run.agent.planning as any)[method](run.of('plan').plan_id, run.of('task').task_id, ...words, brief),
    ]),
  ),
  'PlanningClient.history': (run) => first(run.agent.planning.history(run.of('plan').plan_id, '', brief)),
  'PlanningClient.watch': (run) =>
    first(run.agent.planning.watch(run.of('plan').plan_id, { signal: AbortSignal.timeout(REPLY_MS) })),
  'AgentSession.close': ({ agent }) => agent.close(),
};

/** Makes every call against a host, in the order of {@link CALLS}. */
export async function makeCalls(
  address: string,
  env: Readonly<Record<string, string>>,
  server: readonly string[],
): Promise<Outcome[]> {
  const agent = (await connect(address, { capabilities: CAPABILITIES, env, timeoutMs: 10_000 })) as WholeAgent;
  const run = new Run(agent, server);
  const outcomes: Outcome[] = [];
  try {
    for (const [call, make] of Object.entries(CALLS)) {
      try {
        await make(run);
        outcomes.push({ call, outcome: 'ok', message: '' });
      } catch (thrown) {
        const { code, message } = asError(thrown);
        outcomes.push({
          call,
          outcome: thrown instanceof TypeError ? 'wrong' : code,
          message: thrown instanceof TypeError ? thrown.message : message,
        });
      }
    }
  } finally {
    await agent.close();
  }
  return outcomes;
}
