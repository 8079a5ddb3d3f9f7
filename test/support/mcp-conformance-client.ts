/**
 * The client that the official conformance suite tests: Handfast's MCP host, with a simulated person that signs in and
 * answers at once. The suite passes the address as the last word, and the scenario, the revision and its other settings
 * as variables.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { McpAuthorization } from '../../src/mcp/authorization.ts';
import { memoryEra } from '../../src/mcp/era.ts';
import type { OAuthSettings } from '../../src/mcp/oauth-settings.ts';
import { McpServer } from '../../src/mcp/server.ts';
import { signIn } from '../../src/mcp/sign-in.ts';
import { SignInFile } from '../../src/mcp/sign-in-file.ts';
import { asError } from '../../src/wire/errors.ts';
import { visit } from './sign-in-service.ts';

const url = process.argv.at(-1) as string;
const { MCP_CONFORMANCE_SCENARIO: scenario = '', MCP_CONFORMANCE_CONTEXT = '{}' } = process.env;
const { MCP_CONFORMANCE_PROTOCOL_VERSION: revision = '' } = process.env;
const context = JSON.parse(MCP_CONFORMANCE_CONTEXT);

/** The settings that a user would have configured for the server. */
const settings: OAuthSettings = {
  clientId: context.client_id,
  clientSecret: context.client_secret,
  ...(scenario.startsWith('auth/client-credentials') && {
    clientCredentials: true,
    privateKey: context.private_key_pem,
    signingAlgorithm: context.signing_algorithm,
  }),
  ...(context.client_id === undefined && {
    clientMetadataUrl: 'https://conformance-test.local/client-metadata.json',
  }),
};

/** A person stops signing in when it does not help. */
const MAX_SIGN_INS = 2;
const signal = AbortSignal.timeout(100_000);
const options = { signal, timeoutMs: 60_000 };

const folder = await mkdtemp(join(tmpdir(), 'handfast-conformance-'));
const authorization = new McpAuthorization({
  name: 'suite',
  url,
  settings,
  file: new SignInFile(folder, 'suite', url),
});
const server = new McpServer({
  address: { http: { url } },
  cwd: tmpdir(),
  authorization,
  // As after an earlier connection.
  era: memoryEra(revision >= '2026-07-28' ? 'stateless' : 'sessions'),
  allowed: {
    elicitation: true,
    sampling: true,
    roots: [{ uri: 'file:///workspace', name: 'workspace' }],
    answerer: async ({ method }) =>
      method === 'elicitation/create'
        ? { action: 'accept', content: {} }
        : { role: 'assistant', content: { type: 'text', text: 'yes' }, model: 'none' },
  },
});

/** Arguments that fit the required part of a schema. */
function argumentsOf({ properties = {}, required = [] }: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const types = properties as Readonly<Record<string, { readonly type?: string }>>;
  const values: Readonly<Record<string, unknown>> = { number: 2, integer: 2, boolean: true, object: {}, array: [] };
  const entries = (required as readonly string[]).map((name) => [name, values[types[name]?.type ?? ''] ?? 'text']);
  return Object.fromEntries(entries);
}

/** Uses all that the server offers. */
async function work(): Promise<void> {
  await server.start(signal);
  if (scenario === 'json-schema-2020-12-preservation') {
    const schema = server.tools.find(({ name }) => name === 'json_schema_2020_12_tool')?.inputSchema;
    await server.call('json_schema_echo', { schema }, options);
    return;
  }
  if (context.toolCalls !== undefined) {
    for (const { name, arguments: args } of context.toolCalls) await server.call(name, args, options);
    return;
  }
  for (const { name, inputSchema } of server.tools) await server.call(name, argumentsOf(inputSchema), options);
  const resources = await server.use(options, (connection) => connection.resources(signal));
  for (const { uri } of resources) await server.use(options, (connection) => connection.read(uri, options));
  const prompts = await server.use(options, (connection) => connection.prompts(signal));
  for (const { name } of prompts) await server.use(options, (connection) => connection.prompt(name, {}, options));
}

try {
  for (let signIns = 0; ; signIns += 1) {
    try {
      await work();
      break;
    } catch (thrown) {
      if (asError(thrown).code !== 'unauthorized' || signIns === MAX_SIGN_INS) throw thrown;
      await signIn(authorization, { signal, show: (address) => void visit(address).catch(() => {}) });
    }
  }
} catch (thrown) {
  const { code, message } = asError(thrown);
  process.stderr.write(`${code}: ${message}\n`);
  process.exitCode = 1;
} finally {
  await server.close();
  await rm(folder, { recursive: true, force: true });
}
