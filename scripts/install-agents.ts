/**
 * Installs the real coding agents the interoperability tests run against, into a cache below `node_modules`, where
 * neither the package nor the linters see them. `node scripts/install-agents.ts [agents] [loaf] [python-sdk]`; changes
 * nothing else.
 *
 * Without a name it installs the packages of the registry. The agent loaf and the A2E Python SDK come from their
 * repositories, or from the clones that `HANDFAST_LOAF_GIT` and `HANDFAST_PYTHON_SDK_GIT` name, and only when they are
 * named.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The versions the tests were written against. */
const AGENTS = ['opencode-ai@1.18.33', '@openai/codex@0.169.0'];

const LOAF = {
  from: process.env.HANDFAST_LOAF_GIT ?? 'https://github.com/veyzyn/loaf',
  commit: 'ab9145757f0c38da1c127214199881db233d7aab',
  /**
   * Packages that its server and its terminal client import, as its lockfile pins them. `node-pty` with a binary in its
   * package.
   */
  packages: [
    'google-auth-library@9.15.1',
    'ink@5.2.1',
    'ink-spinner@5.0.0',
    'ink-text-input@6.0.0',
    'node-pty@npm:@lydell/node-pty@1.1.0',
    'openai@6.22.0',
    'react@18.3.1',
    'tsx@4.21.0',
  ],
};

/** The commit that `docs/interop.md` is about. Its Python packages are those of the tests' own environment. */
const PYTHON_SDK = {
  from: process.env.HANDFAST_PYTHON_SDK_GIT ?? 'https://github.com/a2eprotocol/python-sdk',
  commit: 'c8fc1f87000f02a27c98f5700f3f62b6fc4e3ba7',
};

const INSTALL_MS = 600_000;

const cache = join(import.meta.dirname, '..', 'node_modules', '.cache', 'agents');

function install(folder: string, packages: readonly string[]): void {
  mkdirSync(folder, { recursive: true });
  // A separate package: npm would otherwise install into the project around it.
  writeFileSync(join(folder, 'package.json'), '{"private":true}\n');
  const words = ['install', '--no-audit', '--no-fund', '--no-package-lock', ...packages];
  execFileSync('npm', words, { cwd: folder, stdio: 'inherit', timeout: INSTALL_MS });
  console.log(`installed ${packages.join(', ')} in ${folder}`);
}

/** Fetches the unchanged sources of a commit, into a separate folder. */
function fetchSources(sources: string, { from, commit }: { readonly from: string; readonly commit: string }): void {
  rmSync(sources, { recursive: true, force: true });
  mkdirSync(sources, { recursive: true });
  const git = (...words: string[]) =>
    execFileSync('git', ['-C', sources, ...words], { stdio: 'inherit', timeout: INSTALL_MS });
  git('init', '--quiet');
  git('fetch', '--quiet', '--depth', '1', from, commit);
  git('checkout', '--quiet', 'FETCH_HEAD');
}

function installLoaf(folder: string): void {
  fetchSources(join(folder, 'loaf'), LOAF);
  install(folder, LOAF.packages);
}

/** Installs the SDK in one step: the tests run when it exists. */
function installPythonSdk(folder: string): void {
  const fresh = `${folder}-${process.pid}`;
  try {
    fetchSources(fresh, PYTHON_SDK);
    rmSync(folder, { recursive: true, force: true });
    renameSync(fresh, folder);
    console.log(`fetched ${PYTHON_SDK.from} at ${PYTHON_SDK.commit} into ${folder}`);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

const parts: Readonly<Record<string, () => void>> = {
  agents: () => install(cache, AGENTS),
  loaf: () => installLoaf(join(cache, 'loaf')),
  'python-sdk': () => installPythonSdk(join(cache, 'a2e-python-sdk')),
};
const wanted = process.argv.length > 2 ? process.argv.slice(2) : ['agents'];
for (const name of wanted) {
  const part = parts[name];
  if (part === undefined) throw new Error(`no part ${name}; there are: ${Object.keys(parts).join(', ')}`);
  part();
}
