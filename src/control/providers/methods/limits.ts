/**
 * The rest of the limits of the accounts that signed in: OpenAI's usage windows and Antigravity's quotas per model.
 *
 * Both providers are asked at the same time, each with its own deadline; one that fails is reported in its place and does not
 * affect the other.
 * @see docs/protocol/session-rpc.md#limits
 */
import { fail } from '../../../wire/errors.ts';
import type { ProviderAccess } from '../../contract/providers.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { Endpoints, LoginProvider } from '../http/endpoints.ts';
import { type Fetch, numberOf, record, requestJson, textOf } from '../http/http-json.ts';
import { credentialHeaders, expectOk } from '../models/model-sources.ts';

/** One window of usage. */
export interface LimitWindow {
  readonly usedPercent: number;
  readonly remainingPercent: number;
  readonly limitWindowSeconds: number | null;
  readonly resetAtEpochSeconds: number | null;
}

/** Reply of one provider; null = it is not connected. */
export type LimitReport<Limits> =
  | null
  | { readonly ok: false; readonly message: string }
  | { readonly ok: true; readonly snapshot: Limits };

export interface OpenAiLimits {
  readonly planType: string | null;
  readonly primary: LimitWindow | null;
  readonly secondary: LimitWindow | null;
}

export interface AntigravityLimits {
  readonly models: readonly {
    readonly name: string;
    readonly remainingPercent: number;
    readonly resetTime: string | null;
  }[];
}

/** Answer of `limits.get`. */
export type LimitsResult = {
  readonly openai: LimitReport<OpenAiLimits>;
  readonly antigravity: LimitReport<AntigravityLimits>;
};

/** Maximum number of models in a reply. */
const MAX_MODELS = 500;

/** Reads the limits. Fails with `not_configured` without a sign-in, or with the reason of `signal`. */
export async function readLimits(
  accounts: Accounts,
  endpoints: Endpoints,
  fetch: Fetch,
  signal: AbortSignal,
): Promise<LimitsResult> {
  if (!accounts.isSignedIn('openai') && !accounts.isSignedIn('antigravity')) {
    throw fail('not_configured', 'limits requires at least one oauth provider');
  }

  async function report<Limits>(
    provider: LoginProvider,
    read: (access: ProviderAccess) => Promise<Limits>,
  ): Promise<LimitReport<Limits>> {
    if (!accounts.isSignedIn(provider)) return null;
    try {
      return { ok: true, snapshot: await read(await accounts.access(provider, signal)) };
    } catch (thrown) {
      signal.throwIfAborted();
      return { ok: false, message: (thrown as Error).message };
    }
  }

  const [openai, antigravity] = await Promise.all([
    report('openai', async (access) => {
      const url = `${endpoints.openai.chatgptUrl}/wham/usage`;
      const answer = await requestJson(fetch, { url, headers: credentialHeaders('openai', access), signal });
      return openAiLimits(expectOk(answer, access));
    }),
    report('antigravity', async (access) => {
      const answer = await requestJson(fetch, {
        url: `${access.baseUrl}/v1internal:fetchAvailableModels`,
        body: { project: access.project },
        headers: credentialHeaders('antigravity', access),
        signal,
      });
      return antigravityLimits(expectOk(answer, access));
    }),
  ]);
  return { openai, antigravity };
}

function openAiLimits(body: unknown): OpenAiLimits {
  const { plan_type, rate_limit } = record(body);
  const { primary_window, secondary_window } = record(rate_limit);
  return {
    planType: textOf(plan_type) ?? null,
    primary: windowOf(primary_window),
    secondary: windowOf(secondary_window),
  };
}

function windowOf(value: unknown): LimitWindow | null {
  const { used_percent, limit_window_seconds, reset_at } = record(value);
  const used = numberOf(used_percent);
  if (used === undefined) return null;
  const usedPercent = percent(used);
  return {
    usedPercent,
    remainingPercent: percent(100 - usedPercent),
    limitWindowSeconds: numberOf(limit_window_seconds) ?? null,
    resetAtEpochSeconds: numberOf(reset_at) ?? null,
  };
}

function antigravityLimits(body: unknown): AntigravityLimits {
  const models = Object.entries(record(record(body).models)).flatMap(([id, entry]) => {
    const { displayName, quotaInfo } = record(entry);
    if (quotaInfo === undefined) return [];
    const { remainingFraction, resetTime } = record(quotaInfo);
    return {
      name: textOf(displayName) ?? id,
      // The service leaves the fraction out once nothing is left.
      remainingPercent: percent((numberOf(remainingFraction) ?? 0) * 100),
      resetTime: textOf(resetTime) ?? null,
    };
  });
  return { models: models.slice(0, MAX_MODELS).sort((one, other) => (one.name < other.name ? -1 : 1)) };
}

/** Returns a percentage within 0 and 100, with at most two decimals. */
const percent = (value: number): number => Math.round(Math.min(100, Math.max(0, value)) * 100) / 100;
