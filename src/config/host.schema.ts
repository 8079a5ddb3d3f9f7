/**
 * The sections of `handfast.yaml` that configure the host: addresses, tokens, limits, journal, audit, plugins. Put
 * together with the others in `handfast.schema.ts`.
 */
import { DEFAULT_RETENTION } from '../journal/journal.ts';
import { ROLES } from '../session/roles.ts';
import { DEFAULT_SESSION_SHARE } from '../session/shares.ts';
import {
  DEFAULT_MAX_MESSAGE_BYTES,
  MESSAGE_BYTES_CEILING,
  PRE_HANDSHAKE_MAX_MESSAGE_BYTES,
} from '../transport/link.ts';
import { MAX_VALUES } from '../wire/depth.ts';
import { type TSchema, Type } from '../wire/schema.ts';
import {
  anything,
  choice,
  flag,
  group,
  integer,
  KIB,
  list,
  MIB,
  mapOf,
  optional,
  path,
  text,
  trustedProxies,
  useFields,
  variable,
  word,
} from './shared.schema.ts';

const DAY_MS = 86_400_000;

export const http = group(
  'Rules for the HTTP addresses: pages in a browser, and clients behind a proxy. Loopback names are always allowed.',
  {
    allowed_hosts: list(
      { default: [], description: 'Further values of the Host header.', example: '[box.lan]' },
      Type.String({ format: 'host_name', description: 'A host name, with a port if only that port is meant.' }),
    ),
    allowed_origins: list(
      {
        default: [],
        description: 'Further values of the Origin header.',
        example: '["https://app.example"]',
      },
      Type.String({ format: 'origin', description: 'The origin of a web page.' }),
    ),
    trusted_proxies: trustedProxies,
  },
);

const maxParallel = (fallback?: number) => integer('Requests of one session that run at once.', [1, 1024], fallback);

const storedBytes = (fallback?: number) =>
  integer(
    'Bytes stored for one principal: events of its sessions, and what plugins store for it; past that its sessions accept no prompts and plugins store no more.',
    [64 * KIB, 16 * KIB * KIB * MIB],
    fallback,
  );

const queueLimit = (fallback?: number) =>
  integer('Requests of one session that wait until one may run.', [0, 100_000], fallback);

const maxWaiting = (fallback?: number) =>
  integer(
    'Open requests of one session that may wait for a later message of its agent: awaits, claims, chains. While they wait they take no place of max_parallel.',
    [1, 100_000],
    fallback,
  );

const maxConnections = (fallback?: number) =>
  integer(
    'Connections of one principal at once, over all addresses. Administrators have no such limit.',
    [1, 1_000_000],
    fallback,
  );

const maxInFlight = (fallback?: number) =>
  integer(
    'Requests of one principal without a reply, over all its connections. Administrators have no such limit.',
    [1, 1_000_000],
    fallback,
  );

const requestsPerSecond = (fallback?: number) =>
  integer(
    'Requests of one principal a second; further ones are refused. Administrators have no such limit.',
    [1, 10_000_000],
    fallback,
  );

const bytesPerSecond = (fallback?: number) =>
  integer(
    'Bytes received from one principal a second; past that its connections are read later. Administrators have no such limit.',
    [64 * KIB, 1024 * KIB * MIB],
    fallback,
  );

const receiveBufferBytes = (fallback?: number) =>
  integer(
    'Bytes held of incomplete messages of one principal; past that a connection on which they grow is closed. Administrators have no such limit.',
    [MIB, 16 * KIB * KIB * MIB],
    fallback,
  );

const namePattern = (what: string) =>
  Type.String({ pattern: '^\\S{1,512}$', expected: what, description: `${what}; * stands for any letters.` });

const reach = (what: string) => optional(choice(what, ['own', 'all']));

