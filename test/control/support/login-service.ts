/**
 * A sign-in service on loopback, in the shapes of the two real ones: OpenAI's issuer (browser with PKCE, its own device
 * flow, refresh tokens that rotate, usage behind the sign-in) and Google's (discovery, userinfo claims, Cloud Code).
 *
 * It checks requests as strictly as a real one: a code is good once, for its client, its redirect address and its PKCE
 * verifier. Also the `login-service` fixture of the session vectors.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface LoginService extends AsyncDisposable {
  /** Issuer of both shapes. */
  readonly url: string;
  /** Environment of a server that uses this service. */
  readonly env: Readonly<Record<string, string>>;
  /** `METHOD /path` of every request, in order. */
  readonly requests: readonly string[];
  /** Behaviour from now on; a test changes it at any time. */
  readonly behaviour: Behaviour;
  /** Refresh tokens that are good now. */
  readonly refreshTokens: ReadonlySet<string>;
  /** Acts as a user's browser does on an address: follows it to the callback. Returns the callback's answer. */
  browse(url: string): Promise<{ status: number; text: string }>;
}

export interface Behaviour {
  /** The user's reaction to a device code. */
  device: 'approve' | 'deny' | 'wait' | 'none';
  /** Polls answered "not yet" before `device` counts. */
  pollsBefore: number;
  /** The user's reaction in the browser. */
  browser: 'approve' | 'deny';
  /** Seconds an access token is good for; undefined = not said. */
  accessTokenSeconds: number | undefined;
  /** Refuses every refresh. */
  refuseRefresh: boolean;
  /** Runs once a token was renewed, before that is answered. */
  refreshed: () => Promise<void>;
  /** Status of the usage report; 200 = as the fixture has it. */
  usageStatus: number;
  /** Status of Cloud Code; 200 = as the fixture has it. */
  cloudStatus: number;
  /** Models behind the ChatGPT sign-in; undefined = the list is not served. */
  chatgptModels: readonly Record<string, unknown>[] | undefined;
}

export const GOOGLE_CLIENT = { id: 'handfast-test.apps.example', secret: 'not-a-secret' };
export const PROFILE = { email: 'ada@example.org', name: 'Ada', picture: 'https://example.org/ada.png' };

/** The usage report of the vectors' fixture. */
const USAGE = {
  plan_type: 'plus',
  rate_limit: {
    primary_window: { used_percent: 12.5, limit_window_seconds: 18_000, reset_at: 1_900_000_000 },
    secondary_window: { used_percent: 40, limit_window_seconds: 604_800, reset_at: 1_900_500_000 },
  },
};

const CLOUD_MODELS = {
  'gemini-3-pro-high': {
    displayName: 'Gemini 3 Pro',
    maxTokens: 1_048_576,
    supportsThinking: true,
    quotaInfo: { remainingFraction: 0.75, resetTime: '2030-01-01T00:00:00Z' },
  },
  'claude-sonnet-4-5': { displayName: 'Claude Sonnet 4.5', quotaInfo: { resetTime: '2030-01-02T00:00:00Z' } },
  'tab-completion': { displayName: 'Completion' },
};

interface IssuedCode {
  readonly client: string;
  readonly redirectUri: string;
  readonly challenge: string;
  readonly shape: 'openai' | 'google';
}

