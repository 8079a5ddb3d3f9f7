/** `handfast chain …` with a host: runs chains, and shows, continues and ends runs. */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { counted } from '../../base/counted.ts';
import type { CapabilityCommand, CommandTerminal } from '../../packages/capability.ts';
import { jsonOrText, wholeNumber } from '../../packages/command-values.ts';
import { lastOrByPrefix, type Sought } from '../../packages/named-id.ts';
import { asError, fail, HandfastError } from '../../wire/errors.ts';
import { chainRefOf, chainWord } from './chain-ref.ts';
import type { ChainFailure, ChainRun, NodeState } from './chains.schema.ts';
import { type ChainResult, type ChainResumeOptions, type ChainSpec, ChainsClient } from './client.ts';
import { readChain } from './definition/read.ts';
import { SVG_OPTION, show } from './draw/show.ts';
import { failure } from './errors.ts';
import { loadChainFile } from './files/chain-file.ts';
import { objectOf, outputsByNode } from './files/json-words.ts';
import { storedCommands } from './stored-commands.ts';
import { timeText } from './time-text.ts';

type Context = Parameters<CapabilityCommand['run']>[0];

const wordsOf = ({ args }: Context): string[] => args.flatMap((arg) => arg ?? []);
const clientOf = ({ agent }: Context): ChainsClient => new ChainsClient(agent);

/** Codes of a run whose host was lost while it ran. */
const LOST: ReadonlySet<string> = new Set(['interrupted', 'connection_lost', 'session_expired', 'reply_lost']);

async function run(context: Context): Promise<number> {
  const { options, terminal } = context;
  const [word = ''] = wordsOf(context);
  const spec = await specOf(word);
  const input = options.input === undefined ? {} : await objectOf(String(options.input), '--input');
  const chainId = randomUUID();
  try {
    return await untilEnded(context, chainId, (signal) => clientOf(context).run(spec, input, { chainId, signal }));
  } catch (error) {
    // The host stores such a run, and its id is enough to continue it.
    if (!terminal.json && LOST.has((error as { code?: string }).code ?? ''))
      terminal.note(
        `run ${chainId}: see "handfast chain status ${chainId}"; "handfast chain resume ${chainId}" continues it`,
      );
    throw (error as { code?: string }).code === 'chains.unknown_chain' ? neither(word, error) : error;
  }
}

/**
 * Prints the result of a run and returns the exit code. A signal to end cancels the run by its id, not the request: the run undoes
 * its nodes while the request still runs.
 */
