/** The fleet cases against an orchestrator and a worker with one fault each. Without a fault, all of them pass. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fleetCases } from '../../src/conformance/fleet/cases.ts';
import { FleetRun } from '../../src/conformance/fleet/context.ts';
import { parseTcpAddress } from '../../src/transport/socket.ts';
import { User } from '../cli/command.ts';
import { root } from '../rules/scan.ts';
import { faultyRelay } from './support/faulty-relay.ts';
import { orchestratorFaults, workerFaults } from './support/fleet-faults.ts';
import { notices, patienceOf } from './support/with-fault.ts';

const user = new User();
after(() => user.leave());

describe('an orchestrator with a fault', () => {
  let port = 0;
  let token = '';
  before(async () => {
    const fleet = user.start(['fleet', 'up', '--json', '--listen', 'tcp://127.0.0.1:0']);
    await fleet.says('\n');
    const { listeners, token_file } = JSON.parse(fleet.stdout) as { listeners: string[]; token_file: string };
    const address = listeners.find((each) => each.startsWith('tcp:'));
    assert.ok(address !== undefined, fleet.stdout);
    ({ port } = parseTcpAddress(address));
    token = readFileSync(token_file, 'utf8').trim();
  });
  for (const fault of orchestratorFaults) {
    test(fault.name, async (t) => {
      const address = await faultyRelay(t, port, fault, { token });
      await notices(fleetCases, new FleetRun({ address, token, patienceMs: patienceOf(fault) }), fault);
    });
  }
});

describe('a worker with a fault', () => {
  before(() => {
    const git = (...words: string[]) => execFileSync('git', words, { cwd: user.cwd, stdio: 'ignore' });
    git('init', '-q', '.');
    git('-c', 'user.name=t', '-c', 'user.email=t@localhost', 'commit', '-q', '--allow-empty', '-m', 'all');
  });
  const words = ['worker', '--stdio', '--id', 'trial-1', '--executor', 'rehearsal', '--repo', user.cwd];
  const command = [process.execPath, '-C', 'handfast-source', join(root, 'src/cli/main.ts'), ...words];
  for (const fault of workerFaults) {
    test(fault.name, async () => {
      const script = join(import.meta.dirname, 'support/faulty-worker.ts');
      // A separate home: a worker of this name may run in that of the user.
      const env = ['env', `HANDFAST_HOME=${user.home}`];
      const address = `stdio:${[...env, process.execPath, script, fault.name.replaceAll(' ', '-'), ...command].join(' ')}`;
      const run = new FleetRun({ address, token: '', patienceMs: patienceOf(fault), brief: 'say "x"' });
      await notices(fleetCases, run, fault);
    });
  }
});