/** Grants of a role or a token. Without any of these a named token may perform the handshake and ping. */
const grantFields = {
  ...useFields,
  sessions: optional(
    group('Sessions with agents: its own, or those of all. A right that is left out is refused.', {
      read: reach('The sessions it sees.'),
      drive: reach('The sessions it creates, steers, ends and deletes.'),
      approve: reach('The approvals it answers.'),
    }),
  ),
  backends: optional(list('Backends its sessions may run on.', namePattern('the name of a backend'))),
  providers: optional(
    list('Model providers its sessions may use. Left out: all.', namePattern('the name of a provider')),
  ),
  mcp_servers: optional(
    list(
      'MCP servers its sessions may bring along, by the program or address they name.',
      namePattern('a program or an address'),
    ),
  ),
  folders: optional(
    list(
      'Folders beside the workspace that its sessions may work in.',
      path('A path; relative ones start at the folder of this file.'),
    ),
  ),
  env: optional(
    list(
      'Environment variables that its requests may set for programs, beside those that are harmless. A variable that makes programs run code needs its exact name.',
      Type.String({
        pattern: '^[A-Za-z_*][\\w*]{0,127}$',
        expected: 'the name of an environment variable, with * for any letters',
        description: 'A name; * stands for any letters.',
      }),
    ),
  ),
  settings: optional(
    Type.Boolean({ description: 'Changes provider keys, addresses, sign-ins and defaults of the server.' }),
  ),
  fleet: optional(
    group('Its rights in the fleet. A right that is left out is refused.', {
      worker: optional(list('Names it may join as.', namePattern('the name of a worker'))),
      pools: optional(list('Pools its workers may be in. Left out: any.', namePattern('the name of a pool'))),
      submit: optional(Type.Boolean({ description: 'Hands tasks in, and reads and changes its own.' })),
      operate: optional(Type.Boolean({ description: 'Sees and changes every task and worker.' })),
    }),
  ),
  observe: optional(
    Type.Boolean({ description: 'Reads status, metrics, the audit and the journals of other principals.' }),
  ),
  limits: optional(
    group('Its own limits in place of those below.', {
      max_parallel: optional(maxParallel()),
      queue_limit: optional(queueLimit()),
      max_waiting: optional(maxWaiting()),
      max_sessions: optional(integer('Its sessions at once, on each edge.', [1, 1_000_000])),
      stored_bytes: optional(storedBytes()),
      max_connections: optional(maxConnections()),
      max_in_flight: optional(maxInFlight()),
      requests_per_second: optional(requestsPerSecond()),
      bytes_per_second: optional(bytesPerSecond()),
      receive_buffer_bytes: optional(receiveBufferBytes()),
    }),
  ),
  admin: optional(
    Type.Boolean({ description: 'All rights, except capabilities and tools that its own lists leave out.' }),
  ),
};

const token = group(
  { description: 'One principal: a name, its tokens and its rights.', needsOne: ['token_file', 'token_env', 'token'] },
  {
    name: Type.String({
      pattern: '^[A-Za-z0-9][\\w.@-]{0,63}$',
      expected: 'a name of 1 to 64 letters, digits, ".", "_", "@" or "-"',
      description: 'The name of the principal in sessions, logs and the audit.',
    }),
    token_file: optional(
      list(
        'Files with tokens, one a line; every line is valid, which is how a token is rotated.',
        path('A path; relative ones start at the folder of this file.'),
      ),
    ),
    token_env: optional(
      list('Environment variables that hold a token.', variable('The name of an environment variable.')),
    ),
    token: optional(
      list(
        'The token itself. Prefer token_file or token_env: more people read this file than should know a secret.',
        text('A token.', 'a token'),
      ),
    ),
    roles: optional(
      list(`Roles whose grants it has: ${Object.keys(ROLES).join(', ')}, or one of auth.roles.`, word('A role.')),
    ),
    ...grantFields,
  },
);

