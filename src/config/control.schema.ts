/**
 * The sections of `handfast.yaml` that configure sessions with models and agents: `control` and `providers`. Put together
 * with the others in `handfast.schema.ts`; `server/control/control-assembly.ts` uses what they say.
 */
import { MESSAGE_BYTES_CEILING, PRE_HANDSHAKE_MAX_MESSAGE_BYTES } from '../transport/link.ts';
import { type Static, Type } from '../wire/schema.ts';
import type { Settings } from './setting.ts';
import { anything, flag, integer, path, text, variable } from './shared.schema.ts';

const DAY_MS = 86_400_000;

const address = (description: string, example: string) =>
  Type.Optional(
    Type.String({
      pattern: '^https?:\\/\\/[^\\s@?#]+$',
      expected: 'an http:// or https:// address',
      description,
      example,
    }),
  );

/** A provider with an API of its own: where it is, and the variable that holds the key. */
const api = (base: string, key: string, whose = 'its key') => ({
  base_url: address('Address of its API.', base),
  api_key_env: Type.Optional(variable(`The variable with ${whose}.`, key)),
});

const approvalRule = Type.Object(
  {
    when: text(
      'A CEL expression over tool.name, tool.kind, tool.input, risks, session.cwd, session.owner, session.title.',
      'a CEL expression',
    ),
    // biome-ignore lint/suspicious/noThenProperty: the key of the file
    then: Type.Enum(['allow', 'ask', 'deny'], { description: 'What the rule decides.' }),
    reason: Type.Optional(text('Shown to the person who is asked, and to the model when a call is denied.', 'a text')),
  },
  { description: 'One rule; the first that is true decides.' },
);

const agent = Type.Object(
  {
    name: Type.String({
      pattern: '^[a-z][\\w.-]{0,63}$',
      expected: 'a name of lower-case letters, digits, ".", "_" or "-"',
      description: 'The name sessions ask for it by.',
    }),
    command: text('The program.', 'a program'),
    args: Type.Array(text('An argument.', 'a text'), { default: [], description: 'Its arguments.' }),
    env: anything('Environment variables it is given beside those of the server.'),
  },
  { description: 'An agent that speaks the Agent Client Protocol, as a backend of sessions.' },
);

const approvals = Type.Object(
  {
    rules: Type.Array(approvalRule, {
      default: [],
      description: 'Rules, the first that is true decides.',
      example: [
        'rules:',
        '  - when: tool.name == "shell" && tool.input.command.startsWith("npm test")',
        '    then: allow',
        '  - when: "\'destructive\' in risks"',
        '    then: deny',
        '    reason: nothing is deleted here',
      ],
    }),
    timeout_ms: integer('How long an approval waits; then it is denied.', {
      default: 600_000,
      minimum: 1_000,
      maximum: 30 * DAY_MS,
    }),
  },
  {
    description: 'Approvals before tools act. Without a rule that is true: reading is allowed, everything else asks.',
  },
);

