/** Prints the drawing of a chain, or writes it to a file. */
import { writeFile } from 'node:fs/promises';
import { fileProblem } from '../../../base/workspace/file-error.ts';
import type { CommandTerminal } from '../../../packages/capability.ts';
import { fail } from '../../../wire/errors.ts';
import type { ChainGraph } from '../definition/graph.ts';
import type { DrawnState } from './picture.ts';
import { drawSvg } from './svg.ts';
import { drawText } from './text.ts';

export interface ShowOptions {
  /** The title of the chain or the run. */
  readonly title: string;
  /** The states of a run. Without them the definition is drawn. */
  readonly states?: readonly DrawnState[] | undefined;
  /** The file for an SVG picture; undefined: text is printed. */
  readonly svg: string | undefined;
}

/** The option of commands that show a chain, as `CapabilityCommand.options` has it. */
export const SVG_OPTION = ['--svg <file>', 'write an SVG picture to this file'] as const;

/** Shows a chain. Fails with `usage` for a file that cannot be written. */
export async function show(
  graph: ChainGraph,
  { title, states, svg }: ShowOptions,
  terminal: CommandTerminal,
): Promise<void> {
  if (svg !== undefined) {
    await writeFile(svg, drawSvg(graph, { states, title })).catch((cause: NodeJS.ErrnoException) => {
      throw fail('usage', `cannot write ${svg}: ${fileProblem(cause)}`, {}, cause);
    });
    if (terminal.json) terminal.document({ file: svg });
    else terminal.line(svg);
    return;
  }
  const text = drawText(graph, { states, width: process.stdout.columns || 80 });
  if (terminal.json) terminal.document({ text });
  else for (const line of text.split('\n')) terminal.line(line);
}
