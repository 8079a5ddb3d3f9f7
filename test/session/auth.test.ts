/**
 * Tokens: their owners, refusals, and that a comparison shows nothing by its form or its time.
 */
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { test } from 'node:test';
import {
  createAuthenticator,
  LOCAL_PRINCIPAL,
  localGrant,
  MAX_TOKEN_CHARACTERS,
  tokenDigest,
} from '../../src/session/auth.ts';

const TOKEN = 'hf_0123456789abcdef0123456789abcdef';

function grantsOf(owners: Record<string, string[]>) {
  return Object.entries(owners).map(([name, tokens]) => ({
    principal: { name, capabilities: ['*'] },
    digests: tokens.map(tokenDigest),
  }));
}

test('without grants every client is the local principal, with any token', () => {
  const { hasTokens, authenticate } = createAuthenticator([]);
  assert.equal(hasTokens, false);
  for (const token of [undefined, '', 'anything', 7]) assert.equal(authenticate(token), LOCAL_PRINCIPAL);
});

test('a token is its owner’s, and several live tokens of one name all are', () => {
  const { hasTokens, authenticate } = createAuthenticator(
    grantsOf({ ci: [`${TOKEN}-old`, `${TOKEN}-new`], ops: [TOKEN] }),
  );
  assert.equal(hasTokens, true);
  assert.equal(authenticate(`${TOKEN}-old`)?.name, 'ci');
  assert.equal(authenticate(`${TOKEN}-new`)?.name, 'ci');
  assert.equal(authenticate(TOKEN)?.name, 'ops');
});

test('the token made for this user’s command line belongs to the local principal', () => {
  const { authenticate } = createAuthenticator([localGrant(TOKEN)]);
  assert.equal(authenticate(TOKEN), LOCAL_PRINCIPAL);
  assert.equal(authenticate(undefined), undefined);
});

test('a token that is longer than any token is refused, though it was listed', () => {
  const longest = 'x'.repeat(MAX_TOKEN_CHARACTERS);
  const { authenticate } = createAuthenticator(grantsOf({ ci: [longest], long: [`${longest}x`] }));
  assert.equal(authenticate(longest)?.name, 'ci');
  assert.equal(authenticate(`${longest}x`), undefined);
});

test('nothing but the exact text is accepted', () => {
  const { authenticate } = createAuthenticator(grantsOf({ ci: [TOKEN, 'token-with-\ufffd-inside'] }));
  const wrong: unknown[] = [
    undefined,
    null,
    '',
    0,
    true,
    [TOKEN],
    { toString: () => TOKEN },
    Buffer.from(TOKEN),
    TOKEN.slice(0, -1),
    `${TOKEN}x`,
    ` ${TOKEN}`,
    `${TOKEN}\n`,
    `${TOKEN}\0`,
    TOKEN.toUpperCase(),
    'ci',
    tokenDigest(TOKEN),
    Buffer.from(tokenDigest(TOKEN)).toString('hex'),
    'x'.repeat(1_000_000),
    // Encoded as UTF-8, half a surrogate pair becomes the same replacement character.
    'token-with-\ud800-inside',
  ];
  for (const token of wrong) assert.equal(authenticate(token), undefined);
});

test('each attempt hashes once and compares with every digest, also after a match and for what is no text', (t) => {
  const grants = grantsOf({ a: [`${TOKEN}1`, `${TOKEN}2`], b: [`${TOKEN}3`], c: [`${TOKEN}4`] });
  const compare = t.mock.method(crypto, 'timingSafeEqual');
  const hash = t.mock.method(crypto, 'hash');
  const { authenticate } = createAuthenticator(grants);
  for (const token of [`${TOKEN}1`, `${TOKEN}4`, 'wrong', '', undefined, ['x'], 'long'.repeat(1000)]) {
    compare.mock.resetCalls();
    hash.mock.resetCalls();
    authenticate(token);
    assert.equal(compare.mock.callCount(), 4);
    assert.equal(hash.mock.callCount(), 1);
    // Digests have one length, so the comparison itself cannot show the length of a token.
    for (const call of compare.mock.calls)
      assert.deepEqual(
        call.arguments.map((each) => each.byteLength),
        [32, 32],
      );
  }
});
