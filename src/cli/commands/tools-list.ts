/** `handfast tools ls` and `handfast tools search`: the tools this principal may see. */
import type { ToolDescription } from '../../capabilities/tools/messages.ts';
import type { ConnectFlags } from '../connect/find-host.ts';
import { TOOL_CAPABILITIES, withAgent } from '../connect/open-agent.ts';
import type { Terminal } from '../output/terminal.ts';

export interface ToolsFlags extends ConnectFlags {
  readonly kind?: string;
  readonly tag?: readonly string[];
  /** Lists also tools that plain lists leave out. */
  readonly all?: boolean;
}

/** Lists tools, in the order of the host. */
export async function toolsList({ kind, tag, all, ...flags }: ToolsFlags, terminal: Terminal): Promise<void> {
  await withAgent(flags, TOOL_CAPABILITIES, terminal, async ({ tools, signal }) => {
    print(await tools.list({ kind, tags: tag, includeDeferred: all }, { signal }), terminal);
  });
}

/** Lists the tools that fit a search, the best first. */
export async function toolsSearch(
  query: string,
  { kind, tag, ...flags }: ToolsFlags,
  terminal: Terminal,
): Promise<void> {
  await withAgent(flags, TOOL_CAPABILITIES, terminal, async ({ tools, signal }) => {
    print(await tools.search(query, { kind, tags: tag }, { signal }), terminal);
  });
}

function print(tools: readonly ToolDescription[], terminal: Terminal): void {
  if (terminal.json) return terminal.document(tools);
  if (tools.length === 0) return terminal.note('no tools');
  terminal.page();
  terminal.table(
    ['NAME', 'KIND', 'RISKS', 'DESCRIPTION'],
    tools.map(({ name, kind, risks, description }) => [
      name,
      String(kind ?? ''),
      Array.isArray(risks) ? risks.join(',') : '',
      firstSentence(description),
    ]),
  );
}

const firstSentence = (text: string): string => /^.*?[.!?](?=\s|$)/s.exec(text)?.[0] ?? text;
