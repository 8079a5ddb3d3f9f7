/** The commands of `handfast chain` that store, list, print and remove chains at the host. */
import { counted } from '../../base/counted.ts';
import type { CapabilityCommand, CommandContext } from '../../packages/capability.ts';
import { wholeNumber } from '../../packages/command-values.ts';
import { asError, fail } from '../../wire/errors.ts';
import { chainRefOf, chainWord } from './chain-ref.ts';
import type { ChainProblem, ChainRef, StoredChain } from './chains.schema.ts';
import { ChainsClient } from './client.ts';
import { readChain } from './definition/read.ts';
import { SVG_OPTION, show } from './draw/show.ts';
import { loadChainFile } from './files/chain-file.ts';
import { chainFileText } from './files/chain-file-text.ts';
import { timeText } from './time-text.ts';

/** Chains per request when listing. */
const PAGE = 200;

const clientOf = ({ agent }: CommandContext): ChainsClient => new ChainsClient(agent);

function refOf({ args: [word] }: CommandContext): ChainRef {
  const ref = chainRefOf(String(word));
  if (ref !== undefined) return ref;
  throw fail('usage', `expected a stored chain as NAME or NAME@VERSION, got ${JSON.stringify(word)}`);
}

async function put(context: CommandContext): Promise<undefined> {
  const { args, options, signal, terminal } = context;
  const { definition, refusal } = await loadChainFile(String(args[0]));
  const { name, nodes, ...more } = definition;
  const ifVersion = wholeNumber(options.ifVersion, '--if-version');
  const chain = { ...more, nodes: [...nodes], ...(ifVersion !== undefined && { ifVersion }) };
  const stored = await clientOf(context)
    .put(name, chain, { signal })
    .catch((thrown: unknown) => {
      const { code, detail } = asError(thrown);
      const problems = code === 'chains.invalid' ? detail.problems : undefined;
      // Problems that the host finds get their positions in the file, too.
      throw Array.isArray(problems) ? refusal(problems as ChainProblem[]) : thrown;
    });
  const { version, created } = stored;
  if (terminal.json) terminal.document({ name, version, created });
  else terminal.line(chainWord(stored));
  if (!created) terminal.note('the newest version was the same already');
}

async function ls(context: CommandContext): Promise<undefined> {
  const { args, signal, terminal } = context;
  const name = args[0] === undefined ? '' : String(args[0]);
  const client = clientOf(context);
  const found: StoredChain[] = [];
  for (let more = true; more; ) {
    const last = found.at(-1);
    const after = last === undefined ? '' : name === '' ? last.name : String(last.version);
    const page = await client.list({ name, after, limit: PAGE }, { signal });
    found.push(...page);
    more = page.length === PAGE;
  }
  if (name !== '' && found.length === 0) {
    throw fail('not_found', `no stored chain ${JSON.stringify(name)}; "handfast chain ls" lists them`);
  }
  if (terminal.json) terminal.document(found);
  else if (found.length === 0) terminal.note('no stored chains; "handfast chain put FILE" stores one');
  else if (name === '') {
    terminal.table(
      ['CHAIN', 'VERSIONS', 'STORED', 'DESCRIPTION'],
      found.map((chain) => [
        chainWord(chain),
        String(chain.versions ?? ''),
        timeText(chain.created_at),
        chain.description,
      ]),
    );
  } else {
    terminal.table(
      ['CHAIN', 'STORED', 'DESCRIPTION'],
      found.map((chain) => [chainWord(chain), timeText(chain.created_at), chain.description]),
    );
  }
}

async function get(context: CommandContext): Promise<undefined> {
  const { options, signal, terminal } = context;
  const { name, ...which } = refOf(context);
  const chain = await clientOf(context).get(name, { ...which, signal });
  const svg = options.svg as string | undefined;
  if (options.draw !== true && svg === undefined) {
    if (terminal.json) terminal.document(chain);
    else terminal.line((await chainFileText(chain)).trimEnd());
    return;
  }
  const { graph, problems } = readChain({ ...chain, nodes: chain.nodes ?? [] });
  if (graph === undefined)
    throw fail('schema_violation', `${chainWord(chain)} cannot be drawn: ${problems[0]?.message}`);
  await show(graph, { title: chainWord(chain), svg }, terminal);
}

async function rm(context: CommandContext): Promise<undefined> {
  const { signal, terminal } = context;
  const { name, ...which } = refOf(context);
  const versions = await clientOf(context).remove(name, { ...which, signal });
  if (terminal.json) terminal.document({ versions });
  else terminal.line(`removed ${counted(versions, 'version')} of ${name}`);
}

const WHICH = 'NAME is the newest version of a stored chain, NAME@VERSION one of them.';

export const storedCommands: readonly CapabilityCommand[] = [
  {
    usage: 'put <file>',
    about: 'store a chain file at the host under its name, and print the name and the version',
    options: [['--if-version <n>', 'only when this is the newest version; 0: when there is none']],
    help: 'The name is that in the file, else that of the file.\nA chain that is the same as the newest version makes no new one.',
    run: put,
  },
  { usage: 'ls [name]', about: 'list the stored chains, or the versions of one, the newest first', run: ls },
  {
    usage: 'get <chain>',
    about: 'print a stored chain as a chain file, or draw it',
    options: [['--draw', 'draw it as text'], SVG_OPTION],
    help: WHICH,
    run: get,
  },
  {
    usage: 'rm <chain>',
    about: 'remove a stored chain with all its versions, or one version',
    help: 'NAME is all versions of a stored chain, NAME@VERSION one of them. Runs of it keep their own.',
    run: rm,
  },
];
