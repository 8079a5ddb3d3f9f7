/**
 * `fleet.yaml` as one schema: the static type, the reader, the defaults and the JSON Schema in
 * `schema/fleet-config.json` come from here.
 *
 * `npm run generate` writes it as data (`fleet.generated.ts`); nothing imports this file at run time. Rules that depend
 * on several settings, on files or on the environment are in `fleet-config.ts`.
 * @see docs/fleet.md#the-configuration
 */
import { type Static, Type } from '../wire/schema.ts';
import type { Settings } from './setting.ts';
import {
  anything,
  choice,
  flag,
  fleetName,
  group,
  httpAddress,
  integer,
  list,
  mapOf,
  optional,
  path,
  TOKEN_PLACES,
  text,
  tokenFields,
} from './shared.schema.ts';
import { natsConnectionFields, worker, workerFile } from './worker.schema.ts';

export { workerFile };

const DAY_S = 86_400;

const { tls: _tls, ...signIn } = natsConnectionFields;

const natsAccount = group('An account of the NATS servers for workers that are not trusted.', {
  workers: list(
    { default: [], description: 'The workers in it: it can speak for these, and for no others.' },
    fleetName('The id of a worker.'),
  ),
  ...signIn,
});

const nats = group(
  { description: 'For a NATS bus.', formerly: { tasks: 'store_tasks' } },
  {
    ...natsConnectionFields,
    replicas: optional(
      Type.Integer({
        minimum: 1,
        maximum: 5,
        description: 'Copies of every stream and bucket. Left out: 3 where three servers or more are named, else 1.',
        example: '3',
      }),
    ),
    max_waiting: optional(
      integer('Dispatches that may wait on the server for workers. Left out: 1,000,000.', [1, 100_000_000]),
    ),
    accounts: optional(
      list({ description: 'Accounts beside that of the orchestrator, each with the user it has there.' }, natsAccount),
    ),
    store_tasks: flag('Store tasks there too: another machine with this file is a standby and takes over.', false),
  },
);

const peer = group(
  {
    description: 'A worker that is reached over HTTP and knows nothing of this configuration.',
    notBoth: TOKEN_PLACES,
  },
  {
    id: fleetName('Its name in the fleet.'),
    url: httpAddress('Its address.'),
    kind: choice(
      {
        default: 'receiver',
        description: 'receiver: a receiver of versions 0.5 to 0.8. a2a: an A2A 1.0 agent.',
        formerly: { upstream: 'receiver' },
      },
      ['receiver', 'a2a'],
    ),
    ...tokenFields('its bearer token'),
    repo: optional(path('Its repository, where this machine can read it: results are checked there.', '../app')),
  },
);

const hook = group('A rule of routing.', {
  when: text('A CEL expression over task, worker and now.', 'a CEL expression'),
  // biome-ignore lint/suspicious/noThenProperty: the key of the file
  then: choice('reject: not this worker. prefer: adds score. refuse: the task is not accepted at all.', [
    'reject',
    'prefer',
    'refuse',
  ]),
  score: optional(integer('For prefer.', [-1000, 1000])),
  reason: optional(text('Shown where the rule decides.', 'a text')),
});

const routing = group('Where tasks go.', {
  ttl_s: integer('How long an announce is valid.', [1, 30 * DAY_S], 900),
  default_max_concurrent: integer('For workers that announce no limit.', [1, 1024], 3),
  min_lead_s: integer('Tasks with less time left are not dispatched.', [0, DAY_S], 30),
  unverified: choice(
    {
      default: 'last_resort',
      description: 'Whether peers that never announced themselves get tasks with requirements.',
    },
    ['last_resort', 'never', 'allow'],
  ),
  tiers: mapOf(
    Type.Integer({ minimum: 1, maximum: 100, description: 'A rank.' }),
    { pattern: '^[A-Za-z0-9][\\w. -]{0,63}$', expected: 'the name of a tier' },
    {
      description: 'Ranks of other tiers, beside haiku 1, sonnet 2, opus 3.',
      example: '{ gemini-flash: 1 }',
    },
  ),
  learn: flag(
    'Let the outcomes of tasks choose among workers whose scores are within 50 of 1000 points; `fleet route explain` shows what it changed.',
    false,
  ),
  hooks: list({ default: [], description: 'Rules in the Common Expression Language.' }, hook),
});

