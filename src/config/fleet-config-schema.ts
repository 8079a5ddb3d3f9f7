/**
 * Every setting of `fleet.yaml`, said once, in the language of `config-fields.ts`. What depends on several settings, on files
 * or on the environment is in `fleet-config.ts`.
 * @see docs/fleet.md#the-configuration
 */
import {
  anything,
  choice,
  type Field,
  type Fields,
  flag,
  group,
  integer,
  type JsonSchema,
  listOf,
  mapOf,
  type Settings,
  text,
} from './config-fields.ts';
import { executor, mcpServer } from './fleet-config-executor.ts';
import { callback, httpAddress, name, path, requiredHttpAddress, tokenFields, word } from './fleet-config-fields.ts';
import { natsConnection, natsConnectionFields } from './fleet-config-nats.ts';

const DAY_S = 86_400;
const HOUR_MS = 3_600_000;

/** What the doors of a worker have in common. */
const door = {
  host: text('The address it binds. Other machines are let in only where tokens are asked for.', {
    default: '127.0.0.1',
    expected: 'an IP address',
    pattern: /^[\d.]+$|^[\da-f:]+$/i,
  }),
  url: httpAddress('Where others reach it, for its card, where that is not the address it binds.'),
};

const sender = group('Somebody who sends tasks.', {
  name: name('What the worker calls it.'),
  ...tokenFields('its bearer token'),
  callback,
});

/** What a worker is, in the fleet's file or in one of its own. */
export const workerFields = {
  id: name('Its name in the fleet.'),
  executor,
  repo: text('The folder it works in, as a rule a git repository. Left out: the folder of this file.', {
    expected: 'the path of a folder',
    example: ['repo: ../app'],
  }),
  data_dir: path('Its own data. Left out: in the Handfast folder of this user.', 'data_dir: ./worker-1'),
  model: text('The model behind it, as it is announced.', { expected: 'a model' }),
  tier: text('haiku, sonnet, opus, or a tier the fleet ranks.', { expected: 'a tier' }),
  context_window: integer('Tokens its model can be given.', { min: 1, max: 1_000_000_000 }),
  tools: listOf('What it can do, e.g. terminal, file, browser.', word('A tool.'), {
    default: ['terminal', 'file'],
  }),
  mcp_servers: listOf('Its MCP servers.', mcpServer, { default: [] }),
  pools: listOf('Pools whose tasks it takes.', name('A pool.'), { default: [] }),
  max_concurrent: integer('Turns at once.', { default: 3, min: 1, max: 1024 }),
  min_lead_s: integer('Shortest time left for a task to be taken.', { default: 30, min: 0, max: DAY_S }),
  overhead_tokens: integer('Tokens of an empty first turn. Left out: measured where the executor can.', {
    min: 0,
    max: 10_000_000,
  }),
  count_cache_reads: flag('Tokens read from a cache count against budgets.', { default: false }),
  turn_timeout_ms: integer('Longest turn, whatever the deadline says.', {
    default: HOUR_MS,
    min: 1_000,
    max: 30 * 86_400_000,
  }),
  receiver: group(
    'Also takes tasks over plain HTTP, as the receivers of earlier versions do.',
    {
      ...door,
      port: integer('Its port; 0: the first free one of the band of its kind.', { default: 0, min: 0, max: 65_535 }),
      ...tokenFields('the bearer token senders need'),
      callback,
      senders: listOf('Senders with a token, and perhaps a callback, of their own.', sender, { default: [] }),
      reply_timeout_s: integer('How long a sender without a callback may wait for its result.', {
        default: 300,
        min: 1,
        max: DAY_S,
      }),
    },
    { optional: true },
  ),
  a2a: group(
    'Is also an A2A 1.0 agent.',
    {
      ...door,
      port: integer('Its port; 0: any free one.', { default: 0, min: 0, max: 65_535 }),
      ...tokenFields('the bearer token clients need'),
      partial_state: choice(
        'What work that is not finished looks like to clients that know nothing of fleets.',
        ['failed', 'completed', 'input_required'],
        { default: 'failed' },
      ),
      retain_days: integer('Days ended tasks are kept for its clients.', { default: 7, min: 1, max: 3_650 }),
    },
    { optional: true },
  ),
} as const;

const worker = group('A worker of this process.', workerFields);

const peer = group('A worker that is reached over HTTP and knows nothing of this configuration.', {
  id: name('Its name in the fleet.'),
  url: requiredHttpAddress('Its address.'),
  kind: choice('receiver: a receiver of versions 0.5 to 0.8. a2a: an A2A 1.0 agent.', ['receiver', 'a2a'], {
    default: 'receiver',
  }),
  ...tokenFields('its bearer token'),
  repo: path('Its repository, where this machine can see it: results are checked there.', 'repo: ../app'),
});

const hook = group('A rule of routing.', {
  when: text('A CEL expression over task, worker and now.', { required: true, expected: 'a CEL expression' }),
  // biome-ignore lint/suspicious/noThenProperty: the key of the file
  then: choice(
    'reject: not this worker. prefer: adds score. refuse: the task is not taken at all.',
    ['reject', 'prefer', 'refuse'],
    {
      required: true,
    },
  ),
  score: integer('For prefer.', { min: -1000, max: 1000 }),
  reason: text('Told where it decides.', { expected: 'a text' }),
});

const steps = listOf(
  'Steps; the first possible one is taken.',
  choice('A step.', ['reroute', 'retry', 'wait', 'alert', 'fail'], { required: true }),
  { required: true },
);