async function untilEnded(
  context: Context,
  id: string,
  run: (signal: AbortSignal) => PromiseLike<ChainResult>,
): Promise<number> {
  const { signal, terminal } = context;
  const request = new AbortController();
  let cancelled: PromiseLike<unknown> | undefined;
  const cancel = (): void => {
    const reason = { reason: 'interrupted' };
    // A run that the host does not have yet, or no longer has, ends with its request.
    cancelled = clientOf(context)
      .cancel(id, reason)
      .then(
        () => {},
        () => request.abort(signal.reason),
      );
  };
  signal.addEventListener('abort', cancel, { once: true });
  if (signal.aborted) cancel();
  try {
    const code = printed(await run(request.signal), terminal);
    await cancelled;
    signal.throwIfAborted();
    return code;
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

/** A word with one of these endings is a file; so is a word that is no valid name of a stored chain. */
const FILE_END = /\.(?:ya?ml|json)$/i;

/** Returns the chain of `run`: a stored one, or that in a file. The form of the word decides, not the files that exist. */
async function specOf(word: string): Promise<ChainSpec> {
  const chain = FILE_END.test(word) ? undefined : chainRefOf(word);
  if (chain !== undefined) return { chain };
  const { definition } = await loadChainFile(word).catch((error: unknown) => {
    throw existsSync(word) ? error : neither(word, error);
  });
  const { name: _, description: __, nodes, ...settings } = definition;
  return { ...settings, nodes: [...nodes] };
}

/** Returns the error for a word that is neither a file nor a stored chain. */
function neither(word: string, cause: unknown): HandfastError {
  const { code, message, detail } = asError(cause);
  const advice =
    code === 'chains.unknown_chain'
      ? `"handfast chain ls" lists the stored chains; a file ends in .yaml, .yml or .json, or has a "/", such as ./${word}`
      : 'a stored chain is NAME or NAME@VERSION, and "handfast chain ls" lists them';
  return new HandfastError(code, `${message}; ${advice}`, { detail, cause });
}

/** Prints the result of a run; returns the exit code. */
function printed(result: ChainResult, terminal: CommandTerminal): number {
  const { chain_id: id, final_output: output, success, error, state = success ? 'done' : 'failed' } = result;
  if (terminal.json) terminal.document(result);
  else {
    terminal.line(JSON.stringify(output));
    if (result.left_out?.includes('final_output')) terminal.note('the final output is longer than a message may be');
    for (const failure of result.failures ?? []) terminal.note(failureText(failure));
    const how = state === 'done' && !success ? 'done, with failures' : state;
    terminal.note(error === null ? `run ${id}: ${how}` : `run ${id}: ${how}: ${error.message} [${error.code}]`);
  }
  return success ? 0 : 1;
}

/** Describes a node that failed, or a map with items that failed. */
function failureText({ node_id: node, error, items, items_failed: failed, places = [] }: ChainFailure): string {
  const why = `${error.message} [${error.code}]`;
  if (failed === undefined) return `${node} failed: ${why}`;
  const at = `${places.slice(0, MAX_PLACES).join(', ')}${failed > MAX_PLACES ? ', …' : ''}`;
  return `${node}: ${failed} of ${counted(items ?? failed, 'item')} failed, at ${at}; the first: ${why}`;
}

/** Places of failed items that a line names. */
const MAX_PLACES = 10;

/** Runs that `runs` lists without `--limit`. */
const LISTED = 100;

async function runs(context: Context): Promise<undefined> {
  const { options, terminal, signal } = context;
  const limit = wholeNumber(options.limit, '--limit', { least: 1 }) ?? LISTED;
  const filter = options.state === undefined ? {} : { state: String(options.state) };
  // Asking for one more than is shown tells whether more runs exist.
  const all = await clientOf(context).runs({ ...filter, limit: limit + 1 }, { signal });
  const found = all.slice(0, limit);
  if (terminal.json) return terminal.document(found) as undefined;
  if (found.length === 0) terminal.note('no runs');
  else terminal.table(['RUN', 'STATE', 'NODES', 'STARTED', 'CHAIN'], found.map(rowOf));
  if (all.length > limit) terminal.note(`the newest ${limit}; there are more: --limit`);
}

const SOUGHT: Sought = {
  noun: 'run',
  missing: (message) => failure('unknown_run', message),
  see: 'handfast chain runs',
};

const WHOLE_ID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/;

/**
 * Returns the id of the run that the first argument names: an id, the beginning of one, or `last`. Fails with
 * `chains.unknown_run`, `usage`.
 */
async function runIdOf(context: Context): Promise<string> {
  const [word = ''] = wordsOf(context);
  if (WHOLE_ID.test(word)) return word;
  const limit = word === 'last' ? 1 : Number.POSITIVE_INFINITY;
  const known = await clientOf(context).runs({ limit }, { signal: context.signal });
  return lastOrByPrefix(word, known, ({ chain_id }) => chain_id, SOUGHT).chain_id;
}

const rowOf = ({ chain_id: id, state, nodes_ended: ended, nodes_total: total, started_at: at, ...chain }: ChainRun) => [
  id,
  state,
  `${ended}/${total}`,
  timeText(at),
  chain.name === '' ? '' : chainWord(chain),
];

async function status(context: Context): Promise<undefined> {
  const { options, terminal, signal } = context;
  const id = await runIdOf(context);
  const found = await clientOf(context).status(id, { definition: true, signal });
  const svg = options.svg as string | undefined;
  if (terminal.json && svg === undefined) return terminal.document(found) as undefined;
  const { graph } = readChain({ nodes: found.definition, entry_node: found.entry_node });
  if (graph !== undefined)
    await show(graph, { title: `run ${found.run.chain_id}, ${found.run.state}`, states: found.nodes, svg }, terminal);
  if (svg === undefined) oneLine(found.run, terminal);
  for (const state of terminal.json ? [] : found.nodes) {
    const { node_id: node, error, waits_for: waits } = state;
    if (error) terminal.note(`${node}: ${error.message} [${error.code}]`);
    for (const line of itemLines(state)) terminal.note(line);
    if (waits?.approval !== undefined) {
      const who = !Array.isArray(waits.by) ? '' : ` ${waits.by.join(' or ')}`;
      terminal.note(`${node} asks${who}: ${waits.approval}`);
    }
    if (waits?.event !== undefined) terminal.note(`${node} waits for the event ${waits.event}`);
  }
}

/** Returns lines about the items of a map that have no output. */
function itemLines({ node_id, items, items_failed: failed = 0, items_skipped: skipped = 0, failed_items }: NodeState) {
  const lines: string[] = [];
  const [first] = failed_items ?? [];
  if (first !== undefined) {
    const places = failed_items?.map(({ index }) => index) ?? [];
    lines.push(failureText({ node_id, error: first.error, items, items_failed: failed, places }));
  }
  if (skipped > 0)
    lines.push(`${node_id}: ${skipped} of ${counted(items ?? skipped, 'item')} skipped by their condition`);
  return lines;
}

/** Prints a run on one line. */
function oneLine(found: ChainRun, terminal: CommandTerminal): void {
  const { chain_id: id, state, nodes_ended: ended, nodes_total: total, error } = found;
  if (terminal.json) terminal.document(found);
  else
    terminal.line(
      `run ${id}: ${state}, ${ended} of ${counted(total, 'node')} ended${error === null ? '' : `: ${error.message}`}`,
    );
}

async function history(context: Context): Promise<undefined> {
  const { options, terminal, signal } = context;
  const id = await runIdOf(context);
  const page = {
    after: wholeNumber(options.after, '--after') ?? 0,
    ...(options.node !== undefined && { nodeId: String(options.node) }),
  };
  const { entries, next } = await clientOf(context).history(id, page, { signal });
  if (terminal.json) terminal.document({ entries, next });
  else {
    const rows = entries.map(({ seq, at, phase, node_id: node, data }) => [
      String(seq),
      timeText(at),
      phase,
      node,
      data === undefined ? '' : JSON.stringify(data),
    ]);
    terminal.table(['SEQ', 'AT', 'PHASE', 'NODE', 'DATA'], rows);
    if (next > 0) terminal.note(`more: --after ${next}`);
  }
}

/** Returns the decisions on nodes that may have run, and on the limits of the run. */
async function decisionsOf({ options }: Context) {
  const { rerun, skip, done, timeout, budget } = options;
  const seconds = Number(timeout ?? 0);
  if (!(seconds >= 0)) throw fail('usage', `--timeout: expected seconds, got ${JSON.stringify(timeout)}`);
  return {
    ...(rerun !== undefined && { rerun: rerun as string[] }),
    ...(skip !== undefined && { skip: skip as string[] }),
    ...(done !== undefined && { done: await outputsByNode(done as string[], '--done') }),
    ...(timeout !== undefined && { seconds }),
    ...(budget !== undefined && { budget: await objectOf(String(budget), '--budget') }),
  };
}

/** Continues a run and prints its result. The options decide on nodes that may have run. */
async function continued(
  context: Context,
  id: string,
  run: (decisions: ChainResumeOptions) => PromiseLike<ChainResult>,
): Promise<number> {
  const { terminal } = context;
  const decisions = await decisionsOf(context);
  try {
    return await untilEnded(context, id, (signal) => run({ ...decisions, signal }));
  } catch (thrown) {
    const { code, detail } = asError(thrown);
    if (code === 'chains.uncertain' && !terminal.json) {
      const nodes = (detail.nodes as string[]).join(' ');
      terminal.note(`add --rerun ${nodes}, --skip ${nodes} or --done ${nodes}`);
    }
    throw thrown;
  }
}

async function resume(context: Context): Promise<number> {
  const id = await runIdOf(context);
  return continued(context, id, (decisions) => clientOf(context).resume(id, decisions));
}

async function retryFrom(context: Context): Promise<number> {
  const [, node = ''] = wordsOf(context);
  const id = await runIdOf(context);
  return continued(context, id, (decisions) => clientOf(context).retry(id, node, decisions));
}

async function pause(context: Context): Promise<undefined> {
  const id = await runIdOf(context);
  oneLine(await clientOf(context).pause(id, { signal: context.signal }), context.terminal);
}

async function cancel(context: Context): Promise<undefined> {
  const [, ...reason] = wordsOf(context);
  const id = await runIdOf(context);
  oneLine(await clientOf(context).cancel(id, { reason: reason.join(' '), signal: context.signal }), context.terminal);
}

async function approve(context: Context): Promise<undefined> {
  const { options, signal, terminal } = context;
  const [word = '', node = ''] = wordsOf(context);
  const owner = options.owner === undefined ? '' : String(options.owner);
  const id = owner === '' ? await runIdOf(context) : word;
  const note = options.note === undefined ? '' : String(options.note);
  oneLine(await clientOf(context).approve(id, node, options.deny !== true, { note, owner, signal }), terminal);
}

async function approvals(context: Context): Promise<undefined> {
  const { signal, terminal } = context;
  const found = await clientOf(context).approvals({ signal });
  if (terminal.json) return terminal.document(found) as undefined;
  terminal.table(
    ['RUN', 'OWNER', 'NODE', 'QUESTION'],
    found.map(({ chain_id: id, owner, node_id: node, approval }) => [id, owner, node, approval]),
  );
}

async function deliver(context: Context): Promise<undefined> {
  const { signal, terminal } = context;
  const [, event = '', data] = wordsOf(context);
  const id = await runIdOf(context);
  const nodes = await clientOf(context).deliver(id, event, data === undefined ? null : jsonOrText(data, 'DATA'), {
    signal,
  });
  if (terminal.json) terminal.document({ nodes });
  else terminal.line(nodes === 0 ? 'stored: no node waits for it yet' : `${counted(nodes, 'node')} waited for it`);
}

const ABOUT_RUN = 'RUN is an id, the beginning of one, or "last".';

const decisions = [
  ['--rerun <node...>', 'nodes that may have run and are not idempotent: run them again'],
  ['--skip <node...>', 'do not run these again: their output is null'],
  ['--done <output...>', 'these did run: NODE=JSON with the output, or NODE alone for null'],
  ['--timeout <seconds>', 'longest run from now on (default: that of the chain)'],
  ['--budget <json>', 'what the run may use in all, as in the chain file: {"tokens": 50000}, or @FILE with it'],
] as const;

export const commands: readonly CapabilityCommand[] = [
  {
    usage: 'run <chain>',
    about: 'run a chain file or a stored chain on the host, and print its final output; exit code 1 when it failed',
    options: [['--input <json>', 'the initial input: a JSON object, or @FILE with one']],
    help: 'A NAME that ends in .yaml, .yml or .json, or has a "/", is a file.\nElse NAME is the newest version of a stored chain, NAME@VERSION one of them.',
    run,
  },
  ...storedCommands,
  {
    usage: 'runs',
    about: 'list the runs of chains, the newest first',
    options: [
      ['--state <state>', 'only those that are running, waiting, paused, done, failed, cancelled or interrupted'],
      ['--limit <n>', `how many (default ${LISTED})`],
    ],
    run: runs,
  },
  {
    usage: 'status <run>',
    about: 'draw a run with the states of its nodes',
    options: [SVG_OPTION],
    help: ABOUT_RUN,
    run: status,
  },
  {
    usage: 'history <run>',
    about: 'print what happened in a run, oldest first',
    options: [
      ['--after <seq>', 'only entries behind this one'],
      ['--node <node>', 'only entries of this node'],
    ],
    help: ABOUT_RUN,
    run: history,
  },
  {
    usage: 'pause <run>',
    about: 'start no further node of a run, and wait until the running ones have ended',
    help: ABOUT_RUN,
    run: pause,
  },
  {
    usage: 'resume <run>',
    about: 'continue a run that was paused or interrupted',
    options: decisions,
    help: ABOUT_RUN,
    run: resume,
  },
  {
    usage: 'retry-from <run> <node>',
    about: 'run a chain that has stopped again from a node on',
    options: decisions,
    help: ABOUT_RUN,
    run: retryFrom,
  },
  { usage: 'cancel <run> [reason...]', about: 'end a run', help: ABOUT_RUN, run: cancel },
  {
    usage: 'approve <run> <node>',
    about: 'answer the question of a wait node with yes',
    options: [
      ['--deny', 'with no: the node fails'],
      ['--note <text>', 'becomes part of the output of the node'],
      ['--owner <principal>', 'the principal that runs it, where its node asks yours; RUN is the whole id then'],
    ],
    help: ABOUT_RUN,
    run: approve,
  },
  {
    usage: 'approvals',
    about: 'list questions of runs of other principals that yours may answer',
    run: approvals,
  },
  {
    usage: 'deliver <run> <event> [data]',
    about: 'deliver an event, with JSON data, to wait nodes',
    help: ABOUT_RUN,
    run: deliver,
  },
];
