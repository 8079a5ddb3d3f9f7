/**
 * The official conformance suite against `/mcp` of a host, in both eras: every scenario for which a host has what it asks for.
 * docs/reports/mcp-server-conformance.md names the others, with what is missing.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { User } from '../cli/command.ts';
import { root } from '../rules/scan.ts';

const SUITE = join(root, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const tools = fileURLToPath(new URL('../support/mcp-conformance.mjs', import.meta.url));

/** Scenarios by revision. */
const SCENARIOS: Readonly<Record<string, readonly string[]>> = {
  '2025-11-25': [
    'server-initialize',
    'server-session-lifecycle',
    'ping',
    'logging-set-level',
    'tools-list',
    'tools-call-simple-text',
    'tools-call-image',
    'tools-call-audio',
    'tools-call-embedded-resource',
    'tools-call-mixed-content',
    'tools-call-with-logging',
    'tools-call-error',
    'tools-call-with-progress',
    'dns-rebinding-protection',
  ],
  '2026-07-28': [
    'tools-list',
    'tools-call-simple-text',
    'tools-call-image',
    'tools-call-audio',
    'tools-call-embedded-resource',
    'tools-call-mixed-content',
    'tools-call-error',
    'tools-call-with-progress',
    'dns-rebinding-protection',
    'http-header-validation',
  ],
};

/** Runs a scenario; gives its last line. */
function run(url: string, scenario: string, revision: string): Promise<string> {
  const words = ['server', '--url', url, '--scenario', scenario, '--spec-version', revision, '--timeout', '60000'];
  return new Promise((resolve) => {
    execFile(process.execPath, [SUITE, ...words], { timeout: 120_000 }, (_error, stdout, stderr) => {
      const passed = /^Passed: .*$/m.exec(stdout)?.[0];
      resolve(passed ?? `${stdout}${stderr}`.slice(-500));
    });
  });
}

for (const [revision, scenarios] of Object.entries(SCENARIOS)) {
  test(`the conformance suite finds no fault (${revision})`, async (t) => {
    assert.ok(existsSync(SUITE), 'npm install brings the suite');
    const user = new User();
    t.after(() => user.leave());
    user.write('trial.yaml', `plugins: [{ use: ${tools} }]\nauth: { required: false }\n`);
    const { ready } = await user.up(['--config', 'trial.yaml']);
    for (const scenario of scenarios) {
      const outcome = await run(`${ready.url}/mcp`, scenario, revision);
      assert.match(outcome, /^Passed: (\d+)\/\1, 0 failed, 0 warnings$/, `${scenario}: ${outcome}`);
    }
  });
}

test('the report names the scenarios that are run', () => {
  const report = readFileSync(join(root, 'docs/reports/mcp-server-conformance.md'), 'utf8');
  const [, listed = ''] = /^## Passed\n([\s\S]*?)^## /m.exec(report) ?? [];
  const rows = [...listed.matchAll(/^\| `([\w-]+)` \| (yes)? ?\| (yes)? ?\|$/gm)];
  for (const [at, revision] of ['2025-11-25', '2026-07-28'].entries()) {
    const named = rows.filter((row) => row[at + 2] === 'yes').map(([, name = '']) => name);
    assert.deepEqual(named.sort(), [...(SCENARIOS[revision] ?? [])].sort(), revision);
  }
});
