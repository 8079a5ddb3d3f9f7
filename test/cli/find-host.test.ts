/**
 * The running host that a command means, at first and again.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { findHost } from '../../src/cli/connect/find-host.ts';
import { type RunningHost, registerRunningHost } from '../../src/server/running-hosts.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

test('a host that is found again is the same one: while it is down, the server of a fleet does not stand in for it', async (t) => {
  const folder = temporaryFolder(t);
  const running = (host_id: string, fleet: string | null): RunningHost => ({
    pid: process.pid,
    host_id,
    url: null,
    listeners: [`unix://${join(folder, host_id)}`],
    workspace: folder,
    socket: null,
    http_socket: null,
    token_file: null,
    sessions: true,
    fleet,
    started_at: Date.now(),
  });
  const process_ = { env: { HANDFAST_HOME: folder }, cwd: folder };
  await registerRunningHost(folder, running('trial', 'trial'));
  const first = await findHost({}, process_);
  assert.equal(first.running?.host_id, 'trial', 'the only one');
  const withdraw = await registerRunningHost(folder, running('handfast', null));
  const found = await findHost({}, process_);
  assert.equal(found.running?.host_id, 'handfast');
  const like = found.running;
  await withdraw();
  await assert.rejects(findHost({ like }, process_), { code: 'unreachable' });
  await registerRunningHost(folder, { ...running('handfast', null), started_at: Date.now() + 1 });
  assert.equal((await findHost({ like }, process_)).running?.host_id, 'handfast');
});
