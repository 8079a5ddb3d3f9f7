/**
 * The claims of a sign-in's tokens: the account and the expiry. Pure.
 *
 * Tokens are read, not verified: they came straight from the service, and nothing here decides about rights.
 */
import type { AntigravityProfile } from '../../../protocol/session-types.ts';
import { numberOf, record, textOf } from '../http/http-json.ts';
import type { Tokens } from './oauth.ts';

/** Lifetime of a token whose service states none: it is renewed after that. */
const UNSAID_LIFETIME_MS = 60 * 60 * 1_000;

/** Returns the end of the access token, in epoch milliseconds: as the service stated, else as the token itself does. */
export function expiryOf(tokens: Tokens, now: number): number {
  if (tokens.expiresInSeconds !== undefined) return now + tokens.expiresInSeconds * 1_000;
  const ends = numberOf(payloadOf(tokens.accessToken).exp);
  return ends === undefined ? now + UNSAID_LIFETIME_MS : ends * 1_000;
}

/** Returns the ChatGPT account a sign-in belongs to; undefined when no token names one. */
export function accountOf(tokens: Tokens): string | undefined {
  for (const claims of [tokens.claims, payloadOf(tokens.accessToken)]) {
    const { chatgpt_account_id } = record(claims['https://api.openai.com/auth']);
    const account = textOf(chatgpt_account_id) ?? textOf(claims.chatgpt_account_id);
    if (account !== undefined) return account;
  }
  return undefined;
}

/** Returns the profile of the Google account; undefined when the ID token has no e-mail address. */
export function profileOf(tokens: Tokens): AntigravityProfile | undefined {
  const email = textOf(tokens.claims.email);
  if (email === undefined) return undefined;
  const picture = textOf(tokens.claims.picture);
  return { email, name: textOf(tokens.claims.name) ?? '', ...(picture === undefined ? {} : { picture }) };
}

/** Returns the claims of a token that is a JWT; none of any other. */
function payloadOf(token: string): Readonly<Record<string, unknown>> {
  try {
    return record(JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8')));
  } catch {
    return {};
  }
}
