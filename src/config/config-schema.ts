/**
 * Every setting of `handfast.yaml`, said once: its key, what it is for, its bounds and its default. Validation, the
 * TypeScript type, the JSON Schema for editors and the commented template all come from here.
 *
 * What depends on several settings, on files or on the environment is in `config.ts`.
 */
import { capabilityNames, capabilityOf } from '../protocol/a2e.ts';
import {
  DEFAULT_MAX_MESSAGE_BYTES,
  MESSAGE_BYTES_CEILING,
  PRE_HANDSHAKE_MAX_MESSAGE_BYTES,
} from '../transport/link.ts';
import { controlFields, providersFields } from './config-control.ts';
import {
  anything,
  type ConfigMap,
  type ConfigNode,
  choice,
  type Field,
  type Fields,
  flag,
  got,
  group,
  integer,
  isNothing,
  type JsonSchema,
  join,
  listOf,
  meant,
  type Reading,
  type Settings,
  text,
} from './config-fields.ts';
import { ADDRESS_FORMS, parseListenAddress } from './listen-address.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const DAY_MS = 86_400_000;

/** A text that must pass `accepts`; what `accepts` returns is the value. */
function checkedText<T>(
  about: string,
  expected: string,
  accepts: (value: string) => T | undefined,
  known: readonly string[] = [],
): Field<T> {
  return {
    about,
    expected,
    required: true,
    schema: () => ({ type: 'string', description: about, ...(known.length > 0 ? { examples: [...known] } : {}) }),
    read(node, path, reading) {
      const value = node?.kind === 'scalar' && typeof node.value === 'string' ? node.value : undefined;
      const accepted = value === undefined ? undefined : accepts(value);
      if (node !== undefined) {
        reading.positions.set(path, node);
        const near = value === undefined ? '' : meant(value, known);
        if (accepted === undefined)
          reading.problem(node, path, `expected ${expected}, got ${got(node, reading)}${near}`);
      }
      return accepted as T;
    },
  };
}

const address = checkedText('A listen address.', ADDRESS_FORMS, (value) =>
  parseListenAddress(value) === undefined ? undefined : value,
);

const capability = checkedText(
  'A capability of the protocol.',
  `one of ${capabilityNames.join(', ')}`,
  capabilityOf,
  capabilityNames,
);

const hostName = checkedText(
  'A host name, with a port if only that port is meant.',
  'a host name like box.lan or box.lan:4700',
  (value) => (/^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/i.test(value) ? value.toLowerCase() : undefined),
);

