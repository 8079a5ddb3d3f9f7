/**
 * `kill -9` of a server in the middle of turns, and a new one on the same data and port: clients find it by themselves,
 * the turn that ran ends as interrupted by the restart, waiting turns run, and an open question can still be answered.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect as connectControl } from '../../src/control-client/connect.ts';
import type { ControlEvent } from '../../src/control-client/control-event.ts';
import { User } from '../cli/command.ts';
import { within } from '../contract/recorder.ts';
import { type Item, isEnd, readUntil } from '../control/client/stand.ts';
import { ownPort } from '../support/own-port.ts';

const ENV = { HANDFAST_KEYRING: 'off' };
const TERMINAL = ['session.completed', 'session.interrupted', 'session.error'];

/** Returns stop reasons by turn, in the order of their arrival. */
function ends(items: readonly Item[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const item of items) {
    if (item.type === 'gap' || !TERMINAL.includes(item.type)) continue;
    const { turn_id, stop_reason } = item.payload as { turn_id: string; stop_reason: string };
    found.set(turn_id, [...(found.get(turn_id) ?? []), stop_reason]);
  }
  return found;
}

test('a killed server comes back: its turns end once, its queue runs, its questions are still asked', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const config = user.write(
    'handfast.yaml',
    'control:\n  approvals:\n    rules:\n      - command: sleep ...\n        then: allow\n',
  );
  const place = ['--config', config, '--port', String(await ownPort())];
  const { command, ready } = await user.up(place, { env: ENV });
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  const states: string[] = [];
  await using one = await connectControl(ready.url, {
    token,
    onState: ({ state }) => states.at(-1) !== state && states.push(state),
  });
  await using other = await connectControl(ready.url, { token });

  const busy = await one.create({ cwd: user.cwd });
  const running = await busy.prompt('run "sleep 60"');
  const second = await busy.prompt('say "second"');
  const third = await busy.prompt('say "third"');
  for await (const event of running) if (event.type === 'session.tool.call.started') break;

  const asking = await one.create({ cwd: user.cwd });
  const asked = await asking.prompt('run "echo yes > answered"');
  let approval = '';
  for await (const event of asked) {
    if (event.type !== 'approval.requested') continue;
    approval = event.payload.approval.id;
    break;
  }
  const watching = [one, other].map((control) =>
    readUntil(control.events({ sessionId: busy.id, afterSeq: 0 }), isEnd(third.turnId)),
  );
  const results = Promise.all([running, second, third].map((turn) => turn.result()));
  await other.rpc.ping();

  command.child.kill('SIGKILL');
  await command.ended();
  await user.up(place, { env: ENV });

  const [first, ...later] = await within(results, 'the ends of the turns', 60_000);
  assert.equal(first?.stopReason, 'restart');
  assert.deepEqual(
    later.map(({ stopReason }) => stopReason),
    ['end_turn', 'end_turn'],
  );
  assert.deepEqual(
    later.map(({ text }) => text.trim().split('\n').at(-1)),
    ['second', 'third'],
  );
  const seen = await Promise.all(watching);
  for (const items of seen) {
    const reasons = ends(items);
    assert.deepEqual([...reasons.values()], [['restart'], ['end_turn'], ['end_turn']]);
    const type = items.find((item) => item.type !== 'gap' && isEnd(running.turnId)(item as ControlEvent))?.type;
    assert.equal(type, 'session.interrupted');
    const numbers = items.flatMap((item) => (item.type === 'gap' ? [] : [item.seq]));
    assert.deepEqual(
      numbers,
      [...new Set(numbers)].sort((a, b) => a - b),
      'in order, none twice',
    );
  }
  assert.deepEqual(
    seen[0]?.filter(({ type }) => type !== 'gap'),
    seen[1]?.filter(({ type }) => type !== 'gap'),
  );
  assert.deepEqual(states.slice(0, 3), ['open', 'lost', 'resumed']);

  assert.equal(existsSync(join(user.cwd, 'answered')), false);
  const { code, stderr } = await user.run(['approve', 'yes', approval.slice(0, 8)]);
  assert.deepEqual([code, stderr], [0, 'allowed: shell: echo yes > answered\n']);
  assert.equal((await within(asked.result(), 'the turn that asked', 60_000)).stopReason, 'end_turn');
  assert.equal(readFileSync(join(user.cwd, 'answered'), 'utf8'), 'yes\n');
});
