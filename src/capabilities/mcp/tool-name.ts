/**
 * The name of an MCP server's tool among the tools of its host: `<server>__<tool>`, as A2E 1.0 has it. Two pairs of server and
 * tool never have one name, and a name identifies its pair: neither names nor rules can take one tool for another. Pure.
 *
 * - A tool of a server whose id has no `__` and no `_` at its end: the first `__` of the name ends the id.
 * - A tool of another server: `.-.` follows the `__` that ends the id, which has no dots.
 * - Characters of a tool other than letters, digits, `_`, `-` and `.` are written as their code points, in hexadecimal: `a b`
 *   is `a.-20.b`. So is a `.` before a `-`.
 *
 * @see docs/decisions/0064-names-of-mcp-tools.md
 */

/** A tool of a server, by their original names. */
export interface ToolOfServer {
  readonly server: string;
  readonly tool: string;
}

/** Longest name of a tool of a server, in characters. */
export const MAX_TOOL_NAME = 1_024;

const JOINT = '__';
const MARK = '.-.';

/** Returns the name of a tool among the tools of its host. */
export function mcpToolName({ server, tool }: ToolOfServer): string {
  return `${server}${JOINT}${isPlainServer(server) ? '' : MARK}${escaped(tool)}`;
}

/** Returns the tool that a name means; undefined for a name that no tool of a server has. */
export function toolOfName(name: string): ToolOfServer | undefined {
  const marked = name.indexOf(`${JOINT}${MARK}`);
  const end = marked >= 0 ? marked : name.indexOf(JOINT);
  if (end < 0) return undefined;
  const text = name.slice(end + JOINT.length + (marked >= 0 ? MARK.length : 0));
  const read = { server: name.slice(0, end), tool: unescaped(text) };
  // Each tool has exactly one name.
  return mcpToolName(read) === name ? read : undefined;
}

/** Returns true if the first `__` of a name ends the id of its server. */
export const isPlainServer = (server: string): boolean => !server.includes(JOINT) && !server.endsWith('_');

const escaped = (text: string): string =>
  text.replaceAll(/(?:[^\w.-]|\.(?=-))+/gu, (run) => `.-${Array.from(run, hex).join('-')}.`);

const hex = (character: string): string => (character.codePointAt(0) as number).toString(16);

const unescaped = (text: string): string =>
  text.replaceAll(/\.-([0-9a-f]{1,6}(?:-[0-9a-f]{1,6})*)\./g, (run, points: string) => {
    const numbers = points.split('-').map((point) => Number.parseInt(point, 16));
    return numbers.every((number) => number <= 0x10_ff_ff) ? String.fromCodePoint(...numbers) : run;
  });
