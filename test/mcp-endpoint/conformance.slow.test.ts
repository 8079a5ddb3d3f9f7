/**
 * The official conformance suite against `/mcp` of a host, in both eras: every scenario of both revisions.
 * docs/reports/mcp-server-conformance.md has the list.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
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

/** Number of a scenario's checks by outcome. */
type Outcome = Readonly<Record<'SUCCESS' | 'FAILURE' | 'WARNING', number>>;

/** Runs all scenarios of a revision in one process, which writes the checks of each into a separate folder. */
async function run(url: string, revision: string, out: string): Promise<ReadonlyMap<string, Outcome>> {
  const words = ['server', '--url', url, '--suite', 'all', '--spec-version', revision, '--timeout', '60000', '-o', out];
  await new Promise<void>((resolve) =>
    execFile(process.execPath, [SUITE, ...words], { timeout: 240_000 }, () => resolve()),
  );
  return new Map(
    readdirSync(out).map((folder) => {
      const [, name = folder] = /^server-(.*?)-\d{4}-\d\d-\d\dT/.exec(folder) ?? [];
      const checks: { status: string }[] = JSON.parse(readFileSync(join(out, folder, 'checks.json'), 'utf8'));
      const ended = (how: string): number => checks.filter(({ status }) => status === how).length;
      return [name, { SUCCESS: ended('SUCCESS'), FAILURE: ended('FAILURE'), WARNING: ended('WARNING') }];
    }),
  );
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
    const outcomes = await run(`${ready.url}/mcp`, revision, join(user.folder, 'outcomes'));
    assert.deepEqual([...outcomes.keys()].sort(), scenarios.sort());
    const faults = [...outcomes].filter(([, { SUCCESS, FAILURE, WARNING }]) => SUCCESS === 0 || FAILURE + WARNING > 0);
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
