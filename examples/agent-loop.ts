/**
 * The loop of an agent, with plain rules in place of a model: search, read the found files, count, answer.
 *
 * The task: find the files of this repository's kernel that throw errors of the table, and the names that they use
 * most. Run it with `node -C handfast-source examples/agent-loop.ts`.
 */
import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { type CallEvent, connect, createHost, tool, toolsPlugin } from 'handfast';
import { builtinTools } from 'handfast/tools';

/** A call that the agent makes next; {@link Seen}: one that it has made, with the result. */
interface Step {
  readonly name: string;
  readonly args: Record<string, unknown>;
}
interface Seen extends Step {
  // biome-ignore lint/suspicious/noExplicitAny: each tool has its own shape, as it has for a model
  readonly data: any;
}

/** Counts the error names that a text throws; reports its progress. */
const countErrors = tool({
  name: 'count_errors',
  description: 'Counts the error names that source texts throw',
  input: {
    type: 'object',
    properties: { sources: { type: 'array', items: { type: 'string' } } },
    required: ['sources'],
  },
  async run({ sources }: { sources: string[] }, context) {
    const counts = new Map<string, number>();
    for (const [at, source] of sources.entries()) {
      for (const [, name] of source.matchAll(/\bfail\(\s*'(\w+)'/g)) {
        counts.set(name as string, (counts.get(name as string) ?? 0) + 1);
      }
      // Awaiting an event is how a tool feels a slow reader.
      await context.emit('progress', {
        pct: Math.round((100 * (at + 1)) / sources.length),
        message: `source ${at + 1}`,
      });
    }
    return { counts: [...counts].sort(([, a], [, b]) => b - a) };
  },
});

/**
 * Returns the next calls to make, or none when the task is done; a real agent would ask a model. Calls of one step run
 * at once.
 */
function decide(seen: readonly Seen[]): readonly Step[] {
  const last = seen.at(-1);
  if (last === undefined) {
    const args = { pattern: "fail('", literal: true, path: 'src/connection', output: 'files_with_matches' };
    return [{ name: 'grep', args }];
  }
  if (last.name === 'grep') {
    return last.data.files.map(({ path }: { path: string }) => ({ name: 'read_file', args: { path } }));
  }
  if (last.name === 'read_file') {
    const sources = seen.filter(({ name }) => name === 'read_file').map(({ data }) => data.content);
    return [{ name: 'count_errors', args: { sources } }];
  }
  return [];
}

const host = createHost({
  plugins: [toolsPlugin({ tools: [...builtinTools(), countErrors] })],
  workspace: dirname(import.meta.dirname),
});
await host.start();
await using agent = await connect(host, { capabilities: ['tools'] });

// #region loop
const events: string[] = [];
const seen: Seen[] = [];
for (let steps = decide(seen); steps.length > 0; steps = decide(seen)) {
  const calls = steps.map(async ({ name, args }) => {
    const onEvent = ({ kind, data }: CallEvent) => events.push(`${name} ${kind}: ${data.message}`);
    const { data } = await agent.tools.call(name, args, { onEvent });
    return { name, args, data };
  });
  seen.push(...(await Promise.all(calls)));
  console.log(`${steps.length} × ${steps[0]?.name}`);
}
// #endregion

const read = seen.filter(({ name }) => name === 'read_file');
const { counts } = seen.at(-1)?.data ?? { counts: [] };
console.log(`${events.length} events, the last: ${events.at(-1)}`);
console.log('most thrown:', Object.fromEntries(counts.slice(0, 3)));

assert.ok(read.length > agent.maxParallel, 'more calls than the host runs at once: the rest waited for their turn');
assert.equal(events.length, read.length, 'one event for each source, all of them before the answer');
assert.ok(counts.length > 3);
await host.close();
