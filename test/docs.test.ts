/**
 * Checks the pages against each other and against the code: links and anchors have targets, and the transcripts of
 * `docs/protocol/a2e.md` match the messages of a real host. The README has `test/readme.test.ts`.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { createHost, memoryJournal, tool, toolsPlugin } from 'handfast';
import { documents } from '../scripts/cli-documents.ts';
import { commandsBelow, examples, wordsOf } from '../src/cli/examples.ts';
import { commandLine } from '../src/cli/program.ts';
import { filesBelow, root, sourcesBelow } from './rules/scan.ts';
import { type Message, type RawAgent, rawAgent } from './support/raw-agent.ts';

const pages = filesBelow('')
  .filter((path) => path.endsWith('.md') && !path.startsWith('test/'))
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));

/** Returns a page without the text inside code fences. */
const prose = (text: string): string => text.replace(/^```.*?^```$/gms, '');

/** Returns the anchors of a page, as the usual renderers derive them from its headings. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading] of prose(text).matchAll(/^#{1,6} +(.+)$/gm)) {
    const words = heading!.replaceAll('`', '').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1');
    const slug = words
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-');
    let anchor = slug;
    for (let n = 1; anchors.has(anchor); n += 1) anchor = `${slug}-${n}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** Returns the reason why a link to `path#anchor` is broken; undefined when it is not. */
function broken(path: string, anchor: string | undefined): string | undefined {
  if (!existsSync(join(root, path))) return `${path} does not exist`;
  if (anchor === undefined) return undefined;
  const anchors = anchorsOf(readFileSync(join(root, path), 'utf8'));
  return anchors.has(anchor) ? undefined : `${path} has no heading for #${anchor}`;
}

test('every link from page to page leads to a file and a heading', () => {
  const problems: string[] = [];
  let links = 0;
  for (const { path, text } of pages) {
    for (const [, target] of prose(text).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target!)) continue;
      links += 1;
      const [file = '', anchor] = target!.split('#');
      const problem = broken(file === '' ? path : normalize(join(dirname(path), file)), anchor);
      if (problem !== undefined) problems.push(`${path}: ${problem}`);
    }
  }
  assert.ok(links > 30);
  assert.deepEqual(problems, []);
});

test('every heading of a page that a comment points at exists', () => {
  const problems: string[] = [];
  let pointers = 0;
  for (const { path, text } of [...sourcesBelow('src'), ...sourcesBelow('scripts'), ...sourcesBelow('bench')]) {
    for (const [, page, anchor] of text.matchAll(/((?:docs\/[\w./-]+|SECURITY|CONTRIBUTING|README)\.md)#([\w-]+)/g)) {
      pointers += 1;
      const problem = broken(page!, anchor);
      if (problem !== undefined) problems.push(`${path}: ${problem}`);
    }
  }
  assert.ok(pointers >= 10);
  assert.deepEqual(problems, []);
});

test('anchors are made as renderers make them', () => {
  const anchors = anchorsOf('# A b\n## `tool/call/req`\n```\n# no\n```\n## A b\n### What a host answers, and why\n');
  assert.deepEqual([...anchors], ['a-b', 'toolcallreq', 'a-b-1', 'what-a-host-answers-and-why']);
});

test('decisions are numbered without a hole and say their state', () => {
  const decisions = pages.filter(({ path }) => path.startsWith('docs/decisions/'));
  for (const [index, { path, text }] of decisions.entries()) {
    assert.ok(path.startsWith(`docs/decisions/${String(index + 1).padStart(4, '0')}-`), path);
    assert.match(text, new RegExp(`^# ${index + 1}\\. `), path);
    assert.match(text, /^Status: (?:accepted|superseded by \[\d+\].*)$/m, path);
  }
});

/** Members that the page leaves out of the host's lines. */
const unshown = ['a2e', 'version', 'ts'];
/** Members that differ from run to run. */
const volatile = ['id', 'session_id', 'created_at', 'duration_ms', 'uptime_seconds'];

/** Values that differ from run to run, the same everywhere, so that the rest can be compared. */
function settled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(settled);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, volatile.includes(key) ? typeof inner : settled(inner)]),
  );
}

/** Plays one transcript: sends the lines of the agent, and compares the host's messages with its lines. */
async function play(lines: readonly string[], link: () => RawAgent): Promise<number> {
  let agent = link();
  /** Session ids of the page → of this run. */
  const ids = new Map<string, string>();
  const here = (line: string) => [...ids].reduce((text, [theirs, ours]) => text.replaceAll(theirs, ours), line);
  let compared = 0;
  for (const line of lines) {
    const [who, text] = [line[0], line.slice(2)];
    if (who === '→') agent.send(here(text));
    else if (who === '—') {
      agent.link.destroy('lost');
      await agent.closed();
      agent = link();
    } else {
      assert.equal(who, '←', `no transcript line: ${line}`);
      const expected: Message = JSON.parse(text);
      const said = await agent.next();
      for (const name of unshown) assert.ok(Object.hasOwn(said, name), `the host left ${name} out`);
      const shown = Object.fromEntries(Object.entries(said).filter(([name]) => !unshown.includes(name)));
      if (typeof said.session_id === 'string') ids.set(expected.session_id, said.session_id);
      assert.deepEqual(settled(shown), settled(expected));
      compared += 1;
    }
  }
  return compared;
}

