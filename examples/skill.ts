/**
 * An agent runs skills of a host: a folder with a SKILL.md and code, which runs in a sandbox, gets checked arguments,
 * and calls only the tools that it names.
 *
 * Run it with `node -C handfast-source examples/skill.ts`; it needs the package `quickjs-emscripten`.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, serve } from 'handfast';

const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
process.env.HANDFAST_HOME = folder;
const skills = join(folder, 'skills');

async function write(name: string, front: string, files: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(join(skills, name), { recursive: true, mode: 0o755 });
  const text = `---\nname: ${name}\ndescription: ${name}\n${front}\n---\nHow to use it.\n`;
  for (const [file, content] of Object.entries({ 'SKILL.md': text, ...files })) {
    await writeFile(join(skills, name, file), content, { mode: 0o644 });
  }
}

await write(
  'word-count',
  `version: "1.0.0"
entry: main.js
allowed-tools: read_file
parameters:
  type: object
  properties: { path: { type: string } }
  required: [path]`,
  {
    'main.js': `import { words } from './words.js';
export default async function ({ path }, skill) {
  const { content } = await skill.tool('read_file', { path });
  await skill.progress(50, 'read');
  console.log('printed, and no message of the skill');
  const refused = await skill.tool('write_file', { path, content: '' }).catch(({ code }) => code);
  return { words: words(content), refused };
}
`,
    'words.js': 'export const words = (text) => text.split(/\\s+/).filter(Boolean).length;\n',
  },
);
await write('endless', 'entry: main.js\ntimeout_seconds: 1', { 'main.js': 'export default () => { for (;;); };\n' });
await write('house-style', 'tags: [writing]', { 'rules.md': 'Be brief.\n' });
await mkdir(join(folder, 'workspace'));
await writeFile(join(folder, 'workspace', 'poem.txt'), 'so much depends upon\n');
await writeFile(
  join(folder, 'handfast.yaml'),
  `listen: "unix://${join(folder, 'host.sock')}"
workspace: ${join(folder, 'workspace')}
plugins:
  - tools
  - { use: skill, options: { roots: ['${skills}'] } }
`,
);
const server = await serve(join(folder, 'handfast.yaml'), { announce: false });
const [address = ''] = server.listeners;
const token = (await readFile(server.tokenFile ?? '', 'utf8')).trim();

const agent = await connect(address, { capabilities: ['skill'], token });
console.log(`skills: ${(await agent.skill.list()).map(({ name }) => name).join(', ')}`);

const call = agent.skill.call<{ words: number; refused: string }>('word-count', { path: 'poem.txt' });
for await (const { kind, data } of call) {
  if (kind === 'progress' || kind === 'log') console.log(`${kind}: ${data.message}`);
}
const { data, tier } = await call;
console.log(`${data?.words} words, counted in ${tier}; write_file: ${data?.refused}`);

await agent.skill.call('word-count').catch(({ code, message }) => console.log(`${code}: ${message}`));
await agent.skill.call('endless').catch(({ code }) => console.log(`endless: ${code}`));

const style = await agent.skill.call<{ resources: { text: string }[] }>('house-style');
console.log(`house-style says: ${style.data?.resources[0]?.text.trim()}`);

await agent.close();
await server.close(0);
await rm(folder, { recursive: true });