export async function startLoginService(): Promise<LoginService> {
  const requests: string[] = [];
  const codes = new Map<string, IssuedCode>();
  const refreshTokens = new Set<string>();
  const accessTokens = new Set<string>();
  const behaviour: Behaviour = {
    device: 'approve',
    pollsBefore: 0,
    browser: 'approve',
    accessTokenSeconds: 3_600,
    refuseRefresh: false,
    refreshed: async () => {},
    usageStatus: 200,
    cloudStatus: 200,
    chatgptModels: undefined,
  };
  const openaiClient = 'app_EMoamEEZ73f0CkXaXp7hrann';

  const server = createServer((request, response) => {
    void answer(request, response).catch((thrown: Error) => json(response, 500, { error: thrown.message }));
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  /**
   * Returns a token as the service signs it; no client verifies the signature of a token that came straight from its service.
   */
  const jwt = (claims: Record<string, unknown>): string => {
    const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    return `${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}.${Buffer.from('signature').toString('base64url')}`;
  };

  function tokensFor(shape: 'openai' | 'google', client: string): Record<string, unknown> {
    const issuedAt = Math.floor(Date.now() / 1_000);
    const refreshToken = `refresh-${randomUUID()}`;
    const accessToken = `access-${randomUUID()}`;
    refreshTokens.add(refreshToken);
    accessTokens.add(accessToken);
    const own =
      shape === 'openai' ? { 'https://api.openai.com/auth': { chatgpt_account_id: 'acct-1' } } : { ...PROFILE };
    return {
      token_type: 'Bearer',
      access_token: accessToken,
      refresh_token: refreshToken,
      expires_in: behaviour.accessTokenSeconds,
      id_token: jwt({ iss: url, sub: 'user-1', aud: client, iat: issuedAt, exp: issuedAt + 3_600, ...own }),
    };
  }

  function authorize(query: URLSearchParams, shape: 'openai' | 'google', response: ServerResponse): void {
    const redirectUri = query.get('redirect_uri') ?? '';
    const challenge = query.get('code_challenge') ?? '';
    const client = shape === 'openai' ? openaiClient : GOOGLE_CLIENT.id;
    const wrong =
      query.get('client_id') !== client ||
      query.get('response_type') !== 'code' ||
      query.get('code_challenge_method') !== 'S256' ||
      !/^[\w-]{43}$/.test(challenge) ||
      !/^http:\/\/localhost:\d+\//.test(redirectUri) ||
      !query.get('state');
    if (wrong) return json(response, 400, { error: 'invalid_request' });
    const back = new URL(redirectUri);
    back.searchParams.set('state', query.get('state')!);
    if (behaviour.browser === 'deny') back.searchParams.set('error', 'access_denied');
    else {
      const code = `code-${randomUUID()}`;
      codes.set(code, { client, redirectUri, challenge, shape });
      back.searchParams.set('code', code);
    }
    response.writeHead(302, { location: back.href }).end();
  }

  async function token(form: URLSearchParams, shape: 'openai' | 'google', response: ServerResponse): Promise<void> {
    const client = form.get('client_id') ?? '';
    if (shape === 'google' && form.get('client_secret') !== GOOGLE_CLIENT.secret) {
      return json(response, 401, { error: 'invalid_client' });
    }
    if (form.get('grant_type') === 'refresh_token') {
      const old = form.get('refresh_token') ?? '';
      // Rotation: a refresh token is good once.
      if (behaviour.refuseRefresh || !refreshTokens.delete(old)) return json(response, 400, { error: 'invalid_grant' });
      const tokens = tokensFor(shape, client);
      await behaviour.refreshed();
      return json(response, 200, tokens);
    }
    const code = form.get('code') ?? '';
    const issued = codes.get(code);
    codes.delete(code);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const right =
      issued !== undefined &&
      issued.shape === shape &&
      issued.client === client &&
      issued.redirectUri === form.get('redirect_uri') &&
      issued.challenge === challenge;
    return right ? json(response, 200, tokensFor(shape, client)) : json(response, 400, { error: 'invalid_grant' });
  }

  let polls = 0;
  function pollDevice(response: ServerResponse): void {
    polls += 1;
    if (behaviour.device === 'deny') return json(response, 403, { error: 'access_denied' });
    if (behaviour.device === 'wait' || polls <= behaviour.pollsBefore) return json(response, 403, { error: 'pending' });
    const code = `code-${randomUUID()}`;
    const verifier = 'device-verifier-device-verifier-device-verifier';
    const challenge = createHash('sha256').update(verifier).digest('base64url');
    codes.set(code, { client: openaiClient, redirectUri: `${url}/deviceauth/callback`, challenge, shape: 'openai' });
    json(response, 200, { authorization_code: code, code_challenge: challenge, code_verifier: verifier });
  }

  function isSignedIn(request: IncomingMessage): boolean {
    return accessTokens.has(request.headers.authorization?.replace(/^Bearer /, '') ?? '');
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url!, url);
    requests.push(`${request.method} ${pathname}`);
    let body = '';
    for await (const chunk of request) body += chunk;
    const form = new URLSearchParams(body);
    switch (`${request.method} ${pathname}`) {
      case 'GET /.well-known/openid-configuration':
        return json(response, 200, {
          issuer: url,
          authorization_endpoint: `${url}/google/authorize`,
          token_endpoint: `${url}/google/token`,
          revocation_endpoint: `${url}/google/revoke`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['RS256'],
          jwks_uri: `${url}/google/certs`,
        });
      case 'GET /oauth/authorize':
        return authorize(searchParams, 'openai', response);
      case 'GET /google/authorize':
        return authorize(searchParams, 'google', response);
      case 'POST /oauth/token':
        return token(form, 'openai', response);
      case 'POST /google/token':
        return token(form, 'google', response);
      case 'POST /oauth/revoke':
      case 'POST /google/revoke':
        refreshTokens.delete(form.get('token') ?? '');
        return json(response, 200, {});
      case 'POST /api/accounts/deviceauth/usercode':
        polls = 0;
        if (behaviour.device === 'none') return json(response, 404, {});
        if (JSON.parse(body).client_id !== openaiClient) return json(response, 400, { error: 'invalid_client' });
        return json(response, 200, { device_auth_id: 'device-1', user_code: 'ABCD-1234', interval: '1' });
      case 'POST /api/accounts/deviceauth/token':
        if (JSON.parse(body).device_auth_id !== 'device-1') return json(response, 400, { error: 'invalid_request' });
        return pollDevice(response);
      case 'GET /backend-api/wham/usage':
        if (!isSignedIn(request) || request.headers['chatgpt-account-id'] !== 'acct-1') return json(response, 401, {});
        return json(response, behaviour.usageStatus, behaviour.usageStatus === 200 ? USAGE : { error: 'unavailable' });
      case 'GET /backend-api/codex/models':
        if (behaviour.chatgptModels === undefined) return json(response, 404, {});
        return json(response, isSignedIn(request) ? 200 : 401, { models: behaviour.chatgptModels });
      case 'POST /v1internal:loadCodeAssist':
        return json(response, isSignedIn(request) ? 200 : 401, { cloudaicompanionProject: 'project-1' });
      case 'POST /v1internal:fetchAvailableModels':
        if (!isSignedIn(request) || JSON.parse(body).project !== 'project-1') return json(response, 401, {});
        return json(response, behaviour.cloudStatus, { models: CLOUD_MODELS });
      default:
        return json(response, 404, { error: 'not_found' });
    }
  }

  return {
    url,
    env: {
      HANDFAST_OPENAI_ISSUER: url,
      HANDFAST_GOOGLE_ISSUER: url,
      HANDFAST_GOOGLE_CLIENT_ID: GOOGLE_CLIENT.id,
      HANDFAST_GOOGLE_CLIENT_SECRET: GOOGLE_CLIENT.secret,
    },
    requests,
    behaviour,
    refreshTokens,
    async browse(address) {
      const sent = await fetch(address, { redirect: 'manual' });
      await sent.body?.cancel();
      const location = sent.headers.get('location');
      if (location === null) return { status: sent.status, text: '' };
      const arrived = await fetch(location);
      return { status: arrived.status, text: await arrived.text() };
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
