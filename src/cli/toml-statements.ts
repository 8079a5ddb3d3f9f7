/**
 * The places of the statements of a TOML text: its table headers and its pairs, with the whole path of each. The value of a
 * pair is passed over and not read, so that a member can be replaced in a text whose every other byte stays. Pure.
 */

/** A table header, or a pair of a key and a value. */
export interface TomlStatement {
  readonly kind: 'table' | 'pair';
  /** Path from the root of the document; for a pair with the path of its table. */
  readonly path: readonly string[];
  /** The table that a pair is written in; of a header its own path. */
  readonly table: readonly string[];
  /** Its first line, and the one behind its last. */
  readonly from: number;
  readonly to: number;
}

/** A key of dots: bare words, and texts in either kind of quotes. */
const KEY = /[ \t]*(?:([\w-]+)|"((?:[^"\\]|\\.)*)"|'([^']*)')[ \t]*(\.)?/y;
/** Parts by which a value is passed over: texts of four kinds, comments, brackets, any other character. */
const VALUE_PART =
  /"""(?:[^\\]|\\[\s\S])*?"""+|'''[\s\S]*?'''+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*|[[{]|[\]}]|\n|[\s\S]/y;

/** Returns the statements in their order; `undefined` for a text that is not TOML, as far as this looks. */
export function tomlStatements(text: string): TomlStatement[] | undefined {
  const statements: TomlStatement[] = [];
  let table: readonly string[] = [];
  let line = 0;
  for (let at = 0; at < text.length; ) {
    const start = skipBlank(text, at);
    line += linesIn(text.slice(at, start));
    if (start === text.length) break;
    const brackets = /\[{0,2}/y;
    brackets.lastIndex = start;
    const open = brackets.exec(text)?.[0].length ?? 0;
    const key = keyAt(text, start + open);
    if (key === undefined) return undefined;
    let end: number | undefined;
    if (open > 0) {
      const closed = text.startsWith(']'.repeat(open), key.end);
      end = closed ? valueEnd(text, key.end + open) : undefined;
      table = key.path;
    } else {
      end = text[key.end] === '=' ? valueEnd(text, key.end + 1) : undefined;
    }
    if (end === undefined) return undefined;
    const from = line;
    line += linesIn(text.slice(start, end));
    const path = open > 0 ? table : [...table, ...key.path];
    statements.push({ kind: open > 0 ? 'table' : 'pair', path, table, from, to: line + 1 });
    at = end;
  }
  return statements;
}

const linesIn = (text: string): number => text.split('\n').length - 1;

/** Returns the index behind blanks, line ends and comments. */
function skipBlank(text: string, from: number): number {
  const blank = /(?:[\s\uFEFF]|#[^\n]*)*/y;
  blank.lastIndex = from;
  blank.test(text);
  return blank.lastIndex;
}

function keyAt(text: string, from: number): { path: string[]; end: number } | undefined {
  const path: string[] = [];
  KEY.lastIndex = from;
  for (;;) {
    const found = KEY.exec(text);
    if (found === null) return undefined;
    const [, bare, quoted, literal, dot] = found;
    path.push(bare ?? literal ?? unquoted(quoted as string));
    if (dot === undefined) return { path, end: KEY.lastIndex };
  }
}

/** Reads a text. Texts of TOML are texts of JSON, except for escapes that keys of settings have no use for. */
function unquoted(text: string): string {
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return text;
  }
}

/** Returns the end of the line on which a value ends. */
function valueEnd(text: string, from: number): number | undefined {
  let depth = 0;
  VALUE_PART.lastIndex = from;
  for (;;) {
    const at = VALUE_PART.lastIndex;
    const part = VALUE_PART.exec(text)?.[0];
    if (part === undefined) return depth === 0 ? text.length : undefined;
    if (part === '\n' && depth === 0) return at;
    if (part === '[' || part === '{') depth += 1;
    if (part === ']' || part === '}') depth -= 1;
  }
}
