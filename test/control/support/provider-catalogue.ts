/**
 * A model provider's catalogue on loopback, in OpenRouter's shape: two models, the providers of each, and a check of the key.
 * The `provider-catalogue` fixture of the session vectors.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ProviderCatalogue extends AsyncDisposable {
  /** Environment of a server that uses it. */
  readonly env: Readonly<Record<string, string>>;
  /** Address of the API. */
  readonly baseUrl: string;
  /** Paths asked for, in order. */
  readonly requests: readonly string[];
  /** Behaviour from now on; a test changes it at any time. */
  readonly behaviour: {
    /** The key that is taken; undefined = any but none. */
    key: string | undefined;
    /** False answers every request with 503. */
    up: boolean;
  };
}

/** The two models of the vectors. */
const MODELS = [
  {
    id: 'demo/alpha',
    name: 'Alpha',
    description: 'The first of two models.',
    context_length: 32_000,
    architecture: { input_modalities: ['text'], output_modalities: ['text'] },
    supported_parameters: ['max_tokens', 'reasoning', 'tools'],
  },
  {
    id: 'demo/beta',
    name: 'Beta',
    description: '',
    context_length: 8_000,
    architecture: { input_modalities: ['text'], output_modalities: ['text'] },
    supported_parameters: ['max_tokens'],
  },
  // Draws pictures and writes nothing: no model for a conversation.
  {
    id: 'demo/painter',
    name: 'Painter',
    description: 'Draws.',
    context_length: 1_000,
    architecture: { input_modalities: ['text'], output_modalities: ['image'] },
    supported_parameters: [],
  },
];

/** The tag names the provider and the variant it serves; requests name the provider alone. */
const ENDPOINTS: Readonly<Record<string, readonly Record<string, unknown>[]>> = {
  'demo/alpha': [
    { provider_name: 'ProvX', tag: 'provx/fp8', context_length: 32_000 },
    { provider_name: 'ProvY', tag: null, context_length: 32_000 },
    { provider_name: 'ProvX', tag: 'provx/bf16', context_length: 32_000 },
  ],
  'demo/beta': [],
};

export async function startProviderCatalogue(): Promise<ProviderCatalogue> {
  const requests: string[] = [];
  const behaviour: ProviderCatalogue['behaviour'] = { key: undefined, up: true };
  const server = createServer((request, response) => {
    const send = (status: number, body: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    const path = (request.url ?? '').replace(/^\/api\/v1/, '').replace(/\?.*$/, '');
    requests.push(path);
    const key = request.headers.authorization?.replace(/^Bearer /, '') ?? '';
    if (!behaviour.up) return send(503, { error: { code: 503, message: 'down' } });
    if (key === '' || (behaviour.key !== undefined && key !== behaviour.key)) {
      return send(401, { error: { code: 401, message: `No such key: ${key}` } });
    }
    if (path === '/key') return send(200, { data: { label: 'test', usage: 0, limit: null } });
    if (path === '/models') return send(200, { data: MODELS });
    const id = /^\/models\/([^/]+\/[^/]+)\/endpoints$/.exec(path)?.[1];
    const endpoints = id === undefined ? undefined : ENDPOINTS[id];
    if (endpoints === undefined) return send(404, { error: { code: 404, message: 'No such model' } });
    return send(200, { data: { id, endpoints } });
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1`;
  return {
    env: { OPENROUTER_BASE_URL: baseUrl },
    baseUrl,
    requests,
    behaviour,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
