/**
 * The address of each provider and the client that signs in there: the `providers` section of the configuration, then the
 * environment over it. Everything is configurable, so that a proxy, a gateway or a local server can stand in.
 *
 * Read once at start. A sign-in service that is not the provider's own is never handed the provider's own API address by
 * default: tokens of one must not travel to the other.
 */
import { trimmedEnd } from '../../../base/trim-end.ts';
import type { Provider } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';

/** The providers that take an API key; all but the one that only signs in. */
export type KeyProvider = Exclude<Provider, 'antigravity'>;
/** The providers that sign in with OAuth. */
export type LoginProvider = 'openai' | 'antigravity';

/** One provider that takes a key, in the configuration. */
export interface KeyProviderConfig {
  /** Address of its API, up to and including the version. */
  readonly baseUrl?: string;
  /** Name of the environment variable that holds the key. */
  readonly apiKeyEnv?: string;
}

/** The `providers` section of the configuration. Everything in it is optional. */
export interface ProvidersConfig {
  readonly openai?: KeyProviderConfig & {
    /** Sign-in service. */
    readonly issuer?: string;
    readonly clientId?: string;
    /** Address of the service behind a ChatGPT sign-in. */
    readonly chatgptUrl?: string;
  };
  readonly openrouter?: KeyProviderConfig;
  readonly anthropic?: KeyProviderConfig;
  readonly google?: KeyProviderConfig;
  /** Any server that speaks the OpenAI chat API; enabled once it has an address. */
  readonly compatible?: KeyProviderConfig & {
    /** Model ids, for servers that cannot list them. */
    readonly models?: readonly string[];
  };
  readonly antigravity?: {
    readonly issuer?: string;
    /** OAuth client of the type "desktop"; none is built in, because Google's belong to its own products. */
    readonly clientId?: string;
    /** Name of the environment variable that holds the client's secret. */
    readonly clientSecretEnv?: string;
    /** Address of the Cloud Code service. */
    readonly baseUrl?: string;
  };
  /** False stores the secrets in a private file even where the system has a keyring. */
  readonly keyring?: boolean;
}

/** A provider's API. */
export interface KeyEndpoint {
  /** Without a final slash; undefined = not configured (only `compatible`). */
  readonly baseUrl: string | undefined;
  /** The key found in the environment. */
  readonly key: string | undefined;
  /** The variables that are read for the key, in order; the first that is set holds it. Never empty. */
  readonly keyEnvs: readonly string[];
  /** The variable that holds `key`. */
  readonly keyEnv: string | undefined;
}

/** All addresses, resolved. None ends with a slash. */
export interface Endpoints {
  readonly api: Readonly<Record<KeyProvider, KeyEndpoint>>;
  readonly compatibleModels: readonly string[];
  readonly openai: { readonly issuer: string; readonly clientId: string; readonly chatgptUrl: string };
  readonly antigravity: {
    readonly issuer: string;
    readonly clientId: string | undefined;
    readonly clientSecret: string | undefined;
    readonly cloudCodeUrl: string;
  };
}

export type Environment = Readonly<Record<string, string | undefined>>;

const OPENAI_ISSUER = 'https://auth.openai.com';
const GOOGLE_ISSUER = 'https://accounts.google.com';
/**
 * The public client of OpenAI's open-source command line, the only one its sign-in service offers to tools on a user's
 * machine. A public client has no secret; `providers.openai.client_id` replaces it.
 */
const OPENAI_CLIENT_ID = 'app_EMoamEEZ73f0CkXaXp7hrann';

