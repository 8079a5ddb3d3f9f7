/**
 * What a worker is, in `fleet.yaml` or in a file of its own: executor, MCP servers, receiver, A2A agent, and how it joins
 * over NATS. `fleet.schema.ts` puts it together with the rest; nothing imports this file at run time.
 * @see docs/fleet-executors.md#settings and docs/nats.md#who-may-connect
 */
import { type Static, Type } from '../wire/schema.ts';
import { CODEX_SANDBOXES, EXECUTOR_KINDS } from './executor-settings.ts';
import type { Settings } from './setting.ts';
import {
  flag,
  fleetName,
  httpAddress,
  integer,
  path,
  TOKEN_PLACES,
  text,
  texts,
  tokenFields,
  variable,
  word,
} from './shared.schema.ts';

const DAY_S = 86_400;
const DAY_MS = 86_400_000;

const mcpServerFields = {
  name: word('The name tasks require it by.'),
  command: Type.Optional(text('The program that is started.', 'a program')),
  args: Type.Array(text('An argument.', 'a text'), { default: [], description: 'Its arguments.' }),
  env: texts('Its environment variables.'),
  url: Type.Optional(httpAddress('Or: its streamable HTTP address.')),
  headers: texts('Headers sent to it. Secrets: see headers_env.'),
  headers_env: texts('Headers whose values are in environment variables: header → variable.'),
};

const mcpServer = Type.Object(
  { ...mcpServerFields, disabled: flag('Listed, but not used.', false) },
  { description: 'An MCP server of the agent, probed by the worker.', either: ['command', 'url'] },
);

const acpMcpServer = Type.Object(
  {
    ...mcpServerFields,
    type: Type.Enum(['http', 'sse'], { default: 'http', description: 'The transport of its address.' }),
  },
  { description: 'An MCP server the agent connects to.', either: ['command', 'url'] },
);

/** Which kind of executor understands which setting is in `executor-settings.ts`. */
const executor = Type.Object(
  {
    kind: Type.Enum(EXECUTOR_KINDS, { description: 'Which adapter drives it.' }),
    command: Type.Optional(
      text(
        'The program, where it is not the usual one; for command and acp: which one.',
        'a program',
        '/opt/claude/bin/claude',
      ),
    ),
    args: Type.Array(text('An argument.', 'an argument'), {
      default: [],
      description: 'Arguments beside those the adapter sets itself; for command: with {prompt} where the prompt goes.',
    }),
    env: texts('Environment variables beside those of this process.'),
    model: Type.Optional(text('The model the program uses.', 'a model', 'sonnet')),
    agent: Type.Optional(text('The agent of opencode.', 'a name')),
    role: Type.Optional(text('Added to the system prompt of claude.', 'a text')),
    mcp_config: Type.Optional(
      path('For claude: its file of MCP servers. Left out: .mcp.json of the folder, if it exists.', './mcp.json'),
    ),
    sandbox: Type.Optional(
      Type.Unsafe<(typeof CODEX_SANDBOXES)[number] | boolean>({
        enum: [...CODEX_SANDBOXES, true, false],
        description:
          'What its commands may do. codex: one of the words, workspace-write if left out; agy: true or false.',
      }),
    ),
    conversations_file: Type.Optional(
      path(
        'For agy: where it stores the last conversation of each folder. Left out: below its home.',
        './last_conversations.json',
      ),
    ),
    output: Type.Optional(
      Type.Enum(['text', 'json_lines'], {
        description: 'What a command prints: its reply (text, if left out), or JSON lines.',
      }),
    ),
    permissions: Type.Optional(
      Type.Enum(['ask', 'allow', 'reject'], {
        description: 'The answer to permission requests of an ACP agent; ask, if left out: the operator of the fleet.',
      }),
    ),
    mode: Type.Optional(text('The mode an ACP agent is put into, one of its own.', 'a mode', 'plan')),
    mcp_servers: Type.Array(acpMcpServer, { default: [], description: 'MCP servers an ACP agent connects to.' }),
    start_timeout_s: Type.Optional(
      integer('Time an ACP agent has to start. Left out: 60.', { minimum: 1, maximum: 3600 }),
    ),
    module: Type.Optional(path('For function: a module that exports `run(task, context)`.', './worker.ts')),
    url: Type.Optional(httpAddress('For a2a: the address of the agent.')),
    ...tokenFields('the bearer token of the a2a agent'),
    timeout_s: Type.Optional(integer('Longest turn of the program by its own clock.', { minimum: 1, maximum: DAY_S })),
  },
  { description: 'What does the work.', short: 'kind', notBoth: TOKEN_PLACES },
);

const callback = Type.Object(
  {
    url: httpAddress('Address of the orchestrator, without a path.'),
    ...tokenFields('the bearer token it is shown'),
  },
  {
    description: 'Managed mode: a task is confirmed at once, and its result is sent here when it has ended.',
    notBoth: TOKEN_PLACES,
  },
);

const sender = Type.Object(
  {
    name: fleetName('The name the worker gives it.'),
    ...tokenFields('its bearer token'),
    callback: Type.Optional(callback),
  },
  { description: 'A client that sends tasks.', needsOne: TOKEN_PLACES, notBoth: TOKEN_PLACES },
);

