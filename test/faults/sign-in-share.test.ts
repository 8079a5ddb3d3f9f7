/**
 * Running sign-ins of principals have shares: a principal past its share is refused, while another one signs in to the
 * same provider; the first may sign in again once one of its sign-ins has ended.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GOOGLE_CLIENT, startLoginService } from '../control/support/login-service.ts';
import { sharesServer } from './shares-server.ts';

const SECRET = 'HANDFAST_TEST_SIGN_IN_SECRET';

test('a principal at its share of sign-ins is refused, another one signs in meanwhile, and it again afterwards', async (t) => {
  await using login = await startLoginService();
  login.behaviour.device = 'wait';
  process.env[SECRET] = GOOGLE_CLIENT.secret;
  t.after(() => delete process.env[SECRET]);
  const grants = 'roles: [client], settings: true';
  const server = await sharesServer(
    t,
    { greedy: grants, other: grants },
    `limits: { max_sign_ins: 3, max_sign_ins_per_principal: 1 }
providers:
  openai: { issuer: "${login.url}" }
  antigravity: { issuer: "${login.url}", client_id: ${GOOGLE_CLIENT.id}, client_secret_env: ${SECRET} }
`,
  );
  for (const round of ['first', 'after a restart']) {
    const greedy = await server.client('greedy');
    const other = await server.client('other');
    const start = (client: typeof greedy) =>
      assert.rejects(client.call('auth.connect.openai', { mode: 'device_code' }, { timeoutMs: 0 }), {
        code: 'cancelled',
      });
    const first = start(greedy);
    await server.until('sign_ins', ({ used }) => used === 1);
    await assert.rejects(greedy.call('auth.connect.antigravity', {}), (error: { code: string; detail: object }) => {
      assert.equal(error.code, 'over_capacity');
      const { retry_after_ms, share } = error.detail as { retry_after_ms: number; share: string };
      assert.ok(retry_after_ms > 0);
      assert.equal(share, 'sign_ins');
      return true;
    });
    const second = start(other);
    const usage = await server.until('sign_ins', ({ used }) => used === 2);
    assert.deepEqual(usage, { used: 2, refused: 1, principals: { greedy: 1, other: 1 } }, round);
    // A principal cancels only its own sign-in.
    assert.deepEqual(await greedy.call('auth.cancel', {}), { cancelled: true });
    await first;
    await server.until('sign_ins', ({ principals }) => principals.greedy === undefined && principals.other === 1);
    const again = start(greedy);
    await server.until('sign_ins', ({ used }) => used === 2);
    await Promise.all([greedy.call('auth.cancel', {}), other.call('auth.cancel', {})]);
    await Promise.all([again, second]);
    await Promise.all([greedy.close(), other.close()]);
    await server.restart();
  }
});
