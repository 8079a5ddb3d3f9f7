/**
 * Compiles file name patterns to regular expressions: the patterns of `glob` and of the `files` filter of `grep`.
 *
 * Pure. Runs only in the search thread, where a pattern that makes matching slow can be stopped.
 */

/** A list of patterns as one test. */
export interface PathFilter {
  /** Returns true for a path that some pattern names and no `!` pattern excludes. */
  matches(path: string): boolean;
  /** Returns false when nothing below the directory can match, so that it need not be read. */
  mayHold(directory: string): boolean;
}

/**
 * Compiles patterns. `*` and `?` stay within one name, `**` crosses directories, `[a-z]`, `[!a-z]` and `{a,b}` as in a shell,
 * `\` takes the next character literally. A pattern without `/` is matched against the name at any depth; with `/` against the
 * path from the start directory; a pattern that ends in `/` means all below. `!` in front excludes.
 *
 * With no including pattern, every path matches that is not excluded.
 */
export function pathFilter(patterns: readonly string[]): PathFilter {
  const excluded = patterns
    .filter((pattern) => pattern.startsWith('!'))
    .map((pattern) => globExpression(pattern.slice(1)));
  const included = patterns.filter((pattern) => !pattern.startsWith('!'));
  const expressions = included.map(globExpression);
  const prefixes = included.map(literalPrefix);
  return {
    matches: (path) =>
      (expressions.length === 0 || expressions.some((expression) => expression.test(path))) &&
      !excluded.some((expression) => expression.test(path)),
    mayHold: (directory) => {
      if (prefixes.length === 0) return true;
      const names = directory.split('/');
      return prefixes.some((prefix) => prefix.every((name, index) => index >= names.length || names[index] === name));
    },
  };
}

/** Returns the leading directories of a pattern that contain no wildcard: its matches can only be below them. */
function literalPrefix(pattern: string): string[] {
  const parts = anchored(pattern).split('/');
  parts.pop();
  const wild = parts.findIndex((part) => /[*?[\]{}\\]/.test(part));
  // A brace may span several parts, so the literal ones are counted only up to the first special character.
  return wild === -1 ? parts : parts.slice(0, wild);
}

/** Removes a leading `./` or `/`; a pattern that names no directory gets the "any depth" prefix. */
function anchored(pattern: string): string {
  const bare = pattern.replace(/^(?:\.?\/)+/, '');
  const whole = bare.endsWith('/') ? `${bare}**` : bare;
  return bare === pattern && !pattern.includes('/') ? `**/${whole}` : whole;
}

/** Returns the expression that matches exactly the paths that one pattern names. */
export function globExpression(pattern: string): RegExp {
  const text = anchored(pattern);
  const reader = { text, at: 0, closed: closedBraces(text) };
  return new RegExp(`^${sequence(reader, 0)}$`, 'su');
}

interface Reader {
  readonly text: string;
  at: number;
  /** Positions of the opening braces that have a closing one; any other brace is a plain character. */
  readonly closed: ReadonlySet<number>;
}

function closedBraces(text: string): Set<number> {
  const closed = new Set<number>();
  const open: number[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === '\\') at += 1;
    else if (character === '[') at += (classAt(text, at)?.[0].length ?? 1) - 1;
    else if (character === '{') open.push(at);
    else if (character === '}' && open.length > 0) closed.add(open.pop()!);
  }
  return closed;
}

/** Reads until the end, or inside braces until `,` or `}`. */
function sequence(reader: Reader, depth: number): string {
  const { text } = reader;
  let source = '';
  while (reader.at < text.length) {
    const character = String.fromCodePoint(text.codePointAt(reader.at)!);
    if (depth > 0 && (character === ',' || character === '}')) return source;
    const startsName = reader.at === 0 || text[reader.at - 1] === '/';
    if (startsName && text.startsWith('**/', reader.at)) {
      reader.at += 3;
      source += '(?:[^/]+/)*';
    } else if (startsName && text.startsWith('**', reader.at) && reader.at + 2 === text.length) {
      reader.at += 2;
      source += '.+';
    } else if (character === '*') {
      while (text[reader.at] === '*') reader.at += 1;
      source += '[^/]*';
    } else if (character === '?') {
      reader.at += 1;
      source += '[^/]';
    } else if (character === '[') {
      source += characterClass(reader);
    } else if (character === '{' && reader.closed.has(reader.at)) {
      source += alternatives(reader, depth);
    } else if (character === '\\' && reader.at + 1 < text.length) {
      const escaped = String.fromCodePoint(text.codePointAt(reader.at + 1)!);
      reader.at += 1 + escaped.length;
      source += literal(escaped);
    } else {
      reader.at += character.length;
      source += literal(character);
    }
  }
  return source;
}

function literal(character: string): string {
  return /[\\^$.*+?()[\]{}|/]/.test(character) ? `\\${character}` : character;
}

/** Returns the class that begins at `at`: whole text, negation, content; null when the bracket is a plain character. */
function classAt(text: string, at: number): RegExpExecArray | null {
  const expression = /\[([!^]?)(\]?[^\]/]*)\]/uy;
  expression.lastIndex = at;
  const match = expression.exec(text);
  return match === null || match[2] === '' ? null : match;
}

/** Reads `[a-z]`, `[!a-z]`, `[^a-z]`, `[]a]`; without its closing bracket a plain `[`. Never matches `/`. */
function characterClass(reader: Reader): string {
  const match = classAt(reader.text, reader.at);
  if (match === null) {
    reader.at += 1;
    return '\\[';
  }
  reader.at += match[0].length;
  const inside = match[2]!.replace(/[\\[\]^]/g, '\\$&');
  const source = match[1] === '' ? `(?!/)[${inside}]` : `(?!/)[^${inside}]`;
  try {
    new RegExp(source, 'u');
    return source;
  } catch {
    // A range that runs backwards matches nothing in a shell, either.
    return '(?!)';
  }
}

/** Reads `{a,b}`, also nested; a single branch is plain text, as in a shell. */
function alternatives(reader: Reader, depth: number): string {
  const branches: string[] = [];
  do {
    reader.at += 1;
    branches.push(sequence(reader, depth + 1));
  } while (reader.text[reader.at] === ',');
  reader.at += 1;
  return branches.length === 1 ? `\\{${branches[0]}\\}` : `(?:${branches.join('|')})`;
}
