/**
 * The official conformance suite against Handfast's MCP client, in both eras: every scenario that a revision requires,
 * with no expected failures. docs/reports/mcp-client-conformance.md has the results.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { root } from '../rules/scan.ts';

const SUITE = join(root, 'node_modules/@modelcontextprotocol/conformance');
const CLIENT = `${process.execPath} -C handfast-source test/support/mcp-conformance-client.ts`;
const REVISIONS = ['2025-11-25', '2026-07-28'];

interface Requirements {
  readonly client: readonly string[];
  readonly not_scored: readonly { readonly scenario: string; readonly leg: string }[];
}

/** Returns the requirements of a revision, as the suite has frozen them. */
const required = (revision: string): Requirements =>
  parse(readFileSync(join(SUITE, `requirements/${revision}.yaml`), 'utf8'));

/** Runs the scenarios of a revision; gives passed and failed checks by scenario. */
function run(revision: string, out: string): Promise<ReadonlyMap<string, readonly [passed: number, failed: number]>> {
  const words = ['client', '--command', CLIENT, '--requirements', revision, '--timeout', '120000', '-o', out];
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [join(SUITE, 'dist/index.js'), ...words],
      { cwd: root, timeout: 600_000, maxBuffer: 64 * 1024 * 1024 },
      (_error, stdout, stderr) => {
        const lines = `${stdout}\n${stderr}`.matchAll(/^[✓✗] (\S+): (\d+) passed, (\d+) failed/gm);
        resolve(new Map([...lines].map(([, name = '', ...counts]) => [name, counts.map(Number) as [number, number]])));
      },
    );
  });
}

for (const revision of REVISIONS) {
  test(`the conformance suite finds no fault in the client (${revision})`, async (t) => {
    assert.ok(existsSync(SUITE), 'npm install brings the suite');
    const out = mkdtempSync(join(tmpdir(), 'handfast-conformance-'));
    t.after(() => rmSync(out, { recursive: true, force: true }));
    const results = await run(revision, out);
    for (const scenario of required(revision).client) {
      const [passed = 0, failed] = results.get(scenario) ?? [];
      assert.ok(passed > 0 && failed === 0, `${scenario}: ${passed} passed, ${failed} failed`);
    }
  });
}

/** Scenarios that no revision requires, and that pass. */
const FURTHER = [
  'auth/client-credentials-basic',
  'auth/client-credentials-jwt',
  'auth/2025-03-26-oauth-metadata-backcompat',
  'auth/2025-03-26-oauth-endpoint-fallback',
  'json-schema-2020-12-preservation',
];

for (const scenario of FURTHER) {
  test(`the conformance suite finds no fault in the client (${scenario}, not required)`, async (t) => {
    const out = mkdtempSync(join(tmpdir(), 'handfast-conformance-'));
    t.after(() => rmSync(out, { recursive: true, force: true }));
    const words = ['client', '--command', CLIENT, '--scenario', scenario, '--timeout', '120000', '-o', out];
    const printed = await new Promise<string>((resolve) => {
      execFile(
        process.execPath,
        [join(SUITE, 'dist/index.js'), ...words],
        { cwd: root, timeout: 600_000 },
        (_, one, two) => resolve(`${one}\n${two}`),
      );
    });
    assert.match(printed, /Passed: (\d+)\/\1, 0 failed, 0 warnings/, printed.slice(-2_000));
  });
}

test('the report names the scenarios that are required, and those that are not scored', () => {
  const report = readFileSync(join(root, 'docs/reports/mcp-client-conformance.md'), 'utf8');
  const [, passed = '', others = ''] = /^## Passed\n([\s\S]*?)^## Not scored\n([\s\S]*)$/m.exec(report) ?? [];
  const rows = [...passed.matchAll(/^\| `([\w/-]+)` \| (yes)? ?\| (yes)? ?\|$/gm)];
  for (const [at, revision] of REVISIONS.entries()) {
    const { client, not_scored: unscored } = required(revision);
    const named = rows.filter((row) => row[at + 2] === 'yes').map(([, name = '']) => name);
    assert.deepEqual(named.sort(), [...client].sort(), revision);
    for (const { scenario, leg } of unscored) {
      assert.ok(leg !== 'client' || others.includes(`\`${scenario}\``), `${scenario} is in the report`);
    }
  }
});
