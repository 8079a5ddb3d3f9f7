/**
 * A first plugin: one tool, added to a host and called by an agent in the same process.
 *
 * Run it with `node -C handfast-source examples/first-plugin.ts`, or load it into your host: name this file under
 * `plugins` in `handfast.yaml`.
 */
import assert from 'node:assert/strict';
// #region plugin
import { connect, createHost, tool, toolsPlugin } from 'handfast';

const daysBetween = tool({
  name: 'days_between',
  description: 'Counts the days from one date to another',
  input: {
    type: 'object',
    properties: { from: { type: 'string' }, to: { type: 'string', default: '2000-01-01' } },
    required: ['from'],
  },
  run: ({ from, to }: { from: string; to: string }) => ({ days: (Date.parse(to) - Date.parse(from)) / 86_400_000 }),
});

export const plugin = toolsPlugin({ name: 'calendar', tools: [daysBetween] });
// #endregion

if (import.meta.main) {
  // #region in-process
  const host = createHost({ plugins: [plugin] });
  await host.start();
  await using agent = await connect(host, { capabilities: ['tools'] });

  const { data } = await agent.tools.call('days_between', { from: '1999-12-25' });
  console.log('days:', data); // days: { days: 7 }
  // #endregion
  assert.deepEqual(data, { days: 7 });

  // Arguments are checked against the schema before the tool sees them.
  const error = await agent.tools.call('days_between', { from: 1999 }).catch((reason: unknown) => reason);
  assert.ok(error instanceof Error && 'code' in error);
  console.log(`refused: ${error.code}: ${error.message}`);
  assert.equal(error.code, 'schema_violation');

  await host.close();
}
