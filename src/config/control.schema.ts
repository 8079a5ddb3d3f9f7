/**
 * The sections of `handfast.yaml` that configure sessions with models and agents: `control` and `providers`. Put
 * together with the others in `handfast.schema.ts`; `server/control/control-assembly.ts` applies them.
 */
import { DEFAULT_MAX_PROMPT_BYTES, MESSAGE_BYTES_CEILING, PRE_HANDSHAKE_MAX_MESSAGE_BYTES } from '../transport/link.ts';
import { Type } from '../wire/schema.ts';
import {
  anything,
  choice,
  flag,
  group,
  integer,
  list,
  optional,
  path,
  program,
  text,
  variable,
} from './shared.schema.ts';

const DAY_MS = 86_400_000;

const address = (description: string, example: string) =>
  optional(
    Type.String({
      pattern: '^https?:\\/\\/[^\\s@?#]+$',
      expected: 'an http:// or https:// address',
      description,
      example,
    }),
  );

/** Returns the settings of a provider with an API: its address, and the variable that holds the key. */
const api = (base: string, key: string, whose = 'its key') => ({
  base_url: address('Address of its API.', base),
  api_key_env: optional(variable(`The variable with ${whose}.`, key)),
});

const example = group(
  {
    description: 'A call: a command line of the shell, or another tool with its input.',
    short: 'command',
    needsOne: ['command', 'input'],
  },
  {
    command: optional(text('A command line.', 'a command line')),
    tool: optional(text('The name of the tool. Left out: shell.', 'the name of a tool')),
    kind: optional(text('The kind of the tool.', 'a kind')),
    input: optional(anything('Its input.')),
    risks: optional(
      list('Its risks. Left out: those of shell for a command, none for an input.', text('A risk.', 'a risk')),
    ),
  },
);

const approvalRule = group(
  {
    description: 'One rule. Of all that match, the strictest decides: deny, then ask, then allow.',
    needsOne: ['when', 'command'],
  },
  {
    when: optional(
      text(
        'A CEL expression over tool.name, tool.kind, tool.input, risks, session.cwd, session.owner, session.title.',
        'a CEL expression',
      ),
    ),
    command: list(
      {
        default: [],
        description:
          'Commands by their words: "npm test", "git status|log ...", "kill *". Allowed is what they spell out, and a line only when each of its commands is; asked and denied is every command that starts so.',
      },
      text('A command.', 'a command'),
    ),
    options: list(
      { default: [], description: 'Options that commands which are allowed may have.' },
      text('An option.', 'an option'),
    ),
    // biome-ignore lint/suspicious/noThenProperty: the key of the file
    then: choice('The decision of the rule.', ['allow', 'ask', 'deny']),
    reason: optional(text('Shown to the person who is asked, and to the model when a call is denied.', 'a text')),
    matches: list({ default: [], description: 'Calls this rule must match; checked when it is loaded.' }, example),
    not: list({ default: [], description: 'Calls this rule must not match.' }, example),
  },
);

const agent = group('An agent that speaks the Agent Client Protocol, as a backend of sessions.', {
  name: Type.String({
    pattern: '^[a-z][\\w.-]{0,63}$',
    expected: 'a name of lower-case letters, digits, ".", "_" or "-"',
    description: 'The name sessions ask for it by.',
  }),
  command: program('The program; a path starts at the folder of this file.'),
  args: list({ default: [], description: 'Its arguments.' }, text('An argument.', 'a text')),
  env: anything('Environment variables it is given beside those of the server.'),
});

const approvals = group(
  'Approvals before tools act. Where no rule matches: reading is allowed, everything else asks.',
  {
    rules: list(
      {
        default: [],
        description:
          'Rules; the strictest that matches decides: deny, then ask, then allow. Commands are compared by their words, see docs/security/approvals.md.',
        example: [
          'rules:',
          '  - command: pwd|ls',
          '    options: [-a, -l]',
          '    then: allow',
          '    matches: [ls -l, "pwd && ls"]',
          '    not: ["ls; rm notes.txt", "ls > notes.txt", "PATH=. ls"]',
          '  - command: git push',
          '    then: ask',
          '    matches: [git push, git -C lib push --force]',
          '  - command: [sudo, "rm -r"]',
          '    then: deny',
          '    reason: nothing is removed here',
          '    matches: [rm -rf src, "ls | xargs rm -r", "sh -c \'sudo ls\'"]',
        ],
      },
      approvalRule,
    ),
    timeout_ms: integer('How long an approval waits; then it is denied.', [1_000, 30 * DAY_MS], 600_000),
  },
);

