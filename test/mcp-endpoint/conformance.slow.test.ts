/**
 * The official conformance suite against `/mcp` of a host, in both eras: every scenario of both revisions.
 * docs/reports/mcp-server-conformance.md has the list.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { User } from '../cli/command.ts';
import { root } from '../rules/scan.ts';

const SUITE = join(root, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const support = (name: string): string => fileURLToPath(new URL(`../support/${name}`, import.meta.url));
const tools = support('mcp-conformance.mjs');
const contents = support('mcp-conformance-contents.mjs');

/** Scenarios by revision: all that the suite has for it. */
function scenariosOf(revision: string): string[] {
  const listed = spawnSync(process.execPath, [SUITE, 'list', '--server'], { encoding: 'utf8' }).stdout;
  const rows = [...listed.matchAll(/^ {2}- ([\w-]+) \[([^\]]*)\]$/gm)];
  return rows.filter(([, , revisions = '']) => revisions.split(',').includes(revision)).map(([, name = '']) => name);
}

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

const REVISIONS = ['2025-11-25', '2026-07-28'] as const;

for (const revision of REVISIONS) {
  test(`the conformance suite finds no fault (${revision})`, async (t) => {
    assert.ok(existsSync(SUITE), 'npm install brings the suite');
    const user = new User();
    t.after(() => user.leave());
    const servers = [{ name: 'contents', command: process.execPath, args: [contents], may_ask: ['elicitation'] }];
    const plugins = [{ use: tools }, { use: 'mcp', options: { servers } }];
    user.write('trial.yaml', JSON.stringify({ plugins, auth: { required: false } }));
    const { ready } = await user.up(['--config', 'trial.yaml']);
    const scenarios = scenariosOf(revision);
    assert.ok(scenarios.length >= 30, `${scenarios.length} scenarios`);
    const faults: string[] = [];
    for (const scenario of scenarios) {
      const outcome = await run(`${ready.url}/mcp`, scenario, revision);
      if (!/^Passed: ([1-9]\d*)\/\1, 0 failed, 0 warnings$/.test(outcome)) faults.push(`${scenario}: ${outcome}`);
    }
    assert.deepEqual(faults, []);
  });
}

test('the report names the scenarios that are run', () => {
  const report = readFileSync(join(root, 'docs/reports/mcp-server-conformance.md'), 'utf8');
  const [, listed = ''] = /^## Passed\n([\s\S]*?)^## /m.exec(report) ?? [];
  const rows = [...listed.matchAll(/^\| `([\w-]+)` \| (yes)? ?\| (yes)? ?\|$/gm)];
  for (const [at, revision] of REVISIONS.entries()) {
    const named = rows.filter((row) => row[at + 2] === 'yes').map(([, name = '']) => name);
    assert.deepEqual(named.sort(), scenariosOf(revision).sort(), revision);
  }
});