export const auth = group(
  { description: 'The principals that may connect, and the rights of each.', secret: true },
  {
    required: flag(
      'A connection must bring a token. When no token is listed, one is made and stored where the command line of this user finds it.',
      true,
    ),
    tokens: list(
      {
        default: [],
        description: 'Principals, each with its tokens and rights.',
        example: [
          'tokens:',
          '  - name: ci',
          '    token_file: ./ci.token      # or token_env: CI_TOKEN',
          '    roles: [agent]                # admin, operator, agent, client, viewer, worker',
          '    tools: { risks: [exec] }      # without it no tool that runs programs',
          '    limits: { max_parallel: 2 }',
        ],
      },
      token,
    ),
    roles: optional(
      mapOf(
        group('The grants of the role.', grantFields),
        {
          pattern: '^[a-z][\\w.-]{0,63}$',
          expected: 'the name of a role: lower-case letters, digits, ".", "_" or "-"',
        },
        { description: 'Roles of your own, by name: sets of grants that tokens have by `roles`.' },
      ),
    ),
  },
);

export const limits = group(
  {
    description: 'Limits of connections and sessions.',
    formerly: {
      outbox_bytes: 'send_buffer_bytes',
      max_pending_links: 'max_pending_connections',
      shutdown_ms: 'shutdown_timeout_ms',
    },
  },
  {
    max_message_bytes: integer(
      'Longest message after the handshake, in bytes.',
      [PRE_HANDSHAKE_MAX_MESSAGE_BYTES, MESSAGE_BYTES_CEILING],
      DEFAULT_MAX_MESSAGE_BYTES,
    ),
    max_pending_connections: integer('Connections that may be open without a handshake.', [1, 10_000], 128),
    handshake_timeout_ms: integer('Time for the handshake.', [100, 600_000], 10_000),
    idle_timeout_ms: integer(
      'A session that receives no message for this time ends. 0: never.',
      [0, 30 * DAY_MS],
      900_000,
    ),
    liveness_timeout_ms: integer(
      'A connection on which nothing arrives for this time, although its peer was pinged, ends. 0: never.',
      [0, 600_000],
      15_000,
    ),
    resume_window_ms: integer(
      'How long a session waits for its agent after a lost connection. 0: resume is not offered.',
      [0, 7 * DAY_MS],
      60_000,
    ),
    max_sessions: integer('Sessions at once.', [1, 1_000_000], 10_000),
    max_sessions_per_principal: integer(
      'Sessions of one principal at once, on each edge; at most half of all. Administrators have no such limit.',
      [1, 1_000_000],
      DEFAULT_SESSION_SHARE,
    ),
    max_parallel: maxParallel(4),
    queue_limit: queueLimit(256),
    max_waiting: maxWaiting(256),
    stored_bytes: storedBytes(8 * KIB * MIB),
    total_stored_bytes: integer(
      'The same for all principals together: past that, those with more than an equal part are refused.',
      [64 * KIB, 16 * KIB * KIB * MIB],
      64 * KIB * MIB,
    ),
    memory_bytes: integer(
      'Characters of conversations that sessions of one principal hold in memory. Idle sessions are unloaded first; past that the others accept no prompts.',
      [1 * MIB, 64 * KIB * MIB],
      512 * MIB,
    ),
    total_memory_bytes: integer(
      'The same for all principals together: past that, those with more than an equal part are refused.',
      [1 * MIB, 64 * KIB * MIB],
      2 * KIB * MIB,
    ),
    max_open_tasks_per_principal: integer(
      'Open tasks of one principal in the fleet. Those who operate the fleet have no such limit.',
      [1, 10_000_000],
      10_000,
    ),
    task_bytes: integer(
      'Bytes of tasks, their results and events that the fleet stores for one principal; past that its oldest ended ones are removed, and new ones refused where open ones alone are more.',
      [64 * KIB, 16 * KIB * KIB * MIB],
      KIB * MIB,
    ),
    total_task_bytes: integer(
      'The same for all principals together: past that, for those with more than an equal part.',
      [64 * KIB, 16 * KIB * KIB * MIB],
      8 * KIB * MIB,
    ),
    max_connections: integer(
      'Connections of all principals at once; past that, those with more than an equal part are refused.',
      [1, 1_000_000],
      15_000,
    ),
    max_connections_per_principal: maxConnections(2_000),
    max_in_flight: integer(
      'Requests of all principals without a reply; past that, those with more than an equal part are refused.',
      [1, 10_000_000],
      65_536,
    ),
    max_in_flight_per_principal: maxInFlight(4_096),
    requests_per_second: requestsPerSecond(10_000),
    total_requests_per_second: integer(
      'Requests a second of all principals that have such a limit. Half of it is divided equally among those connected.',
      [1, 100_000_000],
      50_000,
    ),
    bytes_per_second: bytesPerSecond(64 * MIB),
    total_bytes_per_second: integer(
      'Bytes received a second from all principals that have such a limit, divided in the same way.',
      [64 * KIB, 16 * KIB * KIB * MIB],
      256 * MIB,
    ),
    receive_buffer_bytes: receiveBufferBytes(256 * MIB),
    total_receive_buffer_bytes: integer(
      'The same for all principals that have such a limit: past that, for those with more than an equal part.',
      [MIB, 16 * KIB * KIB * MIB],
      KIB * MIB,
    ),
    max_depth: integer('Deepest nesting of a message.', [8, 1000], 64),
    max_values: integer(
      'Values of a message, also of session RPC: elements, objects, arrays, and of each member its name and its value. Each may hold the event loop for a fraction of a microsecond.',
      [1_024, 1_000_000],
      MAX_VALUES,
    ),
    send_buffer_bytes: integer('Unsent bytes that may wait for a slow consumer.', [64 * KIB, 256 * MIB], 4 * MIB),
    slow_consumer_ms: integer(
      'A consumer with more than send_buffer_bytes unsent for this time is detached.',
      [0, 600_000],
      30_000,
    ),
    write_stall_ms: integer(
      'A consumer with more than 256 KiB unsent that reads nothing for this time is detached. 0: never.',
      [0, 600_000],
      30_000,
    ),
    shutdown_timeout_ms: integer(
      'Time for running work when the host stops; 2 s at most while a store cannot store.',
      [0, 600_000],
      10_000,
    ),
    max_threads: integer('Threads that calls run in at once, such as searches, of all principals.', [1, 256], 4),
    max_threads_per_principal: integer(
      'Threads that the calls of one principal run in at once; 16 more calls wait, further ones are refused.',
      [1, 256],
      2,
    ),
    max_processes: integer(
      'Programs that run at once for all principals: those of the shell and of packages, ACP agents and the MCP servers these start.',
      [1, 65_536],
      256,
    ),
    max_processes_per_principal: integer(
      'Programs that run at once for one principal; 16 more requests wait, further ones are refused.',
      [1, 65_536],
      64,
    ),
    max_sign_ins: integer('Sign-ins to providers that run at once, of all principals.', [1, 64], 8),
    max_sign_ins_per_principal: integer('Sign-ins to providers that one principal runs at once.', [1, 64], 2),
  },
);

