/** `handfast skill …`: lists, shows and runs the skills of a host; checks folders of skills and makes new ones without a host. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { counted } from '../../base/counted.ts';
import type { CallEvent } from '../../connection/call.ts';
import type { CapabilityCommand, CapabilityLocalCommand, CommandTerminal } from '../../packages/capability.ts';
import { jsonArguments } from '../../packages/command-values.ts';
import { fail } from '../../wire/errors.ts';
import { SkillClient } from './client.ts';
import { Library } from './folder/library.ts';
import { skillRoots } from './roots.ts';
import type { SkillContext, SkillResult } from './skill.schema.ts';

type Context = Parameters<CapabilityCommand['run']>[0];
type LocalContext = Parameters<CapabilityLocalCommand['run']>[0];

const wordsOf = ({ args }: LocalContext): string[] => args.flatMap((arg) => arg ?? []);
const version = ({ options }: Context) => (options.version === undefined ? {} : { version: String(options.version) });

async function ls({ agent, terminal, signal }: Context): Promise<undefined> {
  const client = new SkillClient(agent);
  const skills = await client.list({}, { signal });
  const problems = await client.problems({ signal });
  if (terminal.json) terminal.document(skills);
  else if (skills.length === 0) terminal.note('no skills; "handfast skill new" makes one');
  else {
    const rows = skills.map(({ name, version: newest, metadata, description, status }) => [
      name,
      newest,
      status === 'Blocked' ? 'blocked' : metadata?.runs === true ? 'code' : 'text',
      description.split('\n', 1)[0] ?? '',
    ]);
    terminal.table(['SKILL', 'VERSION', 'RUNS', 'DESCRIPTION'], rows);
    if (rows.some(([, , runs]) => runs === 'code')) terminal.note(`code runs in ${placeOf(client)}`);
  }
  for (const { path, message } of problems) terminal.note(`not loaded: ${path}: ${message}`);
}

/** Describes the tier of the host, and its fault. */
function placeOf({ sandbox }: SkillClient): string {
  if (sandbox === undefined) return 'a sandbox of the host';
  return sandbox.in_force === false ? `${sandbox.tier}, which does not work here: ${sandbox.reason}` : sandbox.tier;
}

async function show(context: Context): Promise<undefined> {
  const { agent, terminal, signal } = context;
  const [name = ''] = wordsOf(context);
  const client = new SkillClient(agent);
  const found = await client.describe(name, { ...version(context), signal });
  const { skill, files, versions, entry } = found;
  if (terminal.json) {
    terminal.document({ skill, files, versions, entry });
    return;
  }
  terminal.line(`${skill.name} ${skill.version}: ${skill.description}`);
  terminal.line(
    entry === null ? 'runs no code: a call returns its instructions' : `runs ${entry} in ${placeOf(client)}`,
  );
  if (versions.length > 1) terminal.line(`versions: ${versions.join(', ')}`);
  if ((skill.tools ?? []).length > 0) terminal.line(`may call: ${(skill.tools ?? []).join(', ')}`);
  terminal.line(`arguments: ${JSON.stringify(skill.input_schema)}`);
  terminal.line(`digest: ${String(skill.metadata?.digest)}`);
  for (const { path, bytes } of files) terminal.line(`  ${path}  ${counted(bytes, 'byte')}`);
  if (skill.instructions) terminal.line(`\n${skill.instructions}`);
}

/** Returns one line for an event; undefined for events that only show that the skill runs. */
function lineOf({ kind, data }: CallEvent): string | undefined {
  const { message, pct, tool, code } = data as { message?: unknown; pct?: unknown; tool?: unknown; code?: unknown };
  if (kind === 'log') return String(message);
  if (kind === 'progress') return `${pct} % ${message ?? ''}`.trimEnd();
  if (kind === 'tool.started') return `calls ${tool}`;
  if (kind === 'tool.failed') return `${tool} failed: ${code}`;
  return kind.startsWith('skill.') || kind.startsWith('tool.') ? undefined : `${kind} ${JSON.stringify(data)}`;
}

async function run(context: Context): Promise<undefined> {
  const { agent, terminal, signal, options } = context;
  const [name = '', given] = wordsOf(context);
  const seconds = options.timeout === undefined ? undefined : Number(options.timeout);
  if (seconds !== undefined && !(seconds > 0 && Number.isFinite(seconds))) {
    throw fail('usage', `--timeout needs seconds, got ${JSON.stringify(options.timeout)}`);
  }
  const call = new SkillClient(agent).call(name, jsonArguments(given, '{"path": "README.md"}'), {
    ...version(context),
    ...(seconds !== undefined && { timeoutMs: seconds * 1000 }),
    signal,
  });
  for await (const event of call) {
    const line = lineOf(event);
    if (line !== undefined && !terminal.json) terminal.note(line);
  }
  const result = await call;
  if (terminal.json) terminal.document(result);
  else printResult(result, terminal);
}

