/**
 * The members of `options` of the `mcp` plugin in `handfast.yaml`; never imported at run time. The plugin has the defaults of
 * absent members.
 */
import {
  choice,
  flag,
  group,
  httpAddress,
  integer,
  list,
  optional,
  path,
  program,
  text,
  texts,
  toolPattern,
  variable,
} from '../../config/shared.schema.ts';
import { Type } from '../../wire/schema.ts';

const server = group(
  { description: 'An MCP server.', either: ['command', 'url'] },
  {
    name: Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$',
      expected: 'a name of 1 to 32 letters, digits, "_" or "-"',
      description: 'Its name here: its tools are called NAME__TOOL.',
    }),
    command: optional(program('The program that is started when the server is first needed.', 'npx')),
    args: list({ default: [], description: 'Its arguments.' }, text('An argument.', 'a text')),
    cwd: optional(path('The folder it is started in. Left out: the workspace.')),
    env: texts('Its environment variables, beside PATH, HOME, LANG, TERM and the like.'),
    pass_env: list(
      { default: [], description: 'Variables of the host that it gets too: nothing else is passed on.' },
      variable('A variable.', 'GITHUB_TOKEN'),
    ),
    url: optional(httpAddress('Or: its streamable HTTP address.')),
    headers: texts('Headers sent to it. Secrets: see headers_env.'),
    headers_env: texts('Headers whose values are in environment variables: header → variable.'),
    oauth: optional(
      group('How `handfast mcp login` signs in to it, where it needs more than the address.', {
        client_id: optional(
          text('The id of a client that was registered by hand. Left out: one is registered.', 'an id'),
        ),
        client_secret_env: optional(variable('The variable with its secret.', 'TRACKER_CLIENT_SECRET')),
        client_metadata_url: optional(
          text(
            'Address of a document that describes the client, for authorization servers that read one.',
            'an https:// address with a path',
            'https://example.com/handfast.json',
          ),
        ),
        issuer: optional(
          text('The only authorization server that may be used.', 'an address', 'https://login.example'),
        ),
        client_credentials: flag(
          'No person signs in: the client does, with its secret or its private key. Needs client_id and issuer.',
          false,
        ),
        private_key_env: optional(
          variable('The variable with the private key of the client, as PEM (PKCS #8).', 'TRACKER_PRIVATE_KEY'),
        ),
        signing_algorithm: optional(
          choice('The algorithm of that key. Default ES256.', ['ES256', 'ES384', 'RS256', 'PS256', 'EdDSA']),
        ),
        scope: optional(text('Scopes that are asked for, beside those the server names.', 'scopes', 'read write')),
        callback_port: optional(
          integer(
            'Port of http://localhost:PORT/callback, where that address is registered. Default: any.',
            [1, 65_535],
          ),
        ),
      }),
    ),
    tools: optional(list('Only these of its tools, by their names there.', toolPattern)),
    required: flag('The host starts with it, and does not start without it.', false),
    per_session: flag('Each session has its own, which ends with it. Else all sessions share one.', false),
    start_timeout_s: optional(integer('Longest start with the list of tools. Default 60.', [1, 3600])),
    timeout_s: optional(integer('Longest call without progress. Default 300.', [1, 86_400])),
    log_level: optional(
      choice('The least level of its messages, which go to the log of the host and to agents. Left out: it decides.', [
        'debug',
        'info',
        'notice',
        'warning',
        'error',
        'critical',
        'alert',
        'emergency',
      ]),
    ),
    disabled: flag('Listed, but not used.', false),
    may_ask: list(
      {
        default: [],
        description:
          'The questions it may ask: those to the agent whose call runs, and the one for the workspace as its root.',
      },
      choice('A question.', ['sampling', 'elicitation', 'roots']),
    ),
  },
);

export const options = group('MCP servers, whose tools the agents of this host call.', {
  servers: list(
    {
      default: [],
      description: 'The servers.',
      example: ['servers:', '  - name: notes', '    command: npx', '    args: [-y, my-notes-server]'].join('\n'),
    },
    server,
  ),
  register: list(
    {
      default: [],
      description:
        'Servers that administrators may add from an agent, for its session: a command line, or the beginning of an address.',
      example: '["npx -y @modelcontextprotocol/server-everything **"]',
    },
    text(
      'Words of a command line, where * stands for any letters of a word and a last ... for any further words; or an address.',
      'a command line or an address',
    ),
  ),
  max_asks: optional(integer('Questions of servers that one session is asked. Default 100.', [0, 100_000])),
  max_ask_tokens: optional(
    integer('Tokens that servers may sample of one session, all together. Default 100000.', [0, 1_000_000_000]),
  ),
  ask_timeout_s: optional(integer('Longest wait for the answer of an agent. Default 120.', [1, 3600])),
  max_servers: optional(integer('Servers that one session may add. Default 8.', [1, 100])),
});