export const fleetFields = {
  name: text('The name of the fleet.', {
    default: 'fleet',
    pattern: /^[a-z0-9][a-z0-9-]{0,63}$/,
    expected: 'a name of lower-case letters, digits and "-"',
  }),
  bus: listOf(
    'in-process, or the addresses of NATS servers: then workers on other machines join with the same file.',
    text('in-process or a nats:// address.', {
      required: true,
      pattern: /^(in-process|(nats|tls):\/\/\S+)$/,
      expected: 'in-process or a nats:// address',
    }),
    { default: ['in-process'], example: ['bus: nats://127.0.0.1:4222'] },
  ),
  nats: group('For a NATS bus.', {
    ...natsConnectionFields,
    replicas: integer('Copies of every stream and bucket. Left out: 3 where three servers or more are named, else 1.', {
      min: 1,
      max: 5,
      example: ['replicas: 3'],
    }),
    max_waiting: integer('Dispatches that may wait on the server for workers. Left out: 1,000,000.', {
      min: 1,
      max: 100_000_000,
    }),
    store_tasks: flag('Tasks are kept there too: another machine with this file stands by, and takes over.', {
      default: false,
    }),
  }),
  listen: listOf(
    'Where workers, clients and receivers of earlier versions reach this orchestrator.',
    text('A listen address.', { required: true, expected: 'http://host:port, tcp://host:port or unix:///path' }),
    { default: ['http://127.0.0.1:9219'], shown: true },
  ),
  data_dir: path(
    'Tasks and results, kept by one process at a time. Left out: in the Handfast folder of this user.',
    'data_dir: ./fleet-data',
  ),
  workers: listOf('Workers of this process.', worker, { default: [] }),
  peers: listOf('Workers elsewhere that do not join by themselves.', peer, { default: [] }),
  inline_hints: flag('Peers that speak nothing newer get their terms as text in front of the brief.', {
    default: true,
  }),
  lease_ttl_s: integer('A task whose worker is silent for so long is lost.', { default: 45, min: 2, max: DAY_S }),
  routing: group('Where tasks go.', {
    ttl_s: integer('How long a description is good for.', { default: 900, min: 1, max: 30 * DAY_S }),
    default_max_concurrent: integer('For workers that do not say.', { default: 3, min: 1, max: 1024 }),
    min_lead_s: integer('Tasks with less time left go nowhere.', { default: 30, min: 0, max: DAY_S }),
    unverified: choice(
      'Whether peers that never described themselves get tasks with requirements.',
      ['last_resort', 'never', 'allow'],
      {
        default: 'last_resort',
      },
    ),
    tiers: mapOf(
      'Ranks of other tiers, beside haiku 1, sonnet 2, opus 3.',
      integer('A rank.', { min: 1, max: 100 }) as Field<number>,
      {
        key: /^[A-Za-z0-9][\w. -]{0,63}$/,
        expectedKey: 'the name of a tier',
        example: ['tiers: { gemini-flash: 1 }'],
      },
    ),
    hooks: listOf('Rules in the Common Expression Language.', hook, { default: [] }),
  }),
  blocked_policy: group('What happens to a task that a worker refused.', {
    max_reroutes: integer('Times it goes to another worker.', { default: 3, min: 0, max: 100 }),
    max_retries: integer('Times it waits and is tried again.', { default: 3, min: 0, max: 100 }),
    backoff_s: listOf('Waits before each retry.', integer('Seconds.', { min: 1, max: DAY_S }) as Field<number>, {
      default: [30, 120, 480],
    }),
    table: mapOf('Steps by reason code, in place of the built-in ones.', steps, {
      key: /^[a-z][a-z0-9_]{0,63}$/,
      expectedKey: 'a reason code',
      example: ['table: { dirty_repo: [retry, alert] }'],
    }),
  }),
  join_grace_s: integer('How long workers are waited for before a task counts as one that nobody can do.', {
    default: 5,
    min: 0,
    max: 3_600,
  }),
  plain_peer_timeout_s: integer('Longest turn of a peer that cannot say that it goes on.', {
    default: 3_600,
    min: 1,
    max: 30 * DAY_S,
  }),
  max_open_tasks: integer('Tasks that have not ended.', { default: 100_000, min: 1, max: 10_000_000 }),
  retain_days: integer('Days ended tasks are kept.', { default: 30, min: 1, max: 3_650 }),
  max_tasks: integer('Tasks that are kept at most; the oldest ended ones go first.', {
    default: 100_000,
    min: 1,
    max: 10_000_000,
  }),
  labels: anything('Notes of your own.'),
} satisfies Fields;

/** The whole file as one field. */
export const fleetRoot = group('Configuration of a fleet.', fleetFields);

export type FleetSettings = Settings<typeof fleetFields>;
export type WorkerSettings = Settings<typeof workerFields>;

/** The file of one worker: what `fleet.yaml` says of it, without the rest. */
export const workerRoot = group('Configuration of a worker.', { ...workerFields, nats: natsConnection });

/** JSON Schema of the file of one worker. */
export function workerSchema(): JsonSchema {
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', title: 'a worker', ...workerRoot.schema() };
}

/** JSON Schema of `fleet.yaml`, for editors: a new object at each call. */
export function fleetSchema(): JsonSchema {
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', title: 'fleet.yaml', ...fleetRoot.schema() };
}
