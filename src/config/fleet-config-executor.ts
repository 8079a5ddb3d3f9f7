/**
 * What a worker's executor may be told in the configuration, and which kind understands which setting. A setting that the
 * kind would not look at is a problem, so that nobody trusts in one that does nothing.
 * @see docs/fleet-executors.md
 */
import {
  choice,
  type Field,
  flag,
  group,
  integer,
  type JsonSchema,
  listOf,
  type Settings,
  text,
} from './config-fields.ts';
import {
  httpAddress,
  oneSecret,
  type Problems,
  path,
  shortFor,
  texts,
  tokenFields,
  word,
} from './fleet-config-fields.ts';

const DAY_S = 86_400;

export const EXECUTOR_KINDS = [
  'claude',
  'codex',
  'opencode',
  'agy',
  'command',
  'acp',
  'a2a',
  'function',
  'rehearsal',
] as const;
type ExecutorKind = (typeof EXECUTOR_KINDS)[number];

const CODEX_SANDBOXES = ['read-only', 'workspace-write', 'danger-full-access'] as const;
type Sandbox = (typeof CODEX_SANDBOXES)[number] | boolean;

const codexSandbox = choice(
  'What its commands may do. codex: one of the words, workspace-write if left out; agy: true or false.',
  CODEX_SANDBOXES,
  {},
);

/** A word for one kind of executor, `true` or `false` for another. */
const sandbox: Field<Sandbox | undefined> = {
  ...codexSandbox,
  expected: `${CODEX_SANDBOXES.join(', ')}, true or false`,
  schema: (): JsonSchema => ({ enum: [...CODEX_SANDBOXES, true, false], description: codexSandbox.about }),
  read(node, at, reading) {
    if (node?.kind !== 'scalar' || typeof node.value !== 'boolean') return codexSandbox.read(node, at, reading);
    reading.positions.set(at, node);
    return node.value;
  },
};

const mcpServerFields = {
  name: word('As tasks require it.'),
  command: text('The program that is started.', { expected: 'a program' }),
  args: listOf('Its arguments.', text('An argument.', { required: true }), { default: [] }),
  env: texts('Its environment variables.'),
  url: httpAddress('Or: its streamable HTTP address.'),
  headers: texts('Headers sent to it. Secrets: see headers_env.'),
  headers_env: texts('Headers whose values are in environment variables: header → variable.'),
};

/** An MCP server a worker looks at. */
export const mcpServer = group('An MCP server of the agent, probed by the worker.', {
  ...mcpServerFields,
  disabled: flag('There, but not to be used.', { default: false }),
});

const acpMcpServer = group('An MCP server the agent is told to connect to.', {
  ...mcpServerFields,
  type: choice('How its address is spoken to.', ['http', 'sse'], { default: 'http' }),
});

/** What does the work. */
export const executor = shortFor(
  'kind',
  group('What does the work.', {
    kind: choice('Which adapter drives it.', EXECUTOR_KINDS, { required: true }),
    command: text('The program, where it is not the usual one; for command and acp: which one.', {
      expected: 'a program',
      example: ['command: /opt/claude/bin/claude'],
    }),
    args: listOf(
      'Arguments beside those the adapter sets itself; for command: with {prompt} where the prompt goes.',
      text('An argument.', { required: true, expected: 'an argument' }),
      { default: [] },
    ),
    env: texts('Environment variables beside those of this process.'),
    model: text('The model the program is told to use.', { expected: 'a model', example: ['model: sonnet'] }),
    agent: text('The agent of opencode.', { expected: 'a name' }),
    role: text('Added to the system prompt of claude.', { expected: 'a text' }),
    mcp_config: path(
      'For claude: its file of MCP servers. Left out: .mcp.json of the folder, if it is there.',
      'mcp_config: ./mcp.json',
    ),
    sandbox,
    conversations_file: path(
      'For agy: where it keeps the last conversation of each folder. Left out: below its home.',
      'conversations_file: ./last_conversations.json',
    ),
    output: choice('What a command prints: its reply (text, if left out), or JSON lines.', ['text', 'json_lines'], {}),
    permissions: choice(
      'What an ACP agent is answered when it asks; ask, if left out: the fleet’s operator.',
      ['ask', 'allow', 'reject'],
      {},
    ),
    mode: text('The mode an ACP agent is put into, one of its own.', { expected: 'a mode', example: ['mode: plan'] }),
    mcp_servers: listOf('MCP servers an ACP agent is told to connect to.', acpMcpServer, { default: [] }),
    start_timeout_s: integer('Time an ACP agent has to start. Left out: 60.', { min: 1, max: 3600 }),
    module: path('For function: a module that exports `run(task, context)`.', 'module: ./worker.ts'),
    url: httpAddress('For a2a: the address of the agent.'),
    ...tokenFields('the bearer token of the a2a agent'),
    timeout_s: integer('Longest turn of the program by its own clock.', { min: 1, max: DAY_S }),
  }),
);

