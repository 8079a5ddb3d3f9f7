/**
 * An agent runs programs at a host: it writes to one, reads its output at once, finds it again from another session,
 * and ends it. Only programs that the configuration names may run.
 *
 * Run it with `node -C handfast-source examples/proc.ts`.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, serve } from 'handfast';

const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
process.env.HANDFAST_HOME = folder;
await writeFile(
  join(folder, 'handfast.yaml'),
  `listen: "unix://${join(folder, 'host.sock')}"
plugins: [{ use: proc, options: { programs: ['${process.execPath}', 'sleep 6*'] } }]
`,
);
const server = await serve(join(folder, 'handfast.yaml'), { announce: false });
const [address = ''] = server.listeners;
const token = (await readFile(server.tokenFile ?? '', 'utf8')).trim();
const open = (agentId: string) => connect(address, { capabilities: ['proc'], agentId, token });

const agent = await open('ana');

// A program that replies: the prompt has no line break, so its output arrives in chunks.
const repl = await agent.proc.spawn([process.execPath, '-i'], {
  chunks: true,
  env: { NO_COLOR: '1' },
  timeoutMs: 60_000,
});
await repl.write('6 * 7\n');
for await (const { text } of repl.output()) {
  if (!text.includes('42')) continue;
  console.log('the program says 42');
  break;
}
await repl.eof();
console.log(`exit code ${(await repl.wait()).code}`);

// A flood: the program waits while nothing is read, and nothing is lost.
const flood = await agent.proc.spawn([process.execPath, '-e', 'for (let i = 0; i < 1e5; i++) console.log(i)']);
let lines = 0;
for await (const { text } of flood.output()) assert.equal(text, `${lines++}\n`);
console.log(`${lines} lines`);

// Another session of the same agent finds a process by its id.
const sleeping = await agent.proc.spawn(['sleep', '600']);
const again = await open('ana');
const found = await again.proc.find(sleeping.id);
console.log(`${(await found.info()).cmd}: ${await found.kill('SIGINT')} by ${(await sleeping.wait()).signal}`);
await agent.proc.spawn(['sleep', '5']).catch(({ code, message }) => console.log(`${code}: ${message}`));

for (const each of [agent, again]) await each.close();
await server.close(0);
await rm(folder, { recursive: true });