const blockedPolicy = group('The treatment of a task that a worker refused.', {
  max_reroutes: integer('Times it goes to another worker.', [0, 100], 3),
  max_retries: integer('Times it waits and is tried again.', [0, 100], 3),
  backoff_s: list(
    {
      default: [30, 120, 480],
      description: 'Delays before each retry.',
    },
    integer('Seconds.', [1, DAY_S]),
  ),
  table: mapOf(
    list('Steps; the first possible one is taken.', choice('A step.', ['reroute', 'retry', 'wait', 'alert', 'fail'])),
    { pattern: '^[a-z][a-z0-9_]{0,63}$', expected: 'a reason code' },
    {
      description: 'Steps by reason code, in place of the built-in ones.',
      example: '{ dirty_repo: [retry, alert] }',
    },
  ),
});

export const fleet = group(
  {
    description: 'Configuration of a fleet.',
    formerly: { data: 'data_dir', settle_s: 'join_grace_s', plain_turn_s: 'plain_peer_timeout_s' },
  },
  {
    name: Type.String({
      default: 'fleet',
      pattern: '^[a-z0-9][a-z0-9-]{0,63}$',
      expected: 'a name of lower-case letters, digits and "-"',
      description: 'The name of the fleet.',
    }),
    bus: list(
      {
        default: ['in-process'],
        description:
          'in-process, or the addresses of NATS servers: then workers on other machines join with the same file.',
        example: 'nats://127.0.0.1:4222',
      },
      Type.String({
        pattern: '^(in-process|(nats|tls):\\/\\/\\S+)$',
        expected: 'in-process or a nats:// address',
        description: 'in-process or a nats:// address.',
      }),
    ),
    nats,
    listen: list(
      {
        default: ['http://127.0.0.1:9219'],
        shown: true,
        description: 'Where workers, clients and receivers of earlier versions reach this orchestrator.',
      },
      Type.String({ format: 'listen_address', description: 'A listen address.' }),
    ),
    data_dir: optional(
      path(
        'Tasks and results, stored by one process at a time. Left out: in the Handfast folder of this user.',
        './fleet-data',
      ),
    ),
    workers: list({ default: [], description: 'Workers of this process.' }, worker),
    peers: list({ default: [], description: 'Workers elsewhere that do not join by themselves.' }, peer),
    inline_hints: flag('Peers that speak nothing newer get their terms as text in front of the brief.', true),
    lease_ttl_s: integer('A task whose worker is silent for this time is lost.', [2, DAY_S], 45),
    routing,
    blocked_policy: blockedPolicy,
    join_grace_s: integer(
      'How long a starting orchestrator waits for workers before a task counts as unroutable.',
      [0, 3_600],
      5,
    ),
    plain_peer_timeout_s: integer('Longest turn of a peer that cannot report progress.', [1, 30 * DAY_S], 3_600),
    max_open_tasks: integer('Tasks that have not ended.', [1, 10_000_000], 100_000),
    retain_days: integer('Days ended tasks are stored.', [1, 3_650], 30),
    max_tasks: integer('Tasks stored at most; the oldest ended ones are evicted first.', [1, 10_000_000], 100_000),
    keep_task_sessions: integer(
      'Sessions of ended tasks that stay, in which tasks are watched and steered. 0: a task gets a session only when its worker asks something.',
      [0, 10_000],
      100,
    ),
    labels: anything('Notes of your own.'),
  },
);

export type FleetSettings = Settings<Static<typeof fleet>>;
