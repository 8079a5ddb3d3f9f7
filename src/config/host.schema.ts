/**
 * The sections of `handfast.yaml` that configure the host: addresses, tokens, limits, journal, audit, plugins. Put
 * together with the others in `handfast.schema.ts`.
 */
import { DEFAULT_RETENTION } from '../journal/journal.ts';
import {
  DEFAULT_MAX_MESSAGE_BYTES,
  MESSAGE_BYTES_CEILING,
  PRE_HANDSHAKE_MAX_MESSAGE_BYTES,
} from '../transport/link.ts';
import { Type } from '../wire/schema.ts';
import { anything, flag, integer, path, text, variable } from './shared.schema.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const DAY_MS = 86_400_000;

const toolPattern = Type.String({
  pattern: '^[\\w.*-]{1,128}$',
  expected: 'a tool name, with * for any letters',
  description: 'A tool name; * stands for any letters.',
});

const risk = Type.Enum(['reads', 'writes', 'destructive', 'network', 'exec'], {
  description: 'What a tool can do to the world.',
});

export const http = Type.Object(
  {
    allowed_hosts: Type.Array(
      Type.String({ format: 'host_name', description: 'A host name, with a port if only that port is meant.' }),
      { default: [], description: 'Further values of the Host header.', example: '[box.lan]' },
    ),
    allowed_origins: Type.Array(Type.String({ format: 'origin', description: 'The origin of a web page.' }), {
      default: [],
      description: 'Further values of the Origin header.',
      example: '["https://app.example"]',
    }),
  },
  {
    description: 'Protection of the HTTP addresses against pages in a browser. Loopback names are always allowed.',
  },
);

const maxParallel = (fallback?: number) =>
  integer('Requests of one session that run at once.', { default: fallback, minimum: 1, maximum: 1024 });

const queueLimit = (fallback?: number) =>
  integer('Requests of one session that wait until one may run.', { default: fallback, minimum: 0, maximum: 100_000 });

const token = Type.Object(
  {
    name: Type.String({
      pattern: '^[A-Za-z0-9][\\w.@-]{0,63}$',
      expected: 'a name of 1 to 64 letters, digits, ".", "_", "@" or "-"',
      description: 'The name of the principal in sessions, logs and the audit.',
    }),
    token_file: Type.Optional(
      Type.Array(path('A path; relative ones start at the folder of this file.'), {
        description: 'Files with tokens, one a line; every line is valid, which is how a token is rotated.',
      }),
    ),
    token_env: Type.Optional(
      Type.Array(variable('The name of an environment variable.'), {
        description: 'Environment variables that hold a token.',
      }),
    ),
    token: Type.Optional(
      Type.Array(text('A token.', 'a token'), {
        description:
          'The token itself. Prefer token_file or token_env: more people read this file than should know a secret.',
      }),
    ),
    capabilities: Type.Optional(
      Type.Array(Type.String({ format: 'capability', description: 'A capability of the protocol.' }), {
        description: 'Capabilities it may be granted. Left out: all that are loaded.',
      }),
    ),
    tools: Type.Optional(
      Type.Object(
        {
          allow: Type.Optional(Type.Array(toolPattern, { description: 'Only these tools.' })),
          deny: Type.Optional(Type.Array(toolPattern, { description: 'Never these tools.' })),
          deny_risks: Type.Optional(Type.Array(risk, { description: 'No tool that carries one of these flags.' })),
        },
        {
          description: 'Which tools it may call. Deny wins; with an allow list, only what it names. Left out: all.',
        },
      ),
    ),
    limits: Type.Optional(
      Type.Object(
        { max_parallel: Type.Optional(maxParallel()), queue_limit: Type.Optional(queueLimit()) },
        { description: 'Its own limits in place of those below.' },
      ),
    ),
    admin: flag('May read the journal of every session, not only of its own.', false),
  },
  { description: 'One principal: a name, its tokens and its rights.', needsOne: ['token_file', 'token_env', 'token'] },
);

export const auth = Type.Object(
  {
    required: flag(
      'A connection must bring a token. When no token is listed, one is made and stored where the command line of this user finds it.',
      true,
    ),
    tokens: Type.Array(token, {
      default: [],
      description: 'Principals, each with its tokens and rights.',
      example: [
        'tokens:',
        '  - name: ci',
        '    token_file: ./ci.token      # or token_env: CI_TOKEN',
        '    capabilities: [tools]',
        '    tools: { deny_risks: [exec, destructive] }',
        '    limits: { max_parallel: 2 }',
      ],
    }),
  },
  { description: 'Who may connect and what each may do.', secret: true },
);

