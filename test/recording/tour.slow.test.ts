/** The tour recorded on every transport: the recording is the same as the stored one, which a program on pipes made. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertPrinted, expected, PATIENCE_MS } from '../examples/tour.ts';
import { STORED, TourUser } from './tour-recording.ts';

for (const transport of ['tcp', 'unix', 'http', 'ws'] as const) {
  test(`the tour with its agent on ${transport}`, { timeout: PATIENCE_MS }, async (t) => {
    const user = await TourUser.prepared();
    t.after(() => user.leave());
    assertPrinted(await user.recorded('now', transport), expected());
    const { code, stdout, stderr } = await user.run(['diff', STORED, 'now', '--all']);
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: 'no difference that matters\n', stderr: '' });
  });
}
