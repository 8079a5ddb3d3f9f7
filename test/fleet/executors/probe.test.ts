/**
 * The check whether a program could work: its report about itself, and the longest time for it.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ExecutorConfig } from '../../../src/fleet/executors/config.ts';
import type { Readiness } from '../../../src/fleet/executors/executor.ts';
import { makeExecutor } from '../../../src/fleet/executors/make.ts';
import { within } from '../../contract/recorder.ts';
import { type FakeCli, fakeCli, type PlayedRun } from './fake-cli.ts';
import { fakeLog } from './fake-context.ts';

/** Puts the bound of a probe into the hands of the test: it does not run out on a machine that is busy. */
function bound(context: TestContext): { readonly asked: readonly number[]; runOut(): void } {
  const over = new AbortController();
  const asked: number[] = [];
  context.mock.method(AbortSignal, 'timeout', (ms: number) => {
    asked.push(ms);
    return over.signal;
  });
  return { asked, runOut: () => over.abort() };
}

/** Makes a program that answers two questions the same, since both are asked at once. */
const twice = (run: PlayedRun): FakeCli => fakeCli(run, run);

const probe = (kind: 'claude' | 'codex', cli: FakeCli, env: Record<string, string> = {}): Promise<Readiness> => {
  const none = { ANTHROPIC_API_KEY: '', ANTHROPIC_AUTH_TOKEN: '', CLAUDE_CODE_OAUTH_TOKEN: '', CODEX_API_KEY: '' };
  const config: ExecutorConfig = { kind, command: cli.command, env: { ...none, CODEX_HOME: cli.home, ...env } };
  return makeExecutor(config, { home: cli.home, log: fakeLog() }).probe(new AbortController().signal);
};

test('a program tells its version and who is signed in, by its own command', async (context) => {
  bound(context);
  using codex = twice({ stdout: 'codex-cli 0.169.0\n' });
  assert.deepEqual(await probe('codex', codex), {
    present: true,
    authenticated: true,
    detail: '0.169.0',
    version: '0.169.0',
  });
  assert.deepEqual(codex.runs.map(({ argv }) => argv.join(' ')).sort(), ['--version', 'login status']);
  using claude = twice({ stdout: '{"loggedIn": false, "version": "2.1.4"}\n' });
  const nobody = await probe('claude', claude);
  assert.equal(nobody.authenticated, false);
  assert.match(nobody.detail, /claude is not signed in/);
  using key = twice({ stdout: '2.1.4 (Claude Code)\n' });
  assert.equal((await probe('claude', key, { ANTHROPIC_API_KEY: 'k' })).authenticated, true);
});

test('whether there is a sign-in is left open where another provider is configured', async (context) => {
  bound(context);
  using cli = twice({ stdout: 'Not logged in\n', code: 1 });
  writeFileSync(join(cli.home, 'config.toml'), 'model_provider = "mine"\n');
  // A program that refuses to tell its version does not run.
  assert.deepEqual((await probe('codex', cli)).present, false);
});

test('a program that hangs is ended within three seconds, and nothing is said of it', async (context) => {
  const { asked, runOut } = bound(context);
  using stuck = twice({ hangs: 'stubborn' });
  const readiness = probe('codex', stuck);
  const begun = async (): Promise<void> => {
    while (stuck.runs.length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
  };
  await within(begun(), 'both questions to be asked');
  runOut();
  assert.deepEqual(await within(readiness, 'the probe to end'), { present: true, detail: stuck.command });
  assert.ok(asked.length === 1 && Number(asked[0]) < 2900, `${asked} ms`);
});
