/**
 * `fleet.yaml` as one schema: the static type, the reader, the defaults and the JSON Schema in `schema/fleet-config.json`
 * come from here.
 *
 * `npm run generate` writes it as data (`fleet.generated.ts`); nothing imports this file at run time. What depends on
 * several settings, on files or on the environment is in `fleet-config.ts`.
 * @see docs/fleet.md#the-configuration
 */
import { type Static, Type } from '../wire/schema.ts';
import type { Settings } from './setting.ts';
import {
  anything,
  flag,
  fleetName,
  httpAddress,
  integer,
  mapOf,
  path,
  TOKEN_PLACES,
  text,
  tokenFields,
} from './shared.schema.ts';
import { natsConnectionFields, worker, workerFile } from './worker.schema.ts';

export { workerFile };

const DAY_S = 86_400;

const nats = Type.Object(
  {
    ...natsConnectionFields,
    replicas: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 5,
        description: 'Copies of every stream and bucket. Left out: 3 where three servers or more are named, else 1.',
        example: '3',
      }),
    ),
    max_waiting: Type.Optional(
      integer('Dispatches that may wait on the server for workers. Left out: 1,000,000.', {
        minimum: 1,
        maximum: 100_000_000,
      }),
    ),
    store_tasks: flag('Store tasks there too: another machine with this file is a standby and takes over.', false),
  },
  { description: 'For a NATS bus.', formerly: { tasks: 'store_tasks' } },
);

const peer = Type.Object(
  {
    id: fleetName('Its name in the fleet.'),
    url: httpAddress('Its address.'),
    kind: Type.Enum(['receiver', 'a2a'], {
      default: 'receiver',
      description: 'receiver: a receiver of versions 0.5 to 0.8. a2a: an A2A 1.0 agent.',
      formerly: { upstream: 'receiver' },
    }),
    ...tokenFields('its bearer token'),
    repo: Type.Optional(path('Its repository, where this machine can read it: results are checked there.', '../app')),
  },
  {
    description: 'A worker that is reached over HTTP and knows nothing of this configuration.',
    notBoth: TOKEN_PLACES,
  },
);

const hook = Type.Object(
  {
    when: text('A CEL expression over task, worker and now.', 'a CEL expression'),
    // biome-ignore lint/suspicious/noThenProperty: the key of the file
    then: Type.Enum(['reject', 'prefer', 'refuse'], {
      description: 'reject: not this worker. prefer: adds score. refuse: the task is not accepted at all.',
    }),
    score: Type.Optional(integer('For prefer.', { minimum: -1000, maximum: 1000 })),
    reason: Type.Optional(text('Shown where the rule decides.', 'a text')),
  },
  { description: 'A rule of routing.' },
);

const routing = Type.Object(
  {
    ttl_s: integer('How long an announce is valid.', { default: 900, minimum: 1, maximum: 30 * DAY_S }),
    default_max_concurrent: integer('For workers that announce no limit.', { default: 3, minimum: 1, maximum: 1024 }),
    min_lead_s: integer('Tasks with less time left are not dispatched.', { default: 30, minimum: 0, maximum: DAY_S }),
    unverified: Type.Enum(['last_resort', 'never', 'allow'], {
      default: 'last_resort',
      description: 'Whether peers that never announced themselves get tasks with requirements.',
    }),
    tiers: mapOf(
      Type.Integer({ minimum: 1, maximum: 100, description: 'A rank.' }),
      { pattern: '^[A-Za-z0-9][\\w. -]{0,63}$', expected: 'the name of a tier' },
      {
        description: 'Ranks of other tiers, beside haiku 1, sonnet 2, opus 3.',
        example: '{ gemini-flash: 1 }',
      },
    ),
    hooks: Type.Array(hook, { default: [], description: 'Rules in the Common Expression Language.' }),
  },
  { description: 'Where tasks go.' },
);

const blockedPolicy = Type.Object(
  {
    max_reroutes: integer('Times it goes to another worker.', { default: 3, minimum: 0, maximum: 100 }),
    max_retries: integer('Times it waits and is tried again.', { default: 3, minimum: 0, maximum: 100 }),
    backoff_s: Type.Array(integer('Seconds.', { minimum: 1, maximum: DAY_S }), {
      default: [30, 120, 480],
      description: 'Delays before each retry.',
    }),
    table: mapOf(
      Type.Array(Type.Enum(['reroute', 'retry', 'wait', 'alert', 'fail'], { description: 'A step.' }), {
        description: 'Steps; the first possible one is taken.',
      }),
      { pattern: '^[a-z][a-z0-9_]{0,63}$', expected: 'a reason code' },
      {
        description: 'Steps by reason code, in place of the built-in ones.',
        example: '{ dirty_repo: [retry, alert] }',
      },
    ),
  },
  { description: 'What happens to a task that a worker refused.' },
);

export const fleet = Type.Object(
  {
    name: Type.String({
      default: 'fleet',
      pattern: '^[a-z0-9][a-z0-9-]{0,63}$',
      expected: 'a name of lower-case letters, digits and "-"',
      description: 'The name of the fleet.',
    }),
    bus: Type.Array(
      Type.String({
        pattern: '^(in-process|(nats|tls):\\/\\/\\S+)$',
        expected: 'in-process or a nats:// address',
        description: 'in-process or a nats:// address.',
      }),
      {
        default: ['in-process'],
        description:
          'in-process, or the addresses of NATS servers: then workers on other machines join with the same file.',
        example: 'nats://127.0.0.1:4222',
      },
    ),
    nats,
    listen: Type.Array(Type.String({ format: 'listen_address', description: 'A listen address.' }), {
      default: ['http://127.0.0.1:9219'],
      shown: true,
      description: 'Where workers, clients and receivers of earlier versions reach this orchestrator.',
    }),
    data_dir: Type.Optional(
      path(
        'Tasks and results, stored by one process at a time. Left out: in the Handfast folder of this user.',
        './fleet-data',
      ),
    ),
    workers: Type.Array(worker, { default: [], description: 'Workers of this process.' }),
    peers: Type.Array(peer, { default: [], description: 'Workers elsewhere that do not join by themselves.' }),
    inline_hints: flag('Peers that speak nothing newer get their terms as text in front of the brief.', true),
    lease_ttl_s: integer('A task whose worker is silent for this time is lost.', {
      default: 45,
      minimum: 2,
      maximum: DAY_S,
    }),
    routing,
    blocked_policy: blockedPolicy,
    join_grace_s: integer('How long a starting orchestrator waits for workers before a task counts as unroutable.', {
      default: 5,
      minimum: 0,
      maximum: 3_600,
    }),
    plain_peer_timeout_s: integer('Longest turn of a peer that cannot report progress.', {
      default: 3_600,
      minimum: 1,
      maximum: 30 * DAY_S,
    }),
    max_open_tasks: integer('Tasks that have not ended.', { default: 100_000, minimum: 1, maximum: 10_000_000 }),
    retain_days: integer('Days ended tasks are stored.', { default: 30, minimum: 1, maximum: 3_650 }),
    max_tasks: integer('Tasks stored at most; the oldest ended ones are evicted first.', {
      default: 100_000,
      minimum: 1,
      maximum: 10_000_000,
    }),
    labels: anything('Notes of your own.'),
  },
  {
    description: 'Configuration of a fleet.',
    formerly: { data: 'data_dir', settle_s: 'join_grace_s', plain_turn_s: 'plain_peer_timeout_s' },
  },
);

export type FleetSettings = Settings<Static<typeof fleet>>;