export type ExecutorSettings = NonNullable<typeof executor extends Field<infer T> ? T : never>;
export type McpServerSettings = Settings<typeof mcpServerFields>;

const PROGRAM = ['command', 'args', 'env', 'timeout_s'] as const;

/** The settings each kind looks at, beside `kind`. */
const KNOWN: Readonly<Record<ExecutorKind, readonly string[]>> = {
  claude: [...PROGRAM, 'model', 'role', 'mcp_config'],
  codex: [...PROGRAM, 'model', 'sandbox'],
  opencode: [...PROGRAM, 'model', 'agent'],
  agy: [...PROGRAM, 'sandbox', 'conversations_file'],
  command: [...PROGRAM, 'output'],
  acp: ['command', 'args', 'env', 'model', 'mode', 'permissions', 'mcp_servers', 'start_timeout_s'],
  a2a: ['url', 'token_env', 'token_file'],
  function: ['module'],
  rehearsal: [],
};

/** What a kind cannot be without. */
const NEEDED: Readonly<Partial<Record<ExecutorKind, string>>> = {
  command: 'command',
  acp: 'command',
  a2a: 'url',
  function: 'module',
};

/** Reports what the kind of an executor lacks, and what it would not look at. */
export function checkExecutor(settings: ExecutorSettings, at: string, problem: Problems): void {
  const { kind, sandbox: wanted } = settings;
  const given = new Set(Object.entries(settings).flatMap(([key, value]) => (isGiven(value) ? [snake(key)] : [])));
  given.delete('kind');
  const needed = NEEDED[kind];
  if (needed !== undefined && !given.has(needed)) {
    problem(at, `expected ${needed} for an executor of kind ${kind}, got nothing`);
  }
  const known = KNOWN[kind];
  for (const key of given) {
    if (known.includes(key)) continue;
    const others = known.length === 0 ? 'no other setting' : known.join(', ');
    problem(`${at}.${key}`, `expected ${others} for an executor of kind ${kind}, got ${key}`);
  }
  const right = kind === 'codex' ? 'string' : 'boolean';
  if (wanted !== undefined && known.includes('sandbox') && typeof wanted !== right) {
    const expected = kind === 'codex' ? CODEX_SANDBOXES.join(', ') : 'true or false';
    problem(`${at}.sandbox`, `expected ${expected} for an executor of kind ${kind}, got ${wanted}`);
  }
  oneSecret(settings, at, problem);
  checkMcpServers(settings.mcpServers, `${at}.mcp_servers`, problem);
}

/** Reports MCP servers that are neither a program nor an address, or both. */
export function checkMcpServers(
  servers: readonly (Partial<McpServerSettings> | undefined)[] | undefined,
  at: string,
  problem: Problems,
): void {
  for (const [index, server] of (servers ?? []).entries()) {
    if (server === undefined || (server.command === undefined) !== (server.url === undefined)) continue;
    problem(`${at}[${index}]`, 'expected command or url, and not both');
  }
}

/** Defaults are as if nothing was said. */
function isGiven(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return value instanceof Map ? value.size > 0 : value !== undefined;
}

const snake = (key: string): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