export const limits = Type.Object(
  {
    max_message_bytes: integer('Longest message after the handshake, in bytes.', {
      default: DEFAULT_MAX_MESSAGE_BYTES,
      minimum: PRE_HANDSHAKE_MAX_MESSAGE_BYTES,
      maximum: MESSAGE_BYTES_CEILING,
    }),
    max_pending_connections: integer('Connections that may be open without a handshake.', {
      default: 128,
      minimum: 1,
      maximum: 10_000,
    }),
    handshake_timeout_ms: integer('Time for the handshake.', { default: 10_000, minimum: 100, maximum: 600_000 }),
    idle_timeout_ms: integer('A session that receives no message for this time ends. 0: never.', {
      default: 900_000,
      minimum: 0,
      maximum: 30 * DAY_MS,
    }),
    liveness_timeout_ms: integer(
      'A connection on which nothing arrives for this time, although its peer was pinged, ends. 0: never.',
      { default: 15_000, minimum: 0, maximum: 600_000 },
    ),
    resume_window_ms: integer(
      'How long a session waits for its agent after a lost connection. 0: resume is not offered.',
      { default: 60_000, minimum: 0, maximum: 7 * DAY_MS },
    ),
    max_sessions: integer('Sessions at once.', { default: 10_000, minimum: 1, maximum: 1_000_000 }),
    max_parallel: maxParallel(4),
    queue_limit: queueLimit(256),
    max_depth: integer('Deepest nesting of a message.', { default: 64, minimum: 8, maximum: 1000 }),
    send_buffer_bytes: integer('Unsent bytes that may wait for a slow consumer.', {
      default: 4 * MIB,
      minimum: 64 * KIB,
      maximum: 256 * MIB,
    }),
    slow_consumer_ms: integer('A consumer with more than send_buffer_bytes unsent for this time is detached.', {
      default: 30_000,
      minimum: 0,
      maximum: 600_000,
    }),
    write_stall_ms: integer(
      'A consumer with more than 256 KiB unsent that reads nothing for this time is detached. 0: never.',
      { default: 30_000, minimum: 0, maximum: 600_000 },
    ),
    shutdown_timeout_ms: integer('Time for running work when the host stops.', {
      default: 10_000,
      minimum: 0,
      maximum: 600_000,
    }),
  },
  {
    description: 'Limits of connections and sessions.',
    formerly: {
      outbox_bytes: 'send_buffer_bytes',
      max_pending_links: 'max_pending_connections',
      shutdown_ms: 'shutdown_timeout_ms',
    },
  },
);

export const journal = Type.Object(
  {
    kind: Type.Enum(['memory', 'sqlite'], {
      default: 'memory',
      description: 'memory (the default): lost with the process. sqlite: stored on disk.',
      example: 'sqlite',
    }),
    file: Type.Optional(
      path('Where sqlite stores it. Left out: in the Handfast folder of this user.', './handfast.db'),
    ),
    max_entries: integer('Entries stored per session.', {
      default: DEFAULT_RETENTION.maxEntries,
      minimum: 16,
      maximum: 10_000_000,
    }),
    max_bytes: integer('Bytes stored per session.', {
      default: DEFAULT_RETENTION.maxBytes,
      minimum: 64 * KIB,
      maximum: 16 * KIB * MIB,
    }),
    retain_days: integer('Days sqlite stores a session that has ended, after its last entry. 0: for ever.', {
      default: 30,
      minimum: 0,
      maximum: 36_500,
    }),
    max_sessions: integer('Ended sessions that sqlite stores; the oldest are evicted first.', {
      default: 100_000,
      minimum: 1,
      maximum: 10_000_000,
    }),
  },
  { description: 'The log of every session, which resume and history read.' },
);

export const audit = Type.Object(
  {
    enabled: flag('Write the audit.', true),
    file: Type.Optional(
      Type.String({
        format: 'path',
        pattern: '\\.jsonl$',
        expected: 'a path that ends in .jsonl',
        description: 'The file. Left out: in the Handfast folder of this user.',
        example: './audit.jsonl',
      }),
    ),
    max_bytes: integer('A file of this size is renamed and a new one started.', {
      default: 16 * MIB,
      minimum: 64 * KIB,
      maximum: 16 * KIB * MIB,
    }),
    max_files: integer('Files stored, the newest included.', { default: 8, minimum: 2, maximum: 1000 }),
    fsync: flag('Force every batch of lines to disk before the next.', false),
  },
  { description: 'One line per handled request: who, what, sizes, duration, outcome. Never contents.' },
);

/** Options of the `tools` plugin. What is left out here is left to the plugin, which has its own defaults. */
export const toolsOptions = Type.Object(
  {
    shell: Type.Optional(
      Type.Boolean({
        description:
          'False leaves out the tool that runs programs, with the rights of the host and outside any sandbox. Default true.',
      }),
    ),
    allow_private_addresses: Type.Optional(
      Type.Boolean({ description: 'Let the web tool reach this machine and private networks.' }),
    ),
    allow: Type.Optional(Type.Array(toolPattern, { description: 'Only these tools, for every principal.' })),
    deny: Type.Optional(Type.Array(toolPattern, { description: 'Never these tools, for any principal.' })),
    deny_risks: Type.Optional(
      Type.Array(risk, { description: 'For no principal a tool that carries one of these flags.' }),
    ),
    max_seconds: Type.Optional(
      integer('Timeout of a call whose caller set none, in seconds.', { minimum: 1, maximum: 86_400 }),
    ),
  },
  { description: 'The built-in file, search, web and shell tools.' },
);

const builtinPlugins = { tools: toolsOptions };

const plugin = Type.Object(
  {
    use: Type.String({
      expected: `a built-in plugin (${Object.keys(builtinPlugins).join(', ')}) or a path that starts with ./, ../ or /`,
      description: 'The name of a built-in plugin, or the path of a module that exports one.',
    }),
    priority: integer('Of several plugins for one capability, the highest is asked first.', {
      default: 0,
      minimum: -1000,
      maximum: 1000,
    }),
    exclusive: flag('This plugin alone serves its capability.', false),
    options: anything('Settings of the plugin itself.'),
  },
  { description: 'One plugin.', short: 'use', variants: { by: 'use', member: 'options', of: builtinPlugins } },
);

export const plugins = Type.Array(plugin, {
  default: ['tools'],
  shown: true,
  description: 'What this host can do: built-in plugins by name, own ones by path.',
  example: [
    'plugins:',
    '  - use: tools',
    '    options: { shell: false, allow_private_addresses: false }',
    '  - use: ./my-plugin.ts',
    '    priority: 10',
    '    options: { greeting: hello }',
  ],
});