export const journal = group('The log of every session, which resume and history read.', {
  kind: choice(
    {
      default: 'memory',
      description: 'memory (the default): lost with the process. sqlite: stored on disk.',
      example: 'sqlite',
    },
    ['memory', 'sqlite'],
  ),
  file: optional(path('Where sqlite stores it. Left out: in the Handfast folder of this user.', './handfast.db')),
  durable: choice(
    {
      default: 'nothing',
      description:
        'The messages that sqlite has on disk before they leave the host. nothing (the default): a kill may cost the last 100 ms, reported as a gap. replies: every reply that was sent is stored; each waits for the disk.',
      example: 'replies',
    },
    ['nothing', 'replies'],
  ),
  max_entries: integer('Entries stored per session.', [16, 10_000_000], DEFAULT_RETENTION.maxEntries),
  max_bytes: integer('Bytes stored per session.', [64 * KIB, 16 * KIB * MIB], DEFAULT_RETENTION.maxBytes),
  max_entries_per_principal: integer(
    'Entries stored for all sessions of one principal; past that its own oldest are evicted, those of ended sessions first.',
    [16, 1_000_000_000],
    1_000_000,
  ),
  max_bytes_per_principal: integer(
    'Bytes stored for all sessions of one principal, in the same way.',
    [64 * KIB, 16 * KIB * KIB * MIB],
    KIB * MIB,
  ),
  max_total_entries: integer(
    'Entries stored for all principals together; past that the one with most loses its oldest.',
    [16, 10_000_000_000],
    8_000_000,
  ),
  max_total_bytes: integer(
    'Bytes stored for all principals together, in the same way.',
    [64 * KIB, 16 * KIB * KIB * MIB],
    8 * KIB * MIB,
  ),
  retain_days: integer(
    'Days of use that sqlite stores a session which has ended, after its last entry. A pause counts a day at most. 0: for ever.',
    [0, 36_500],
    30,
  ),
  max_sessions: integer(
    'Ended sessions that sqlite stores; the oldest of principals with more than an equal part are evicted first.',
    [1, 10_000_000],
    100_000,
  ),
});

