/**
 * Cuts a prompt into words, quoted texts and JSON objects, so that directives can be separated without reading into quoted
 * text. Pure.
 */

/** One piece of a prompt. `text` of a quoted piece is the text between its quotes. */
export interface Token {
  readonly kind: 'word' | 'quoted' | 'json' | 'comma' | 'sentence' | 'break';
  readonly text: string;
  /** Its position in the prompt. */
  readonly start: number;
  readonly end: number;
}

/** Opening quote → closing quote. */
const QUOTES: Readonly<Record<string, string>> = { '"': '"', "'": "'", '`': '`', '“': '”', '«': '»' };

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r' };

/** Quotes and braces that turned out not to be closed, after which none is looked at any more: each costs a whole pass. */
const MAX_UNCLOSED = 32;

/** Returns the pieces of a prompt in order. `break` = a line end or a semicolon, `sentence` = a full stop. */
export function tokensOf(source: string): Token[] {
  const tokens: Token[] = [];
  let unclosed = 0;
  let at = 0;
  while (at < source.length) {
    const character = source[at] as string;
    if (character === '\n' || character === ';') {
      tokens.push({ kind: 'break', text: character, start: at, end: at + 1 });
      at += 1;
    } else if (/\s/.test(character)) at += 1;
    else {
      const opens = character === '{' || Object.hasOwn(QUOTES, character);
      const whole = opens && unclosed < MAX_UNCLOSED ? (jsonAt(source, at) ?? quotedAt(source, at)) : undefined;
      if (whole === undefined) {
        if (opens) unclosed += 1;
        at = pushWord(source, at, tokens);
      } else {
        tokens.push(whole);
        at = whole.end;
      }
    }
  }
  return tokens;
}

/** Returns a quoted text that starts here; undefined when no quote closes it, as with the apostrophe of a word. */
function quotedAt(source: string, start: number): Token | undefined {
  const closing = QUOTES[source[start] as string];
  if (closing === undefined) return undefined;
  let text = '';
  for (let at = start + 1; at < source.length; at += 1) {
    const character = source[at] as string;
    if (character === closing) return { kind: 'quoted', text, start, end: at + 1 };
    // In backticks a backslash is the shell's.
    if (character === '\\' && closing !== '`' && at + 1 < source.length) {
      at += 1;
      const escaped = source[at] as string;
      text += ESCAPES[escaped] ?? escaped;
    } else text += character;
  }
  return undefined;
}

/** Returns a JSON object that starts here. */
function jsonAt(source: string, start: number): Token | undefined {
  if (source[start] !== '{') return undefined;
  let depth = 0;
  let quoted = false;
  for (let at = start; at < source.length; at += 1) {
    const character = source[at];
    if (quoted) {
      if (character === '\\') at += 1;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = true;
    else if (character === '{') depth += 1;
    else if (character === '}') depth -= 1;
    if (depth === 0) return { kind: 'json', text: source.slice(start, at + 1), start, end: at + 1 };
  }
  return undefined;
}

/** Adds a word up to the next space; punctuation at its end is a separate piece. Returns the index of its end. */
function pushWord(source: string, start: number, tokens: Token[]): number {
  let end = start;
  while (end < source.length && !/[\s;]/.test(source[end] as string)) end += 1;
  const raw = source.slice(start, end);
  // `.` and `..` are folders, except right behind a quote.
  const before = tokens.at(-1);
  const glued = before !== undefined && before.end === start && before.kind !== 'word';
  const mark = /^\.+$/.test(raw) && !glued ? '' : (/[.,:]$/.exec(raw)?.[0] ?? '');
  const text = raw.slice(0, raw.length - mark.length);
  if (text !== '') tokens.push({ kind: 'word', text, start, end: end - mark.length });
  if (mark === ',') tokens.push({ kind: 'comma', text: mark, start: end - 1, end });
  if (mark === '.') tokens.push({ kind: 'sentence', text: mark, start: end - 1, end });
  return end;
}
