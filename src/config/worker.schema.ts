/**
 * The settings of a worker, in `fleet.yaml` or in a separate file: executor, MCP servers, receiver, A2A agent, and how
 * it joins over NATS. `fleet.schema.ts` puts it together with the rest; nothing imports this file at run time.
 * @see docs/fleet-executors.md#settings and docs/nats.md#authentication
 */
import { type Static, Type } from '../wire/schema.ts';
import { CODEX_SANDBOXES, EXECUTOR_KINDS } from './executor-settings.ts';
import type { Settings } from './setting.ts';
import {
  choice,
  flag,
  fleetName,
  group,
  httpAddress,
  integer,
  list,
  optional,
  path,
  program,
  TOKEN_PLACES,
  text,
  texts,
  tokenFields,
  trustedProxies,
  useFields,
  variable,
  word,
} from './shared.schema.ts';

const DAY_S = 86_400;
const DAY_MS = 86_400_000;

const mcpServerFields = {
  name: word('The name tasks require it by.'),
  command: optional(program('The program that is started.')),
  args: list({ default: [], description: 'Its arguments.' }, text('An argument.', 'a text')),
  env: texts('Its environment variables.'),
  url: optional(httpAddress('Or: its streamable HTTP address.')),
  headers: texts('Headers sent to it. Secrets: see headers_env.'),
  headers_env: texts('Headers whose values are in environment variables: header → variable.'),
};

const mcpServer = group(
  { description: 'An MCP server of the agent, probed by the worker.', either: ['command', 'url'] },
  {
    ...mcpServerFields,
    env: texts('Its environment variables, beside PATH, HOME, LANG, TERM and the like.'),
    pass_env: list(
      { default: [], description: 'Variables of the worker that it gets too: nothing else is passed on.' },
      variable('A variable.', 'GITHUB_TOKEN'),
    ),
    disabled: flag('Listed, but not used.', false),
  },
);

const acpMcpServer = group(
  { description: 'An MCP server the agent connects to.', either: ['command', 'url'] },
  {
    ...mcpServerFields,
    type: choice({ default: 'http', description: 'The transport of its address.' }, ['http', 'sse']),
  },
);

/** The settings of an executor; `executor-settings.ts` lists the ones that each kind supports. */
export const executor = group(
  { description: 'The executor, which does the work.', short: 'kind', notBoth: TOKEN_PLACES },
  {
    kind: choice('Which adapter drives it.', EXECUTOR_KINDS),
    command: optional(
      program('The program, where it is not the usual one; for command and acp: which one.', '/opt/claude/bin/claude'),
    ),
    args: list(
      {
        default: [],
        description:
          'Arguments beside those the adapter sets itself; for command: with {prompt} where the prompt goes.',
      },
      text('An argument.', 'an argument'),
    ),
    env: texts('Environment variables beside those of this process.'),
    model: optional(text('The model the program uses.', 'a model', 'sonnet')),
    agent: optional(text('The agent of opencode.', 'a name')),
    role: optional(text('Added to the system prompt of claude.', 'a text')),
    mcp_config: optional(
      path('For claude: its file of MCP servers. Left out: .mcp.json of the folder, if it exists.', './mcp.json'),
    ),
    sandbox: optional(
      Type.Unsafe<(typeof CODEX_SANDBOXES)[number] | boolean>({
        enum: [...CODEX_SANDBOXES, true, false],
        description:
          'The rights of its commands. codex: one of the words, workspace-write if left out; agy: true or false.',
      }),
    ),
    conversations_file: optional(
      path(
        'For agy: where it stores the last conversation of each folder. Left out: below its home.',
        './last_conversations.json',
      ),
    ),
    output: optional(
      choice('The output of a command: its reply (text, if left out), or JSON lines.', ['text', 'json_lines']),
    ),
    permissions: optional(
      choice('The answer to permission requests of an ACP agent; ask, if left out: the operator of the fleet.', [
        'ask',
        'allow',
        'reject',
      ]),
    ),
    mode: optional(text('The mode an ACP agent is put into, one of its own.', 'a mode', 'plan')),
    mcp_servers: list({ default: [], description: 'MCP servers an ACP agent connects to.' }, acpMcpServer),
    start_timeout_s: optional(integer('Time an ACP agent has to start. Left out: 60.', [1, 3600])),
    module: optional(path('For function: a module that exports `run(task, context)`.', './worker.ts')),
    url: optional(httpAddress('For a2a: the address of the agent.')),
    ...tokenFields('the bearer token of the a2a agent'),
    timeout_s: optional(integer('Longest turn of the program by its own clock.', [1, DAY_S])),
  },
);

const callback = group(
  {
    description: 'Managed mode: a task is confirmed at once, and its result is sent here when it has ended.',
    notBoth: TOKEN_PLACES,
  },
  {
    url: httpAddress('Address of the orchestrator, without a path.'),
    ...tokenFields('the bearer token it is shown'),
  },
);

const sender = group(
  { description: 'A client that sends tasks.', needsOne: TOKEN_PLACES, notBoth: TOKEN_PLACES },
  {
    name: fleetName('The name the worker gives it.'),
    ...tokenFields('its bearer token'),
    callback: optional(callback),
  },
);

/** Returns the settings for the address of an endpoint that a worker serves itself. */
const endpoint = (portWords: string) => ({
  host: Type.String({
    default: '127.0.0.1',
    expected: 'an IP address',
    pattern: '^[\\d.]+$|^[\\da-fA-F:]+$',
    description: 'The address it binds. Other machines can connect only where tokens are required.',
  }),
  url: optional(httpAddress('Where others reach it, for its card, where that is not the address it binds.')),
  port: integer(portWords, [0, 65_535], 0),
  trusted_proxies: trustedProxies,
});

