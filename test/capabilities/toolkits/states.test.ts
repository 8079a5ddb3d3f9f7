/** Stored states of toolkits, over hosts whose clock jumps. */
import assert from 'node:assert/strict';
import { readdirSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { SessionStates } from '../../../src/capabilities/toolkits/states.ts';
import type { SessionView } from '../../../src/host/context.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

const session = (id: string): SessionView => ({ id }) as SessionView;
const DAY_S = 86_400;

test('the configuration of a session survives a restart, however far the clock has jumped', async (t) => {
  const folder = temporaryFolder(t);
  const before = new SessionStates();
  before.open(folder);
  for (const id of ['a', 'b', 'old']) await before.change(session(id), 'git', () => ({ config: { id } }));
  const file = (id: string) => join(folder, 'sessions', `${id}.json`);
  // The clock was 40 days behind when they were stored.
  const stored = Date.now() / 1000 - 40 * DAY_S;
  for (const id of ['a', 'b']) utimesSync(file(id), stored, stored);
  utimesSync(file('old'), stored - 8 * DAY_S, stored - 8 * DAY_S);
  const after = new SessionStates();
  after.open(folder);
  for (const id of ['a', 'b']) assert.deepEqual(after.of(session(id), 'git'), { config: { id } });
  // A session that no host has taken up for a week, measured by the others.
  assert.deepEqual(readdirSync(join(folder, 'sessions')).sort(), ['a.json', 'b.json']);
});
