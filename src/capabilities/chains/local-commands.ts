/** The commands of `handfast chain` that need no host: they make, check, draw and dry-run chain files. */
import { writeFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { counted } from '../../base/counted.ts';
import { formatProblem } from '../../config/open-config.ts';
import type { CapabilityLocalCommand, CommandContext } from '../../packages/capability.ts';
import { fail } from '../../wire/errors.ts';
import type { Sample } from './chains.schema.ts';
import { dryRun } from './definition/dry-run.ts';
import { SVG_OPTION, show } from './draw/show.ts';
import { loadChainFile, problemsOf } from './files/chain-file.ts';
import { objectOf, outputsByNode } from './files/json-words.ts';
import { newChain } from './files/new-chain.ts';

type LocalContext = Pick<CommandContext, 'args' | 'options' | 'signal' | 'terminal'>;

const wordsOf = ({ args: [words] }: LocalContext): readonly string[] =>
  words === undefined ? [] : typeof words === 'string' ? [words] : words;

async function create(context: LocalContext): Promise<undefined> {
  const { terminal } = context;
  const [file = 'chain.yaml'] = wordsOf(context);
  await writeFile(file, newChain(basename(file, extname(file))), { flag: 'wx', mode: 0o644 }).catch(
    (error: NodeJS.ErrnoException) => {
      throw error.code === 'EEXIST' ? fail('usage', `${file} exists already`) : error;
    },
  );
  if (terminal.json) terminal.document({ file });
  else terminal.line(file);
}

async function check(context: LocalContext): Promise<number> {
  const { terminal } = context;
  const found = [];
  for (const file of wordsOf(context)) {
    try {
      const { graph, definition } = await loadChainFile(file);
      const { mode, depth } = graph;
      found.push({ file, ok: true, name: definition.name, mode, nodes: graph.nodes.length, depth, problems: [] });
    } catch (error) {
      const problems = problemsOf(error);
      if (problems === undefined) throw error;
      found.push({ file, ok: false, problems });
    }
  }
  if (terminal.json) terminal.document({ files: found });
  for (const { file, ok, nodes, mode, depth, problems } of terminal.json ? [] : found) {
    if (ok) terminal.line(`${file}: ${counted(nodes ?? 0, 'node')}, ${mode}, ${depth} deep`);
    for (const problem of problems) terminal.line(formatProblem(problem));
  }
  return found.every(({ ok }) => ok) ? 0 : 1;
}

async function tryOut(context: LocalContext): Promise<number> {
  const { terminal, options } = context;
  const [file = ''] = wordsOf(context);
  const { graph } = await loadChainFile(file);
  const input = options.input === undefined ? {} : await objectOf(String(options.input), '--input');
  const samples = await outputsByNode((options.sample ?? []) as readonly string[], '--sample');
  const failing = new Set((options.failing ?? []) as readonly string[]);
  const unknown = [...Object.keys(samples), ...failing].find((id) => !graph.indexOf.has(id));
  if (unknown !== undefined) throw fail('usage', `${file} has no node ${JSON.stringify(unknown)}`);
  const { nodes, order, final_output, success } = dryRun(graph, { input, samples, failing });
  if (terminal.json) {
    terminal.document({ nodes, order, final_output, success });
    return success ? 0 : 1;
  }
  terminal.table(
    ['node', 'kind', 'state', 'what it gets'],
    nodes.map((sample, at) => [sample.node_id, graph.nodes[at]?.node.kind ?? '', sample.state, shownOf(sample)]),
  );
  terminal.line();
  terminal.line(`final output: ${JSON.stringify(final_output)}`);
  if (!success) terminal.note('a node failed');
  return success ? 0 : 1;
}

/** Returns the interesting part of a node's sample. */
function shownOf({ input, condition, output, items, error, state }: Sample): string {
  if (error !== undefined) return error;
  if (input !== undefined) return JSON.stringify(input);
  if (condition !== undefined && state !== 'skipped') return `condition: ${condition}`;
  if (items !== undefined) return counted(items, 'item');
  return output === undefined ? '' : `makes ${JSON.stringify(output)}`;
}

async function draw(context: LocalContext): Promise<undefined> {
  const { terminal, options } = context;
  const [file = ''] = wordsOf(context);
  const { graph, definition } = await loadChainFile(file);
  await show(graph, { title: definition.name, svg: options.svg as string | undefined }, terminal);
}

/** Commands for authors of chain files, which run on their machine. */
export const localCommands: readonly CapabilityLocalCommand[] = [
  { usage: 'new [file]', about: 'write the file of a new chain (default: chain.yaml)', run: create },
  {
    usage: 'check <files...>',
    about: 'check chain files, and print every problem with its line; exit code 1 when there is one',
    run: check,
  },
  {
    usage: 'show <file>',
    about: 'draw a chain file: as text, or as an SVG picture',
    options: [SVG_OPTION],
    help: '"handfast chain get NAME --draw" draws a stored chain.',
    run: draw,
  },
  {
    usage: 'dry-run <file>',
    about: 'print what each node of a chain file would get, with sample outputs; no node runs',
    options: [
      ['--input <json>', 'the initial input: a JSON object, or @FILE with one'],
      ['--sample <sample...>', 'the output of a node: node=JSON, or @FILE with a JSON object of outputs by node'],
      ['--failing <node...>', 'nodes that fail, to see what the chain does then'],
    ],
    help: `Without a sample the output of a node is null. Example: --sample 'read={"content": "x"}'`,
    run: tryOut,
  },
];
