/**
 * Installs the real coding agents the interoperability tests run against, into a cache below `node_modules`, where neither
 * the package nor the linters see them. `node scripts/install-agents.ts`; needs the network, changes nothing else.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The versions the tests were written against. */
const AGENTS = ['opencode-ai@1.18.33', '@openai/codex@0.169.0'];

const INSTALL_MS = 600_000;

const folder = join(import.meta.dirname, '..', 'node_modules', '.cache', 'agents');
mkdirSync(folder, { recursive: true });
// A package of its own: npm would otherwise install into the project around it.
writeFileSync(join(folder, 'package.json'), '{"private":true}\n');
execFileSync('npm', ['install', '--no-audit', '--no-fund', '--no-package-lock', ...AGENTS], {
  cwd: folder,
  stdio: 'inherit',
  timeout: INSTALL_MS,
});
console.log(`installed ${AGENTS.join(', ')} in ${folder}`);
