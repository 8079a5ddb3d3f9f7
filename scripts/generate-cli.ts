/**
 * Writes the reference of the command line, `docs/cli.md`: the help of every command in its printed form; and
 * `schema/cli.json`: the output of each with `--json`.
 */
import { commandsBelow, wordsOf } from '../src/cli/examples.ts';
import type { Command } from '../src/cli/options.ts';
import { commandLine } from '../src/cli/program.ts';
import { documents, failure } from './cli-documents.ts';
import { exitCodes } from './generate-errors.ts';

/** Columns of the help in the page. */
const WIDTH = 110;

const intro = `# Command line

<!-- Generated from src/cli by "npm run generate". -->

Every command of \`handfast\` with its help. [README](../README.md#commands) has the commands by purpose.

- **Output.** Results go to stdout, everything about them to stderr. On a terminal, tables fit its width, states have a colour
  and long output goes through \`$PAGER\` (default \`less\`; empty or \`cat\` turns it off). \`NO_COLOR\` turns colour off,
  \`FORCE_COLOR\` turns it on for pipes.
- **JSON.** With \`--json\` stdout has JSON only: one document on one line, or one a line where a command prints several. An error
  is one line on stderr. Names are in snake case; messages of the protocols are printed as they came. \`schema/cli.json\` describes
  each document by the words of its command, and \`handfast schema export cli\` prints it.
- **Ids.** The beginning of an id that only one thing has is accepted everywhere, and \`last\` for the newest session or task.
- **Completion.** \`handfast completion bash\`, \`zsh\` or \`fish\` prints a script for that shell.
`;

/** Returns the help of a command in its printed form, without colour, in a fixed width. */
function helpOf(command: Command): string {
  let help = '';
  command.configureOutput({
    writeOut: (part) => {
      help += part;
    },
    getOutHelpWidth: () => WIDTH,
    getOutHasColors: () => false,
  });
  command.outputHelp();
  return help.trimEnd();
}

const program = await commandLine(async () => {});

/** Returns the content of the two files by path. */
export function generateCli(): Map<string, string> {
  const commands = commandsBelow(program).filter((each) => wordsOf(each) !== 'complete');
  const sections = commands.map((command) => {
    const words = wordsOf(command);
    return `## ${['handfast', words].join(' ').trim()}\n\n\`\`\`text\n${helpOf(command)}\n\`\`\``;
  });
  const exits = Object.entries(exitCodes).map(([code, meaning]) => `| ${code} | ${meaning} |`);
  const codes = ['## Exit codes', '', '| Exit | Meaning |', '| ---: | --- |', ...exits].join('\n');
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: 'cli.json',
    title: 'What each command prints with --json, by its words; `error` is a failure, on stderr',
    $defs: { ...documents, error: failure },
  };
  return new Map([
    ['docs/cli.md', `${[intro.trimEnd(), ...sections, codes].join('\n\n')}\n`],
    ['schema/cli.json', `${JSON.stringify(schema, null, 2)}\n`],
  ]);
}