const receiver = group(
  {
    description: 'Also accepts tasks over plain HTTP, as the receivers of earlier versions do.',
    notBoth: TOKEN_PLACES,
  },
  {
    ...endpoint('Its port; 0: the first free one of the band of its kind.'),
    ...tokenFields('the bearer token senders need'),
    callback: optional(callback),
    senders: list(
      {
        default: [],
        description: 'Senders with a token, and perhaps a callback, of their own.',
      },
      sender,
    ),
    reply_timeout_s: integer('How long a sender without a callback may wait for its result.', [1, DAY_S], 300),
  },
);

const a2a = group(
  { description: 'Is also an A2A 1.0 agent.', notBoth: TOKEN_PLACES },
  {
    ...endpoint('Its port; 0: any free one.'),
    ...tokenFields('the bearer token clients need'),
    partial_state: choice(
      {
        default: 'failed',
        description: 'The A2A state of unfinished work, for clients that do not speak the fleet protocol.',
      },
      ['failed', 'completed', 'input_required'],
    ),
    retain_days: integer('Days ended tasks are stored for its clients.', [1, 3_650], 7),
  },
);

const environment = group(
  {
    description:
      'The tools that its executors may use over MCP while their task runs, in the folder of the task, within these rights and those the task asks for. Left out: nothing.',
  },
  {
    config: optional(
      path(
        'The handfast.yaml whose plugins they use; its addresses, tokens and journal are not used. Left out: the built-in plugins.',
        './handfast.yaml',
      ),
    ),
    ...useFields,
  },
);

const workerFields = {
  id: fleetName('Its name in the fleet.'),
  executor,
  repo: optional(
    path(
      'The folder it works in, as a rule a git repository. Left out: the folder of this file.',
      '../app',
      'the path of a folder',
    ),
  ),
  data_dir: optional(path('Its own data. Left out: in the Handfast folder of this user.', './worker-1')),
  model: optional(text('The model behind it, as it is announced.', 'a model')),
  tier: optional(text('haiku, sonnet, opus, or a tier the fleet ranks.', 'a tier')),
  context_window: optional(integer('Context window of its model, in tokens.', [1, 1_000_000_000])),
  tools: list(
    {
      default: ['terminal', 'file'],
      description: 'Its capabilities, e.g. terminal, file, browser.',
    },
    word('A tool.'),
  ),
  mcp_servers: list({ default: [], description: 'Its MCP servers.' }, mcpServer),
  pools: list({ default: [], description: 'Pools whose tasks it accepts.' }, fleetName('A pool.')),
  max_concurrent: integer('Turns at once.', [1, 1024], 3),
  min_lead_s: integer('Shortest time left for a task to be accepted.', [0, DAY_S], 30),
  overhead_tokens: optional(
    integer('Tokens of an empty first turn, where you know them; nothing is measured then.', [0, 10_000_000]),
  ),
  overhead: optional(
    choice(
      'Whether an empty turn is run once, in a scratch folder, to measure its tokens. Left out: only for claude, codex and opencode.',
      ['measure', 'never'],
    ),
  ),
  worktree: optional(
    choice(
      'always: each task that may write works in a git worktree of its own, so that none waits for the uncommitted changes of another. Left out: the tasks that ask for one.',
      ['asked', 'always'],
    ),
  ),
  count_cache_reads: flag('Tokens read from a cache count against budgets.', false),
  turn_timeout_ms: integer('Timeout of a turn, beside the deadline.', [1_000, 30 * DAY_MS], 3_600_000),
  environment: optional(environment),
  receiver: optional(receiver),
  a2a: optional(a2a),
};

const workerWords = { formerly: { data: 'data_dir' } };

export const worker = group({ description: 'A worker of this process.', ...workerWords }, workerFields);

/**
 * Settings with which a fleet or a worker authenticates to NATS servers and identifies them. Secrets are named by file
 * or variable.
 */
export const natsConnectionFields = {
  credentials_file: optional(path('A .creds file: user and key.', './fleet.creds')),
  nkey_file: optional(path('Or a file with an NKey seed.', './fleet.nk')),
  ...tokenFields('the token of the server'),
  user: optional(text('Or a user, with a password from the next two.', 'a user', 'orchestrator')),
  password_env: optional(variable('The variable with the password.', 'NATS_PASSWORD')),
  password_file: optional(path('Or the file with it, read for every connection.', './nats.password')),
  tls: optional(
    group(
      { description: 'For servers that require TLS: files are PEM.', together: ['cert_file', 'key_file'] },
      {
        ca_file: optional(path('The authority behind the certificates of the servers.', './ca.pem')),
        cert_file: optional(path('The certificate servers are shown, where they ask for one.', './fleet.pem')),
        key_file: optional(path('Its key.', './fleet.key')),
        handshake_first: flag('The servers are configured with handshake_first.', false),
      },
    ),
  ),
};

const natsConnection = group('For a worker that joins over NATS.', natsConnectionFields);

/** The file of one worker. */
export const workerFile = group(
  { description: 'Configuration of a worker.', ...workerWords },
  { ...workerFields, nats: natsConnection },
);

export type ExecutorSettings = Settings<Static<typeof executor>>;
export type McpServerSettings = Settings<Static<typeof mcpServer>>;
/** Paths are absolute. */
export type NatsConnectionSettings = Settings<Static<typeof natsConnection>>;
export type WorkerSettings = Settings<Static<typeof worker>>;
export type WorkerFileSettings = Settings<Static<typeof workerFile>>;