export const control = Type.Object(
  {
    enabled: flag('Serve session RPC at /rpc and on every other address.', true),
    server_name: Type.String({ default: 'handfast', description: 'The name the handshake gives to clients.' }),
    require_handshake: flag(
      'Reply to nothing but pings before a handshake on any connection. Where a token is required this is always so.',
      false,
    ),
    max_message_bytes: integer(
      'Longest message of a client of session RPC, in bytes, on every address. A prompt carries its images in it.',
      { default: 32 * 1024 * 1024, minimum: PRE_HANDSHAKE_MAX_MESSAGE_BYTES, maximum: MESSAGE_BYTES_CEILING },
    ),
    data_dir: Type.Optional(
      path(
        'Where sessions, settings and credentials are stored, by one process at a time. Left out: the Handfast folder of this user.',
        './sessions',
        'the path of a folder',
      ),
    ),
    backend: Type.Optional(
      text(
        'What runs the turns of new sessions: model, rehearsal or the name of an agent below. Left out: model once a provider is configured, until then rehearsal.',
        'the name of a backend',
        'model',
      ),
    ),
    host: Type.Optional(
      text(
        'The host whose tools the model is given: any address of an environment. Left out: this host for sessions in its workspace, and its built-in tools for those in other folders.',
        'an address',
        'tcp://127.0.0.1:4701',
      ),
    ),
    instructions: Type.Optional(
      text('Added to the instructions of every model.', 'a text', 'Answer in one paragraph.'),
    ),
    agents: Type.Array(agent, {
      default: [],
      description: 'Agents that can run sessions, each as a child process.',
      example: ['agents:', '  - name: opencode', '    command: opencode', '    args: [acp]'],
    }),
    image_roots: Type.Array(path('A path; relative ones start at the folder of this file.'), {
      default: [],
      description: 'Folders beside that of the session that images may be read from.',
      example: '[./pictures]',
    }),
    approvals,
    max_sessions: integer('Sessions stored, those of earlier runs included.', {
      default: 10_000,
      minimum: 1,
      maximum: 1_000_000,
    }),
    max_turns: integer('Turns that run at once; more wait.', { default: 8, minimum: 1, maximum: 1024 }),
    max_queue: integer('Prompts of one session that wait.', { default: 64, minimum: 1, maximum: 10_000 }),
    max_rounds: integer('Requests to the model in one turn.', { default: 50, minimum: 1, maximum: 10_000 }),
    turn_timeout_ms: integer('Time for one turn.', { default: 1_800_000, minimum: 1_000, maximum: 30 * DAY_MS }),
    interrupt_grace_ms: integer('Time an interrupted turn has to stop by itself.', {
      default: 5_000,
      minimum: 100,
      maximum: 600_000,
    }),
  },
  {
    description: 'Sessions with agents: session RPC and what is behind it.',
    formerly: { data: 'data_dir' },
  },
);

export const providers = Type.Object(
  {
    openai: Type.Object(
      {
        ...api('https://api.openai.com/v1', 'OPENAI_API_KEY'),
        issuer: address('Where users sign in.', 'https://auth.openai.com'),
        client_id: Type.Optional(
          text('The client that signs in. Left out: that of the public command line.', 'a text', 'app_0123'),
        ),
        chatgpt_url: address('The service behind a ChatGPT sign-in.', 'https://chatgpt.com/backend-api'),
      },
      { description: 'OpenAI.' },
    ),
    openrouter: Type.Object(api('https://openrouter.ai/api/v1', 'OPENROUTER_API_KEY'), { description: 'OpenRouter.' }),
    anthropic: Type.Object(api('https://api.anthropic.com/v1', 'ANTHROPIC_API_KEY'), { description: 'Anthropic.' }),
    google: Type.Object(api('https://generativelanguage.googleapis.com/v1beta', 'GOOGLE_GENERATIVE_AI_API_KEY'), {
      description: 'Google.',
    }),
    compatible: Type.Object(
      {
        ...api('http://127.0.0.1:11434/v1', 'HANDFAST_COMPATIBLE_API_KEY', 'its key, if it wants one'),
        models: Type.Array(text('A model id.', 'a text'), {
          default: [],
          description: 'Its models, for servers that cannot list them.',
          example: '[small, large]',
        }),
      },
      { description: 'Any server that speaks the OpenAI chat API, such as one on this machine.' },
    ),
    antigravity: Type.Object(
      {
        issuer: address('Where users sign in.', 'https://accounts.google.com'),
        client_id: Type.Optional(
          text(
            'The OAuth client (type "desktop") that signs in. None is built in.',
            'a text',
            '0123.apps.googleusercontent.com',
          ),
        ),
        client_secret_env: Type.Optional(
          variable("The variable with that client's secret.", 'HANDFAST_GOOGLE_CLIENT_SECRET'),
        ),
        base_url: address('The Cloud Code service.', 'https://cloudcode-pa.googleapis.com'),
      },
      { description: 'Antigravity: a sign-in with Google.' },
    ),
    keyring: flag('Store secrets in the keyring of the system where there is one. False: in a private file.', true),
  },
  { description: 'Model providers. Keys are never written here: they come from the environment or a sign-in.' },
);

export type ControlConfig = Settings<Static<typeof control>>;
export type ProvidersSettings = Settings<Static<typeof providers>>;