export const control = group(
  {
    description: 'Sessions with agents: session RPC and its services.',
    formerly: { data: 'data_dir' },
  },
  {
    enabled: flag('Serve session RPC at /rpc and on every other address.', true),
    server_name: Type.String({ default: 'handfast', description: 'The name the handshake gives to clients.' }),
    require_handshake: flag(
      'Reply to nothing but pings before a handshake on any connection. Where a token is required this is always so.',
      false,
    ),
    max_message_bytes: integer(
      'Longest request of session.send and session.import from a client that may drive sessions, in bytes, on every address: a prompt carries its images in it. Other messages of session RPC have limits.max_message_bytes. Reading one holds the event loop for some 3 ms a MiB.',
      [PRE_HANDSHAKE_MAX_MESSAGE_BYTES, MESSAGE_BYTES_CEILING],
      DEFAULT_MAX_PROMPT_BYTES,
    ),
    data_dir: optional(
      path(
        'Where sessions, settings and credentials are stored, by one process at a time. Left out: the Handfast folder of this user.',
        './sessions',
        'the path of a folder',
      ),
    ),
    backend: optional(
      text(
        'The backend of new sessions, which runs their turns: model, rehearsal or the name of an agent below. Left out: model once a provider is configured, until then rehearsal.',
        'the name of a backend',
        'model',
      ),
    ),
    model: optional(
      text(
        'The model of sessions without a choice of their own: ID, or PROVIDER/ID. Left out: the one stored by "handfast model use", else the default of a provider that has a key or a sign-in.',
        'the name of a model',
        'anthropic/claude-sonnet-4-5',
      ),
    ),
    stream_idle_ms: integer(
      'Longest silence of a model while it answers. Then its request is ended: tried again while nothing of the answer was shown, else continued.',
      [1_000, 3_600_000],
      60_000,
    ),
    host: optional(
      text(
        'The host whose tools the model is given: any address of an environment. Left out: this host for sessions in its workspace, and its built-in tools for those in other folders.',
        'an address',
        'tcp://127.0.0.1:4701',
      ),
    ),
    instructions: optional(text('Added to the instructions of every model.', 'a text', 'Answer in one paragraph.')),
    agents: list(
      {
        default: [],
        description: 'Agents that can run sessions, each as a child process.',
        example: ['agents:', '  - name: opencode', '    command: opencode', '    args: [acp]'],
      },
      agent,
    ),
    image_roots: list(
      {
        default: [],
        description: 'Folders beside that of the session that images may be read from.',
        example: '[./pictures]',
      },
      path('A path; relative ones start at the folder of this file.'),
    ),
    recall_entries: integer(
      'Entries of the memory of the user that a model is given for a prompt, and the user is shown; 0 = none. A session switches it off by its setting recall.',
      [0, 50],
      5,
    ),
    approvals,
    max_sessions: integer('Sessions stored, those of earlier runs included.', [1, 1_000_000], 10_000),
    max_turns: integer('Turns that run at once; more wait.', [1, 1024], 8),
    max_turns_per_principal: integer(
      'Turns of one principal that run at once; more of its own wait. Administrators have no such limit.',
      [1, 1024],
      6,
    ),
    max_queue: integer('Prompts of one session that wait.', [1, 10_000], 64),
    max_rounds: integer('Requests to the model in one turn.', [1, 10_000], 50),
    turn_timeout_ms: integer('Time for one turn.', [1_000, 30 * DAY_MS], 1_800_000),
    interrupt_grace_ms: integer('Time an interrupted turn has to stop by itself.', [100, 600_000], 5_000),
  },
);

export const providers = group(
  'Model providers. Keys are never written here: they come from the environment or a sign-in.',
  {
    openai: group('OpenAI.', {
      ...api('https://api.openai.com/v1', 'OPENAI_API_KEY'),
      issuer: address('Where users sign in.', 'https://auth.openai.com'),
      client_id: optional(
        text('The client that signs in. Left out: that of the public command line.', 'a text', 'app_0123'),
      ),
      chatgpt_url: address('The service behind a ChatGPT sign-in.', 'https://chatgpt.com/backend-api'),
    }),
    openrouter: group('OpenRouter.', api('https://openrouter.ai/api/v1', 'OPENROUTER_API_KEY')),
    anthropic: group('Anthropic.', api('https://api.anthropic.com/v1', 'ANTHROPIC_API_KEY')),
    google: group('Google.', api('https://generativelanguage.googleapis.com/v1beta', 'GOOGLE_GENERATIVE_AI_API_KEY')),
    compatible: group('Any server that speaks the OpenAI chat API, such as one on this machine.', {
      ...api('http://127.0.0.1:11434/v1', 'HANDFAST_COMPATIBLE_API_KEY', 'its key, if it wants one'),
      models: list(
        {
          default: [],
          description: 'Its models, for servers that cannot list them.',
          example: '[small, large]',
        },
        text('A model id.', 'a text'),
      ),
    }),
    antigravity: group('Antigravity: a sign-in with Google.', {
      issuer: address('Where users sign in.', 'https://accounts.google.com'),
      client_id: optional(
        text(
          'The OAuth client (type "desktop") that signs in. None is built in.',
          'a text',
          '0123.apps.googleusercontent.com',
        ),
      ),
      client_secret_env: optional(variable("The variable with that client's secret.", 'HANDFAST_GOOGLE_CLIENT_SECRET')),
      base_url: address('The Cloud Code service.', 'https://cloudcode-pa.googleapis.com'),
    }),
    keyring: flag('Store secrets in the keyring of the system where there is one. False: in a private file.', true),
  },
);