export const audit = group('One line per handled request: who, what, sizes, duration, outcome. Never contents.', {
  enabled: flag('Write the audit.', true),
  file: optional(
    Type.String({
      format: 'path',
      pattern: '\\.jsonl$',
      expected: 'a path that ends in .jsonl',
      description: 'The file. Left out: in the Handfast folder of this user.',
      example: './audit.jsonl',
    }),
  ),
  max_bytes: integer('A file of this size is renamed and a new one started.', [64 * KIB, 16 * KIB * MIB], 16 * MIB),
  max_files: integer('Files that are always stored, the newest included.', [2, 1000], 8),
  retain_days: integer('Days that further files are stored after their last line.', [0, 36_500], 30),
  max_total_bytes: integer(
    'Size of all files together: the oldest of the further files beyond it are removed, however young.',
    [MIB, 16 * KIB * KIB * MIB],
    4 * KIB * MIB,
  ),
  lines_per_minute: integer(
    'Lines of one principal, on average. Past 100 minutes of them its requests are counted: one line for many alike.',
    [1, 1_000_000],
    120,
  ),
  fsync: flag('Force every batch of lines to disk before the next.', false),
});

/** The capabilities that come with Handfast, as the configuration sees them. */
export interface BuiltinPlugins {
  /** The schema of `options`, by capability. */
  readonly options: Readonly<Record<string, TSchema>>;
  /** Plugins of a host whose file names none. */
  readonly byDefault: readonly string[];
}

const plugin = (options: BuiltinPlugins['options']) =>
  group(
    { description: 'One plugin.', short: 'use', variants: { by: 'use', member: 'options', of: options } },
    {
      use: Type.String({
        expected: `a built-in plugin (${Object.keys(options).join(', ')}), an installed package, or a path that starts with ./, ../ or /`,
        description: 'The name of a built-in plugin or an installed package, or the path of a module that exports one.',
      }),
      priority: integer('Of several plugins for one capability, the highest is asked first.', [-1000, 1000], 0),
      exclusive: flag('This plugin alone serves its capability.', false),
      options: anything('Settings of the plugin itself.'),
    },
  );

export const plugins = ({ options, byDefault }: BuiltinPlugins) =>
  list(
    {
      default: [...byDefault],
      shown: true,
      description: 'The capabilities of this host: built-in plugins and installed packages by name, own ones by path.',
      example: [
        'plugins:',
        '  - use: tools',
        '    options: { shell: false, allow_private_addresses: false }',
        '  - use: ./my-plugin.ts',
        '    priority: 10',
        '    options: { greeting: hello }',
      ],
    },
    plugin(options),
  );