/** Default address of each API, and the variables that name its address and its key. */
const DEFAULTS: Readonly<Record<KeyProvider, { url?: string; urlEnv: string; keyEnvs: readonly string[] }>> = {
  openai: { url: 'https://api.openai.com/v1', urlEnv: 'OPENAI_BASE_URL', keyEnvs: ['OPENAI_API_KEY'] },
  openrouter: { url: 'https://openrouter.ai/api/v1', urlEnv: 'OPENROUTER_BASE_URL', keyEnvs: ['OPENROUTER_API_KEY'] },
  anthropic: { url: 'https://api.anthropic.com/v1', urlEnv: 'ANTHROPIC_BASE_URL', keyEnvs: ['ANTHROPIC_API_KEY'] },
  google: {
    url: 'https://generativelanguage.googleapis.com/v1beta',
    urlEnv: 'GOOGLE_BASE_URL',
    // The common names: the AI SDK's, the one of Google's own command line, and the one of its older libraries.
    keyEnvs: ['GOOGLE_GENERATIVE_AI_API_KEY', 'GEMINI_API_KEY', 'GOOGLE_API_KEY'],
  },
  compatible: { urlEnv: 'HANDFAST_COMPATIBLE_BASE_URL', keyEnvs: ['HANDFAST_COMPATIBLE_API_KEY'] },
};

/** Returns the addresses in force. Fails with `config_invalid`, naming the setting whose value is not an address. */
export function resolveEndpoints(config: ProvidersConfig, env: Environment): Endpoints {
  const given = (name: string): string | undefined => env[name]?.trim() || undefined;
  /** Returns the variable's value, else the setting's, checked under the name it came from. */
  const address = (variable: string, setting: string, configured: string | undefined): string | undefined => {
    const fromEnvironment = given(variable);
    const value = fromEnvironment ?? configured;
    return value && checkedUrl(value, fromEnvironment === undefined ? setting : variable);
  };
  const endpoint = (provider: KeyProvider): KeyEndpoint => {
    const { url, urlEnv, keyEnvs: usual } = DEFAULTS[provider];
    const settings = config[provider];
    const keyEnvs = settings?.apiKeyEnv === undefined ? usual : [settings.apiKeyEnv];
    const keyEnv = keyEnvs.find((name) => given(name) !== undefined);
    return {
      baseUrl: address(urlEnv, `providers.${provider}.base_url`, settings?.baseUrl) ?? url,
      key: keyEnv && given(keyEnv),
      keyEnvs,
      keyEnv,
    };
  };

  const openai = config.openai ?? {};
  const issuer = address('HANDFAST_OPENAI_ISSUER', 'providers.openai.issuer', openai.issuer) ?? OPENAI_ISSUER;
  const google = config.antigravity ?? {};
  const googleIssuer = address('HANDFAST_GOOGLE_ISSUER', 'providers.antigravity.issuer', google.issuer);
  return {
    api: {
      openai: endpoint('openai'),
      openrouter: endpoint('openrouter'),
      anthropic: endpoint('anthropic'),
      google: endpoint('google'),
      compatible: endpoint('compatible'),
    },
    compatibleModels: config.compatible?.models ?? [],
    openai: {
      issuer,
      clientId: given('HANDFAST_OPENAI_CLIENT_ID') ?? openai.clientId ?? OPENAI_CLIENT_ID,
      chatgptUrl:
        address('HANDFAST_CHATGPT_URL', 'providers.openai.chatgpt_url', openai.chatgptUrl) ??
        `${issuer === OPENAI_ISSUER ? 'https://chatgpt.com' : issuer}/backend-api`,
    },
    antigravity: {
      issuer: googleIssuer ?? GOOGLE_ISSUER,
      clientId: given('HANDFAST_GOOGLE_CLIENT_ID') ?? google.clientId,
      clientSecret: given(google.clientSecretEnv ?? 'HANDFAST_GOOGLE_CLIENT_SECRET'),
      cloudCodeUrl:
        address('HANDFAST_CLOUD_CODE_URL', 'providers.antigravity.base_url', google.baseUrl) ??
        googleIssuer ??
        'https://cloudcode-pa.googleapis.com',
    },
  };
}

/**
 * Returns an http(s) address without credentials, query or fragment, and without a final slash. Fails with `config_invalid`
 * under `name`; the value is not repeated, it may hold a password.
 */
export function checkedUrl(value: string, name: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const plain = url !== undefined && url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!plain || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw fail('config_invalid', `${name} must be an http:// or https:// address without user, query or fragment`, {
      setting: name,
    });
  }
  return trimmedEnd(url.href, '/');
}

/** True for `http:` on this machine, the one place where OAuth may go without TLS. */
export function isLoopback(address: string): boolean {
  const { hostname } = new URL(address);
  return hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}
