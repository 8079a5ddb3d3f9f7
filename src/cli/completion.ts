/**
 * Completion in shells: `handfast completion SHELL` prints a script, which asks `handfast complete -- WORDS…` for candidates at
 * each Tab. The words are passed as arguments and never evaluated. Sessions, tasks, tools and the like come from the servers of
 * this user, within a moment; without a server they have no candidates.
 */

import { wordsOf } from './examples.ts';
import { type Command, Option } from './options.ts';

/** A word that fits, and its description. */
export interface Candidate {
  readonly value: string;
  readonly about: string;
}

/** Returns the things that an argument may name; rejects where they cannot be read. */
export type Known = (command: string, argument: string) => Promise<readonly Candidate[]>;

/** Returns the words that may stand in place of the last word. Empty where a file may, or nothing is known. */
export async function candidatesFor(program: Command, words: readonly string[], known: Known): Promise<Candidate[]> {
  const last = words.at(-1) ?? '';
  const { command, position, option } = placeOf(program, words.slice(0, -1));
  const found = await candidatesAt(command, { last, position, option }, known);
  return found.filter(({ value }) => value.startsWith(last) && !/\s/.test(value));
}

interface Place {
  readonly command: Command;
  /** Number of arguments of the command before the last word. */
  readonly position: number;
  /** The option whose value the last word is. */
  readonly option: Option | undefined;
}

function placeOf(program: Command, words: readonly string[]): Place {
  let command = program;
  let position = 0;
  let option: Option | undefined;
  for (const word of words) {
    const isValue = option !== undefined;
    option = undefined;
    if (isValue) continue;
    const named = word.startsWith('-')
      ? optionsOf(command).find(({ long, short }) => long === word || short === word)
      : undefined;
    if (named?.required) option = named;
    const below = command.commands.find((each) => each.name() === word);
    if (below !== undefined) [command, position] = [below, 0];
    else if (!word.startsWith('-')) position += 1;
  }
  return { command, position, option };
}

/** Returns the options of a command with `--help`, which the library adds by itself. */
const optionsOf = (command: Command): readonly Option[] => [...command.options, new Option('-h, --help', 'print help')];

async function candidatesAt(
  command: Command,
  { last, position, option }: { readonly last: string } & Omit<Place, 'command'>,
  known: Known,
): Promise<readonly Candidate[]> {
  if (option !== undefined) return choices(option.argChoices);
  if (last.startsWith('-')) {
    return optionsOf(command).flatMap(({ long, description, hidden }) =>
      hidden || !long ? [] : [{ value: long, about: description }],
    );
  }
  if (command.commands.length > 0) {
    return command
      .createHelp()
      .visibleCommands(command)
      .map((each) => ({ value: each.name(), about: each.description() }));
  }
  const args = command.registeredArguments;
  const argument = args[position] ?? (args.at(-1)?.variadic ? args.at(-1) : undefined);
  if (argument === undefined) return [];
  if (argument.argChoices !== undefined) return choices(argument.argChoices);
  return known(wordsOf(command), argument.name()).catch(() => []);
}

const choices = (words: readonly string[] = []): Candidate[] => words.map((value) => ({ value, about: '' }));

/** Returns one candidate a line, its description behind a tab. */
export const candidateLines = (found: readonly Candidate[]): string =>
  found.map(({ value, about }) => `${value}\t${about.replaceAll(/\s+/g, ' ')}\n`).join('');

/** Shells with a script. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** Returns the script of a shell, to be sourced by its start file. */
export const completionScript = (shell: Shell): string => SCRIPTS[shell];

const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `# handfast completion; in ~/.bashrc: source <(handfast completion bash)
_handfast() {
  local value about
  COMPREPLY=()
  while IFS=$'\\t' read -r value about; do
    COMPREPLY+=("$value")
  done < <(handfast complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _handfast handfast
`,
  zsh: `#compdef handfast
# handfast completion; in ~/.zshrc, behind compinit: source <(handfast completion zsh)
_handfast() {
  local -a found
  local value about
  while IFS=$'\\t' read -r value about; do
    found+=("\${value//:/\\\\:}:$about")
  done < <(handfast complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( $#found )); then _describe handfast found; else _files; fi
}
compdef _handfast handfast
`,
  fish: `# handfast completion; in ~/.config/fish/config.fish: handfast completion fish | source
function __handfast_complete
  set -l words (commandline -opc) (commandline -ct)
  handfast complete -- $words[2..-1] 2>/dev/null
end
complete -c handfast -f -a '(__handfast_complete)'
complete -c handfast -n 'test (count (__handfast_complete)) -eq 0' -F
`,
};