/** The address of an endpoint that a worker serves itself. */
const endpoint = (portWords: string) => ({
  host: Type.String({
    default: '127.0.0.1',
    expected: 'an IP address',
    pattern: '^[\\d.]+$|^[\\da-fA-F:]+$',
    description: 'The address it binds. Other machines can connect only where tokens are required.',
  }),
  url: Type.Optional(httpAddress('Where others reach it, for its card, where that is not the address it binds.')),
  port: integer(portWords, { default: 0, minimum: 0, maximum: 65_535 }),
});

const receiver = Type.Object(
  {
    ...endpoint('Its port; 0: the first free one of the band of its kind.'),
    ...tokenFields('the bearer token senders need'),
    callback: Type.Optional(callback),
    senders: Type.Array(sender, {
      default: [],
      description: 'Senders with a token, and perhaps a callback, of their own.',
    }),
    reply_timeout_s: integer('How long a sender without a callback may wait for its result.', {
      default: 300,
      minimum: 1,
      maximum: DAY_S,
    }),
  },
  {
    description: 'Also accepts tasks over plain HTTP, as the receivers of earlier versions do.',
    notBoth: TOKEN_PLACES,
  },
);

const a2a = Type.Object(
  {
    ...endpoint('Its port; 0: any free one.'),
    ...tokenFields('the bearer token clients need'),
    partial_state: Type.Enum(['failed', 'completed', 'input_required'], {
      default: 'failed',
      description: 'The A2A state of unfinished work, for clients that do not speak the fleet protocol.',
    }),
    retain_days: integer('Days ended tasks are stored for its clients.', { default: 7, minimum: 1, maximum: 3_650 }),
  },
  { description: 'Is also an A2A 1.0 agent.', notBoth: TOKEN_PLACES },
);

const workerFields = {
  id: fleetName('Its name in the fleet.'),
  executor,
  repo: Type.Optional(
    path(
      'The folder it works in, as a rule a git repository. Left out: the folder of this file.',
      '../app',
      'the path of a folder',
    ),
  ),
  data_dir: Type.Optional(path('Its own data. Left out: in the Handfast folder of this user.', './worker-1')),
  model: Type.Optional(text('The model behind it, as it is announced.', 'a model')),
  tier: Type.Optional(text('haiku, sonnet, opus, or a tier the fleet ranks.', 'a tier')),
  context_window: Type.Optional(
    integer('Context window of its model, in tokens.', { minimum: 1, maximum: 1_000_000_000 }),
  ),
  tools: Type.Array(word('A tool.'), {
    default: ['terminal', 'file'],
    description: 'What it can do, e.g. terminal, file, browser.',
  }),
  mcp_servers: Type.Array(mcpServer, { default: [], description: 'Its MCP servers.' }),
  pools: Type.Array(fleetName('A pool.'), { default: [], description: 'Pools whose tasks it accepts.' }),
  max_concurrent: integer('Turns at once.', { default: 3, minimum: 1, maximum: 1024 }),
  min_lead_s: integer('Shortest time left for a task to be accepted.', { default: 30, minimum: 0, maximum: DAY_S }),
  overhead_tokens: Type.Optional(
    integer('Tokens of an empty first turn. Left out: measured where the executor can.', {
      minimum: 0,
      maximum: 10_000_000,
    }),
  ),
  count_cache_reads: flag('Tokens read from a cache count against budgets.', false),
  turn_timeout_ms: integer('Longest turn, whatever the deadline says.', {
    default: 3_600_000,
    minimum: 1_000,
    maximum: 30 * DAY_MS,
  }),
  receiver: Type.Optional(receiver),
  a2a: Type.Optional(a2a),
};

const workerWords = { formerly: { data: 'data_dir' } };

export const worker = Type.Object(workerFields, { description: 'A worker of this process.', ...workerWords });

/** How a fleet or a worker authenticates to NATS servers, and how it knows them. Secrets are named by file or variable. */
export const natsConnectionFields = {
  credentials_file: Type.Optional(path('A .creds file: user and key.', './fleet.creds')),
  nkey_file: Type.Optional(path('Or a file with an NKey seed.', './fleet.nk')),
  ...tokenFields('the token of the server'),
  user: Type.Optional(text('Or a user, with a password from the next two.', 'a user', 'orchestrator')),
  password_env: Type.Optional(variable('The variable with the password.', 'NATS_PASSWORD')),
  password_file: Type.Optional(path('Or the file with it, read for every connection.', './nats.password')),
  tls: Type.Optional(
    Type.Object(
      {
        ca_file: Type.Optional(path('The authority behind the certificates of the servers.', './ca.pem')),
        cert_file: Type.Optional(path('The certificate servers are shown, where they ask for one.', './fleet.pem')),
        key_file: Type.Optional(path('Its key.', './fleet.key')),
        handshake_first: flag('The servers are configured with handshake_first.', false),
      },
      { description: 'For servers that require TLS: files are PEM.', together: ['cert_file', 'key_file'] },
    ),
  ),
};

const natsConnection = Type.Object(natsConnectionFields, { description: 'For a worker that joins over NATS.' });

/** The file of one worker. */
export const workerFile = Type.Object(
  { ...workerFields, nats: natsConnection },
  { description: 'Configuration of a worker.', ...workerWords },
);

export type ExecutorSettings = Settings<Static<typeof executor>>;
export type McpServerSettings = Settings<Static<typeof mcpServer>>;
/** Paths are absolute. */
export type NatsConnectionSettings = Settings<Static<typeof natsConnection>>;
export type WorkerSettings = Settings<Static<typeof worker>>;
export type WorkerFileSettings = Settings<Static<typeof workerFile>>;
