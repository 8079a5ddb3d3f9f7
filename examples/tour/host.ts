/**
 * The host of the tour: its workspace of documents, its skill, its MCP server, its subagents, and the configuration
 * that names them.
 *
 * `../tour.ts` plays against it, and tests play a recorded session of the tour.
 */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const project = dirname(dirname(import.meta.dirname));

const node = [process.execPath, '-C', 'handfast-source'];

/** Returns the program and arguments of a command of Handfast. */
export const handfast = (...words: string[]): string[] => [...node, join(project, 'src/cli/main.ts'), ...words];

/**
 * Writes the host into a folder: the documents as a workspace, a skill, and the configuration, which the user of `env` trusts.
 * `documents` has a `README.md` and further ones in `docs`; default: this project.
 */
export async function prepareHost(folder: string, env: NodeJS.ProcessEnv, documents = project): Promise<void> {
  const workspace = join(folder, 'workspace');
  const skill = join(folder, 'skills', 'word-count');
  await mkdir(skill, { recursive: true });
  await mkdir(workspace);
  const pages = (await readdir(join(documents, 'docs'))).filter((name) => name.endsWith('.md') && name !== 'README.md');
  for (const name of pages) await copyFile(join(documents, 'docs', name), join(workspace, name));
  await copyFile(join(documents, 'README.md'), join(workspace, 'README.md'));
  await writeFile(
    join(skill, 'SKILL.md'),
    `---
name: word-count
description: Counts the words of a document
entry: main.js
allowed-tools: read_file
parameters: { type: object, properties: { path: { type: string } }, required: [path] }
---
Give it the path of a document.
`,
  );
  await writeFile(
    join(skill, 'main.js'),
    `export default async function ({ path }, skill) {
  const { content } = await skill.tool('read_file', { path, limit: 20000 });
  return { path, words: content.split(/\\s+/).filter(Boolean).length };
}
`,
  );
  const everything = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));
  const tour = join(dirname(import.meta.dirname), 'tour.ts');
  const plugins = [
    ...['tools', 'toolkits', 'memory', 'planning', 'learning', 'env', 'chains'],
    { use: 'proc', options: { programs: [process.execPath] } },
    { use: 'skill', options: { roots: [dirname(skill)] } },
    {
      use: 'mcp',
      options: { servers: [{ name: 'everything', command: process.execPath, args: [everything, 'stdio'] }] },
    },
    {
      use: 'multi_agent',
      options: {
        kinds: [{ name: 'scout', command: [...node, tour, 'scout'], capabilities: ['tools'] }],
      },
    },
  ];
  const settings = { workspace, plugins, journal: { kind: 'sqlite' } };
  await writeFile(join(folder, 'handfast.yaml'), JSON.stringify(settings));
  const [program = '', ...words] = handfast('trust', 'add', '--yes');
  await promisify(execFile)(program, words, { cwd: folder, env });
}
