/**
 * Agents share a plan: they claim ready tasks under a lease, one of them disappears, another finishes its work, and a Markdown
 * file follows the plan.
 *
 * Run it with `node -C handfast-source examples/planning.ts`.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, serve } from 'handfast';

const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
process.env.HANDFAST_HOME = folder;
await writeFile(join(folder, 'handfast.yaml'), `listen: "unix://${join(folder, 'host.sock')}"\nplugins: [planning]\n`);
const server = await serve(join(folder, 'handfast.yaml'), { announce: false });
const [address = ''] = server.listeners;
const token = (await readFile(server.tokenFile ?? '', 'utf8')).trim();

// #region quick-start
const agent = await connect(address, { capabilities: ['planning'], agentId: 'ana', token });
const plan = await agent.planning.createPlan('release');
const docs = await agent.planning.add(plan.plan_id, 'Write the docs');
await agent.planning.add(plan.plan_id, 'Publish', { deps: [docs.task_id] });

const claim = await agent.planning.claim(plan.plan_id, { leaseMs: 500 });
console.log(`ana works on: ${claim?.task.title}`); // Write the docs
// #endregion

// Ana disappears without a word; when her lease ends, the task is ready again.
await agent.close();
// #region another
const other = await connect(address, { capabilities: ['planning'], agentId: 'bo', token });
const again = await other.planning.claim(plan.plan_id, { waitMs: 30_000 });
console.log(`bo works on: ${again?.task.title}, fence ${again?.fence}`); // Write the docs, fence 2
await again?.done('all of them');
// #endregion
assert.equal(again?.id, docs.task_id);

const next = await other.planning.claim(plan.plan_id);
console.log(`then on: ${next?.task.title}`);
const cycle = other.planning.update(plan.plan_id, docs.task_id, { deps: [next?.id ?? ''] });
await cycle.catch(({ code, message }) => console.log(`${code}: ${message}`));
await next?.done();

const { text } = await other.planning.markdown(plan.plan_id, '# Release\n');
console.log(text.replace(/ <!-- .*? -->/g, '').trim());
for await (const { action, agent: who } of other.planning.history(plan.plan_id, docs.task_id)) {
  console.log(`${action} by ${who || 'the host'}`);
}

await other.close();
await server.close(0);
await rm(folder, { recursive: true });