test('the transcripts of docs/protocol/a2e.md are what a host says', async () => {
  const page = pages.find(({ path }) => path === 'docs/protocol/a2e.md')!.text;
  const transcripts = [...page.matchAll(/^```text\n(→.*?)^```$/gms)].map((match) => match[1]!.trimEnd().split('\n'));
  assert.equal(transcripts.length, 2);
  const shout = tool({
    name: 'shout',
    description: 'Upper-cases a text',
    input: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    async run({ text }: { text: string }, { emit }) {
      await emit('progress', { pct: 50, message: 'half way' });
      return { text: text.toUpperCase() };
    },
  });
  for (const [index, lines] of transcripts.entries()) {
    const journal = memoryJournal();
    const host = createHost({ plugins: [toolsPlugin({ tools: [shout] })], journal });
    await host.start();
    try {
      const compared = await play(lines, () => rawAgent(host));
      assert.ok(compared >= 3, `transcript ${index + 1} has ${compared} lines of the host`);
    } finally {
      await host.close(0);
    }
  }
});

/**
 * Returns the words of a command line as a shell splits it, up to a pipe, a comment or a redirection, for each command
 * of Handfast in it.
 */
function commandsIn(line: string): string[][] {
  const pieces = line.match(/'[^']*'|"[^"]*"|[^\s'"]+(?:'[^']*'|"[^"]*")?/g) ?? [];
  const found: string[][] = [];
  let reading = false;
  for (const piece of pieces) {
    if (/^[|&#>]/.test(piece)) reading = false;
    else if (piece === 'handfast') {
      reading = true;
      found.push([]);
    } else if (reading) found.at(-1)?.push(piece.replace(/'([^']*)'|"([^"]*)"/g, '$1$2'));
    if (piece === '#') break;
  }
  return found;
}

test('the help of every command has examples, and the command line accepts them', async () => {
  const nothing = async (): Promise<void> => {};
  const words = commandsBelow(await commandLine(nothing)).map(wordsOf);
  assert.deepEqual(
    words.filter((each) => examples[each] === undefined),
    [],
    'a command without a row in src/cli/examples.ts',
  );
  assert.deepEqual(
    Object.keys(examples).filter((each) => !words.includes(each)),
    [],
  );
  for (const [command, lines] of Object.entries(examples)) {
    const calls = lines.flatMap(commandsIn);
    assert.ok(
      calls.some((call) => call.join(' ').includes(command)),
      `no example of "${command}" uses it`,
    );
    for (const call of calls) {
      if (call[0] === 'stdio') continue;
      await assert.doesNotReject((await commandLine(nothing)).parseAsync(call, { from: 'user' }), call.join(' '));
    }
  }
});

test('examples are split into words as a shell splits them', () => {
  assert.deepEqual(commandsIn(`echo 'a b' | handfast tools call x '{"a":"b c"}' path='d e' > f # g`), [
    ['tools', 'call', 'x', '{"a":"b c"}', 'path=d e'],
  ]);
  assert.deepEqual(commandsIn('handfast init && handfast up    # here'), [['init'], ['up']]);
});

test('what every command prints with --json is described', async () => {
  const printing = commandsBelow(await commandLine(async () => {})).filter(
    ({ parent, options }) => parent !== null && options.some(({ long }) => long === '--json'),
  );
  assert.deepEqual(
    printing.map(wordsOf).filter((words) => documents[words] === undefined),
    [],
    'a command without a row in scripts/cli-documents.ts',
  );
});

test('every script and file that CONTRIBUTING names exists', () => {
  const text = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8');
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  const named = [...text.matchAll(/npm (?:run(?: -s)? )?([a-z][\w:-]*)/g)].map((match) => match[1]!);
  assert.ok(named.length >= 8);
  assert.deepEqual(
    named.filter((name) => name !== 'install' && scripts[name] === undefined),
    [],
  );
  const files = [...text.matchAll(/`((?:src|test|docs|examples|scripts|bench)\/[\w./-]+|\.ci\/\w+)`/g)].map(
    (match) => match[1]!,
  );
  assert.ok(files.length >= 8);
  assert.deepEqual(
    files.filter((path) => !existsSync(join(root, path))),
    [],
  );
});