function printResult({ data, tier, left_out = [] }: SkillResult, terminal: CommandTerminal): void {
  if (tier !== undefined) {
    terminal.line(typeof data === 'string' ? data : JSON.stringify(data, undefined, 2));
    return;
  }
  const { instructions, resources } = data as SkillContext;
  terminal.line(instructions);
  for (const { path, text } of resources) terminal.line(`\n--- ${path}\n${text.replace(/\n$/, '')}`);
  for (const { path, bytes, reason } of left_out)
    terminal.note(`left out: ${path}, ${counted(bytes, 'byte')} (${reason})`);
}

async function check(context: LocalContext): Promise<number> {
  const { terminal } = context;
  const given = wordsOf(context);
  const folders = skillRoots(given.length > 0 ? given : undefined, process.cwd());
  const library = new Library(
    folders.map((path) => ({ path, source: 'project' })),
    0,
    () => {},
  );
  const { skills, problems } = await library.list();
  const found = [...skills.values()].map(({ name, version: newest, digest, entry, folder }) => ({
    name,
    version: newest,
    digest,
    runs: entry !== undefined,
    folder,
  }));
  if (terminal.json) terminal.document({ skills: found, problems });
  else {
    for (const { name, version: newest, digest } of found) terminal.line(`${name} ${newest} ${digest}`);
    for (const { path, message } of problems) terminal.note(`${path}: ${message}`);
    if (found.length + problems.length === 0) terminal.note(`no skills in ${folders.join(', ')}`);
  }
  return problems.length > 0 ? 1 : 0;
}

const skillText = (name: string, isCode: boolean): string => `---
name: ${name}
description: Say in a sentence what it does and when to use it.
version: "0.1.0"
${isCode ? 'entry: main.js\nallowed-tools: read_file\nparameters:\n  type: object\n  properties:\n    path: { type: string }\n  required: [path]\n' : ''}---
# ${name}

What a model should know about it.
`;

const MAIN = `/** Counts the lines of a file. */
export default async function ({ path }, skill) {
  const { content } = await skill.tool('read_file', { path });
  return { lines: content.trimEnd().split('\\n').length };
}
`;

async function create(context: LocalContext): Promise<undefined> {
  const { terminal, options } = context;
  const [name = ''] = wordsOf(context);
  if (!/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name) || name.length > 64) {
    throw fail(
      'usage',
      `a skill is named by lower-case letters and digits, with single - between: got ${JSON.stringify(name)}`,
    );
  }
  const folder = resolve(String(options.in ?? 'skills'), name);
  const isCode = options.text !== true;
  const files: [string, string][] = [
    ['SKILL.md', skillText(name, isCode)],
    ...(isCode ? [['main.js', MAIN] as [string, string]] : []),
  ];
  await mkdir(folder, { recursive: true, mode: 0o755 });
  for (const [file, text] of files) {
    await writeFile(join(folder, file), text, { flag: 'wx', mode: 0o644 }).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'EEXIST' ? fail('usage', `${join(folder, file)} exists already`) : error;
    });
  }
  if (terminal.json) terminal.document({ folder, files: files.map(([file]) => file) });
  else for (const [file] of files) terminal.line(join(folder, file));
}

const versionOption = ['--version <version>', 'another version than the newest'] as const;

export const commands: readonly CapabilityCommand[] = [
  { usage: 'ls', about: 'list the skills of the host, and what could not be loaded', run: ls },
  {
    usage: 'show <skill>',
    about: 'print what a skill does, its arguments, files and instructions',
    options: [versionOption],
    run: show,
  },
  {
    usage: 'run <skill> [arguments]',
    about: 'run a skill in the sandbox of the host; of one without code print the instructions',
    options: [versionOption, ['--timeout <seconds>', 'ends it after this time (default: 60)']],
    help: `The arguments are a JSON object, e.g. '{"path": "README.md"}'. Ctrl-C ends the run.`,
    run,
  },
];

/** Commands for authors of skill folders, which run on their machine. */
export const localCommands: readonly CapabilityLocalCommand[] = [
  {
    usage: 'check [folders...]',
    about: 'check the skills below folders, and print their digests; exit code 1 when one is broken',
    run: check,
  },
  {
    usage: 'new <name>',
    about: 'make the folder of a new skill',
    options: [
      ['--in <folder>', 'where it is made (default: skills)'],
      ['--text', 'without code: instructions only'],
    ],
    run: create,
  },
];