const origin = checkedText(
  'The origin of a web page.',
  'an origin like https://app.example (no path, not *, not null)',
  (value) => (/^https?:\/\/(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/i.test(value) ? value.toLowerCase() : undefined),
);

const toolPattern = text('A tool name; * stands for any letters.', {
  required: true,
  pattern: /^[\w.*-]{1,128}$/,
  expected: 'a tool name, with * for any letters',
});

const risk = choice('What a tool can do to the world.', ['reads', 'writes', 'destructive', 'network', 'exec'], {
  required: true,
});

const file = text('A path; relative ones start at the folder of this file.', { required: true, expected: 'a path' });

const token = group('One principal: a name, its tokens and its rights.', {
  name: text('Who this is, in sessions, logs and the audit.', {
    required: true,
    pattern: /^[A-Za-z0-9][\w.@-]{0,63}$/,
    expected: 'a name of 1 to 64 letters, digits, ".", "_", "@" or "-"',
  }),
  token_file: listOf('Files with tokens, one a line; every line is valid, which is how a token is rotated.', file, {}),
  token_env: listOf(
    'Environment variables that hold a token.',
    text('The name of an environment variable.', {
      required: true,
      pattern: /^[A-Za-z_]\w*$/,
      expected: 'the name of an environment variable',
    }),
    {},
  ),
  token: listOf(
    'The token itself. Prefer token_file or token_env: this file is read by more people than a secret should be.',
    text('A token.', { required: true, expected: 'a token' }),
    {},
  ),
  capabilities: listOf('Capabilities it may be granted. Left out: all that are loaded.', capability, {}),
  tools: group(
    'Which tools it may call. Deny wins; with an allow list, only what it names. Left out: all.',
    {
      allow: listOf('Only these tools.', toolPattern, {}),
      deny: listOf('Never these tools.', toolPattern, {}),
      deny_risks: listOf('No tool that carries one of these flags.', risk, {}),
    },
    { optional: true },
  ),
  limits: group(
    'Its own limits in place of those below.',
    {
      max_parallel: integer('Requests of one session that run at once.', { min: 1, max: 1024 }),
      queue_limit: integer('Requests of one session that wait for their turn.', { min: 0, max: 100_000 }),
    },
    { optional: true },
  ),
  admin: flag('May read the journal of every session, not only of its own.', { default: false }),
});

/** Options of the built-in plugins, by name. A plugin has its own defaults: what is left out here is left to it. */
export const builtinPlugins: Readonly<Record<string, Field<unknown>>> = {
  tools: group('The built-in file, search, web and shell tools.', {
    shell: flag(
      'False leaves out the tool that runs programs, with the rights of the host and outside any sandbox. Default true.',
      {},
    ),
    allow_private_addresses: flag('Let the web tool reach this machine and private networks.', {}),
    allow: listOf('Only these tools, for everybody.', toolPattern, {}),
    deny: listOf('Never these tools, for nobody.', toolPattern, {}),
    deny_risks: listOf('For nobody a tool that carries one of these flags.', risk, {}),
    max_seconds: integer('Time limit of a call whose caller set none.', { min: 1, max: 86_400 }),
  }),
};

const plugin = group('One plugin.', {
  use: text('The name of a built-in plugin, or the path of a module that exports one.', {
    required: true,
    expected: `a built-in plugin (${Object.keys(builtinPlugins).join(', ')}) or a path that starts with ./, ../ or /`,
  }),
  priority: integer('Of several plugins for one capability, the highest is asked first.', {
    min: -1000,
    max: 1000,
    default: 0,
  }),
  exclusive: flag('This plugin alone serves its capability.', { default: false }),
  options: anything('What the plugin itself can be told.'),
});

/** One entry of `plugins` as it is read. */
export type PluginSetting = NonNullable<ReturnType<typeof plugin.read>>;

/** A plugin is a map, or just its name: `- tools` is short for `- use: tools`. Options of built-in ones are checked too. */
const pluginOrName: Field<PluginSetting> = {
  about: plugin.about,
  expected: 'the name or path of a plugin, or a map with use',
  required: true,
  schema(): JsonSchema {
    const builtins = Object.entries(builtinPlugins).map(([name, options]) => ({
      if: { properties: { use: { const: name } }, required: ['use'] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { properties: { options: options.schema() } },
    }));
    return { anyOf: [{ type: 'string' }, { ...plugin.schema(), type: 'object', allOf: builtins }] };
  },
  read(node, path, reading: Reading) {
    if (node === undefined) return undefined as never;
    const map: ConfigNode =
      node.kind === 'scalar' && typeof node.value === 'string'
        ? {
            kind: 'map',
            entries: [{ key: 'use', value: node, line: node.line, column: node.column }],
            line: node.line,
            column: node.column,
          }
        : node;
    if (isNothing(map)) {
      reading.problem(node, path, `expected ${this.expected}, got nothing`);
      return undefined as never;
    }
    const setting = plugin.read(map, path, reading);
    const known = setting?.use !== undefined && Object.hasOwn(builtinPlugins, setting.use);
    const options = (map as ConfigMap).entries?.find((entry) => entry.key === 'options');
    if (!known || options === undefined) return setting;
    return Object.freeze({
      ...setting,
      options: builtinPlugins[setting.use]!.read(
        options.value,
        join(path, 'options'),
        reading,
      ) as typeof setting.options,
    });
  },
};

/** The whole file. */
export const configFields = {
  host_id: text('The name of this host, in logs, the audit and the names of its own files.', {
    default: 'handfast',
    shown: true,
    pattern: /^[A-Za-z0-9][\w.-]{0,63}$/,
    expected: 'a name of 1 to 64 letters, digits, ".", "_" or "-"',
  }),
  workspace: text('The folder the file tools are confined to. Left out: the folder of this file.', {
    expected: 'the path of a folder',
    example: ['workspace: .'],
  }),
  listen: listOf(`Where to accept links: ${ADDRESS_FORMS}. HTTP serves WebSocket and the console too.`, address, {
    default: ['http://127.0.0.1:4700'],
    shown: true,
    atLeast: 1,
  }),
  insecure_bind: flag(
    'Allows addresses other machines can reach, although links are not encrypted. They need a token as well. Better: stay on loopback behind a reverse proxy with TLS.',
    { default: false },
  ),
  http: group('Protection of the HTTP addresses against pages in a browser. Loopback names are always allowed.', {
    allowed_hosts: listOf('Further values of the Host header.', hostName, {
      default: [],
      example: ['allowed_hosts: [box.lan]'],
    }),
    allowed_origins: listOf('Further values of the Origin header.', origin, {
      default: [],
      example: ['allowed_origins: ["https://app.example"]'],
    }),
  }),
  auth: group(
    'Who may connect and what each may do.',
    {
      required: flag(
        'A link must bring a token. When no token is listed, one is made and kept where the command line of this user finds it.',
        { default: true },
      ),
      tokens: listOf('Principals, each with its tokens and rights.', token, {
        default: [],
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
    { secret: true },
  ),
  limits: group('Bounds of links and sessions.', {
    max_message_bytes: integer('Longest message after the handshake, in bytes.', {
      default: DEFAULT_MAX_MESSAGE_BYTES,
      min: PRE_HANDSHAKE_MAX_MESSAGE_BYTES,
      max: MESSAGE_BYTES_CEILING,
    }),
    max_pending_connections: integer('Links that may be open without a handshake.', {
      default: 128,
      min: 1,
      max: 10_000,
    }),
    handshake_timeout_ms: integer('Time for the handshake.', { default: 10_000, min: 100, max: 600_000 }),
    idle_timeout_ms: integer('A session without a message for so long ends. 0: never.', {
      default: 900_000,
      min: 0,
      max: 30 * DAY_MS,
    }),
    liveness_timeout_ms: integer(
      'A connection on which nothing arrives for so long, although its peer was pinged, ends. 0: never.',
      { default: 15_000, min: 0, max: 600_000 },
    ),
    resume_window_ms: integer('How long a session waits for its agent after a lost link. 0: resume is not offered.', {
      default: 60_000,
      min: 0,
      max: 7 * DAY_MS,
    }),
    max_sessions: integer('Sessions at once.', { default: 10_000, min: 1, max: 1_000_000 }),
    max_parallel: integer('Requests of one session that run at once.', { default: 4, min: 1, max: 1024 }),
    queue_limit: integer('Requests of one session that wait for their turn.', { default: 256, min: 0, max: 100_000 }),
    max_depth: integer('Deepest nesting of a message.', { default: 64, min: 8, max: 1000 }),
    send_buffer_bytes: integer('Bytes that may wait for a slow reader.', {
      default: 4 * MIB,
      min: 64 * KIB,
      max: 256 * MIB,
    }),
    slow_consumer_ms: integer('A reader behind by more than send_buffer_bytes for so long is detached.', {
      default: 30_000,
      min: 0,
      max: 600_000,
    }),
    write_stall_ms: integer(
      'A reader behind by more than 256 KiB that takes nothing at all for so long is detached. 0: never.',
      { default: 30_000, min: 0, max: 600_000 },
    ),
    shutdown_timeout_ms: integer('Time granted to running work when the host stops.', {
      default: 10_000,
      min: 0,
      max: 600_000,
    }),
  }),
  journal: group('The log of every session, which resume and history read.', {
    kind: choice('memory (the default): gone with the process. sqlite: kept on disk.', ['memory', 'sqlite'], {
      default: 'memory',
      example: ['kind: sqlite'],
    }),
    file: text('Where sqlite keeps it. Left out: in the Handfast folder of this user.', {
      expected: 'a path',
      example: ['file: ./handfast.db'],
    }),
    max_entries: integer('Entries kept per session.', { default: 4096, min: 16, max: 10_000_000 }),
    max_bytes: integer('Bytes kept per session.', { default: 8 * MIB, min: 64 * KIB, max: 16 * KIB * MIB }),
    retain_days: integer('Days sqlite keeps a session that has ended, after its last entry. 0: for ever.', {
      default: 30,
      min: 0,
      max: 36_500,
    }),
    max_sessions: integer('Sessions that have ended and are kept by sqlite; of more, the oldest go.', {
      default: 100_000,
      min: 1,
      max: 10_000_000,
    }),
  }),
  audit: group('One line per handled request: who, what, sizes, duration, outcome. Never contents.', {
    enabled: flag('Write the audit.', { default: true }),
    file: text('Where. Left out: in the Handfast folder of this user.', {
      expected: 'a path that ends in .jsonl',
      pattern: /\.jsonl$/,
      example: ['file: ./audit.jsonl'],
    }),
    max_bytes: integer('A file of this size is set aside and a new one begun.', {
      default: 16 * MIB,
      min: 64 * KIB,
      max: 16 * KIB * MIB,
    }),
    max_files: integer('Files kept, the newest included.', { default: 8, min: 2, max: 1000 }),
    fsync: flag('Force every batch of lines to disk before the next.', { default: false }),
  }),
  plugins: listOf('What this host can do: built-in plugins by name, own ones by path.', pluginOrName, {
    default: ['tools'],
    shown: true,
    example: [
      'plugins:',
      '  - use: tools',
      '    options: { shell: false, allow_private_addresses: false }',
      '  - use: ./my-plugin.ts',
      '    priority: 10',
      '    options: { greeting: hello }',
    ],
  }),
  control: group('Sessions with agents: session RPC and what is behind it.', controlFields),
  providers: group(
    'Model providers. Keys are never written here: they come from the environment or a sign-in.',
    providersFields,
  ),
} satisfies Fields;

/** The whole file as one field. */
export const configRoot = group('Configuration of a Handfast host.', configFields);

/** What the file alone says, fully defaulted. */
export type FileSettings = Settings<typeof configFields>;

/** JSON Schema of `handfast.yaml`, for editors: a new object at each call. */
export function configSchema(): JsonSchema {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'handfast.yaml',
    ...configRoot.schema(),
  };
}
