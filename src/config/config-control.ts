/**
 * The settings of session RPC in `handfast.yaml`: `control` and `providers`. Part of `config-schema.ts`; what uses them is
 * `server/control/control-assembly.ts`.
 */
import { MESSAGE_BYTES_CEILING, PRE_HANDSHAKE_MAX_MESSAGE_BYTES } from '../transport/link.ts';
import { anything, choice, flag, group, integer, listOf, type Settings, text } from './config-fields.ts';

const DAY_MS = 86_400_000;

const variable = (about: string, key: string, example: string) =>
  text(about, {
    pattern: /^[A-Za-z_]\w*$/,
    expected: 'the name of an environment variable',
    example: [`${key}: ${example}`],
  });

const url = (about: string, key: string, example: string) =>
  text(about, {
    pattern: /^https?:\/\/[^\s@?#]+$/,
    expected: 'an http:// or https:// address',
    example: [`${key}: ${example}`],
  });

const approvalRule = group('One rule; the first that is true decides.', {
  when: text(
    'A CEL expression over tool.name, tool.kind, tool.input, risks, session.cwd, session.owner, session.title.',
    {
      required: true,
      expected: 'a CEL expression',
    },
  ),
  // biome-ignore lint/suspicious/noThenProperty: the key of the file
  then: choice('What happens then.', ['allow', 'ask', 'deny'], { required: true }),
  reason: text('Told to whoever is asked, and to the model when it is denied.', {}),
});

const agent = group('An agent that speaks the Agent Client Protocol, as a backend of sessions.', {
  name: text('The name sessions ask for it by.', {
    required: true,
    pattern: /^[a-z][\w.-]{0,63}$/,
    expected: 'a name of lower-case letters, digits, ".", "_" or "-"',
  }),
  command: text('The program.', { required: true, expected: 'a program' }),
  args: listOf('Its arguments.', text('An argument.', { required: true }), { default: [] }),
  env: anything('Environment variables it is given beside those of the server.'),
});

/** `control:` */
export const controlFields = {
  enabled: flag('Serve session RPC at /rpc and on every other address.', { default: true }),
  server_name: text('The name clients are told.', { default: 'handfast' }),
  require_handshake: flag(
    'Answer nothing but pings before a handshake on any link. Where a token is asked for it is so anyway.',
    { default: false },
  ),
  max_message_bytes: integer(
    'Longest line of a client of session RPC, in bytes, whichever address it came to. A prompt carries its images in it.',
    { default: 32 * 1024 * 1024, min: PRE_HANDSHAKE_MAX_MESSAGE_BYTES, max: MESSAGE_BYTES_CEILING },
  ),
  data_dir: text(
    'Where sessions, settings and credentials are kept, by one process at a time. Left out: the Handfast folder of this user.',
    {
      expected: 'the path of a folder',
      example: ['data_dir: ./sessions'],
    },
  ),
  backend: text(
    'What runs the turns of new sessions: model, rehearsal or the name of an agent below. Left out: model once a provider is configured, until then rehearsal.',
    {
      expected: 'the name of a backend',
      example: ['backend: model'],
    },
  ),
  host: text(
    'The host whose tools the model is given: any address of an environment. Left out: this host for sessions in its workspace, and its built-in tools for those in other folders.',
    {
      expected: 'an address',
      example: ['host: tcp://127.0.0.1:4701'],
    },
  ),
  instructions: text('Added to the instructions of every model.', {
    example: ['instructions: Answer in one paragraph.'],
  }),
  agents: listOf('Agents that can run sessions, each as a child process.', agent, {
    default: [],
    example: ['agents:', '  - name: opencode', '    command: opencode', '    args: [acp]'],
  }),
  image_roots: listOf(
    'Folders beside that of the session that images may be read from.',
    text('A path; relative ones start at the folder of this file.', { required: true, expected: 'a path' }),
    { default: [], example: ['image_roots: [./pictures]'] },
  ),
  approvals: group('Asking before tools act. Without a rule that is true: reading is allowed, everything else asks.', {
    rules: listOf('Rules, the first that is true decides.', approvalRule, {
      default: [],
      example: [
        'rules:',
        '  - when: tool.name == "shell" && tool.input.command.startsWith("npm test")',
        '    then: allow',
        '  - when: "\'destructive\' in risks"',
        '    then: deny',
        '    reason: nothing is deleted here',
      ],
    }),
    timeout_ms: integer('A question without an answer for so long is a no.', {
      default: 600_000,
      min: 1_000,
      max: 30 * DAY_MS,
    }),
  }),
  max_sessions: integer('Sessions kept, those of earlier runs included.', { default: 10_000, min: 1, max: 1_000_000 }),
  max_turns: integer('Turns that run at once; more wait.', { default: 8, min: 1, max: 1024 }),
  max_queue: integer('Prompts of one session that wait.', { default: 64, min: 1, max: 10_000 }),
  max_rounds: integer('Requests to the model in one turn.', { default: 50, min: 1, max: 10_000 }),
  turn_timeout_ms: integer('Time for one turn.', { default: 1_800_000, min: 1_000, max: 30 * DAY_MS }),
  interrupt_grace_ms: integer('Time an interrupted turn is given to stop by itself.', {
    default: 5_000,
    min: 100,
    max: 600_000,
  }),
} as const;

/** `providers:` */
export const providersFields = {
  openai: group('OpenAI.', {
    base_url: url('Address of its API.', 'base_url', 'https://api.openai.com/v1'),
    api_key_env: variable('The variable with its key.', 'api_key_env', 'OPENAI_API_KEY'),
    issuer: url('Where people sign in.', 'issuer', 'https://auth.openai.com'),
    client_id: text('The client that signs in. Left out: that of the public command line.', {
      example: ['client_id: app_0123'],
    }),
    chatgpt_url: url('The service behind a ChatGPT sign-in.', 'chatgpt_url', 'https://chatgpt.com/backend-api'),
  }),
  openrouter: group('OpenRouter.', {
    base_url: url('Address of its API.', 'base_url', 'https://openrouter.ai/api/v1'),
    api_key_env: variable('The variable with its key.', 'api_key_env', 'OPENROUTER_API_KEY'),
  }),
  anthropic: group('Anthropic.', {
    base_url: url('Address of its API.', 'base_url', 'https://api.anthropic.com/v1'),
    api_key_env: variable('The variable with its key.', 'api_key_env', 'ANTHROPIC_API_KEY'),
  }),
  google: group('Google.', {
    base_url: url('Address of its API.', 'base_url', 'https://generativelanguage.googleapis.com/v1beta'),
    api_key_env: variable('The variable with its key.', 'api_key_env', 'GOOGLE_GENERATIVE_AI_API_KEY'),
  }),
  compatible: group('Any server that speaks the OpenAI chat API, such as one on this machine.', {
    base_url: url('Address of its API.', 'base_url', 'http://127.0.0.1:11434/v1'),
    api_key_env: variable('The variable with its key, if it wants one.', 'api_key_env', 'HANDFAST_COMPATIBLE_API_KEY'),
    models: listOf('Its models, for servers that cannot list them.', text('A model id.', { required: true }), {
      default: [],
      example: ['models: [small, large]'],
    }),
  }),
  antigravity: group('Antigravity: a sign-in with Google.', {
    issuer: url('Where people sign in.', 'issuer', 'https://accounts.google.com'),
    client_id: text('The OAuth client (type "desktop") that signs in. None is built in.', {
      example: ['client_id: 0123.apps.googleusercontent.com'],
    }),
    client_secret_env: variable(
      "The variable with that client's secret.",
      'client_secret_env',
      'HANDFAST_GOOGLE_CLIENT_SECRET',
    ),
    base_url: url('The Cloud Code service.', 'base_url', 'https://cloudcode-pa.googleapis.com'),
  }),
  keyring: flag('Keep secrets in the keyring of the system where there is one. False: in a private file.', {
    default: true,
  }),
} as const;

export type ControlConfig = Settings<typeof controlFields>;
export type ProvidersSettings = Settings<typeof providersFields>;
