/** Wrong tokens behind a proxy are counted for the client that the proxy names, when the configuration names the proxy. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { startServer } from '../../support/serve-child.ts';

/** Asks with a wrong token, as a proxy that forwards for `client`. */
async function guesser(t: TestContext, yaml: string): Promise<(client: string) => Promise<number>> {
  const server = await startServer(yaml);
  t.after(() => server.stop());
  return async (client) => {
    const headers = { Authorization: 'Bearer wrong', 'X-Forwarded-For': client };
    return (await fetch(`${server.http}/status`, { headers })).status;
  };
}

test('a client that guesses delays itself, and not the others behind the same proxy', async (t) => {
  const guess = await guesser(t, 'http: { trusted_proxies: ["127.0.0.0/8"] }\n');
  for (let at = 0; at < 8; at++) assert.equal(await guess('192.0.2.1'), 401);
  const order: string[] = [];
  await Promise.all([
    guess('192.0.2.1').then(() => order.push('the guesser')),
    guess('192.0.2.2').then(() => order.push('another')),
  ]);
  assert.deepEqual(order, ['another', 'the guesser']);
});

test('a proxy that is not named is one address, with any headers', async (t) => {
  const guess = await guesser(t, '');
  for (let at = 0; at < 7; at++) await guess(`192.0.2.${at}`);
  const from = performance.now();
  assert.equal(await guess('192.0.2.99'), 401);
  assert.ok(performance.now() - from > 500, 'the eighth failure of one address waits');
});

test('an invalid address or network is reported by line', async () => {
  const { loadConfig } = await import('../../../src/config/config.ts');
  const { mkdtempSync, rmSync, writeFileSync } = await import('node:fs');
  const { tmpdir } = await import('node:os');
  const { join } = await import('node:path');
  const folder = mkdtempSync(join(tmpdir(), 'handfast-'));
  try {
    const file = join(folder, 'handfast.yaml');
    for (const wrong of ['proxy.lan', '10.0.0.0/33', '10.0.0/8', '::1/129']) {
      writeFileSync(file, `http:\n  trusted_proxies:\n    - "${wrong}"\n`);
      await assert.rejects(
        loadConfig(file),
        /handfast\.yaml:3:.*an IP address, or a network like 10\.0\.0\.0\/8/s,
        wrong,
      );
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
