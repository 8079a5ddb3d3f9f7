/**
 * YAML text → a tree of values with positions, and values → YAML text: the only file that imports `yaml`, and only when
 * a file is read or written.
 *
 * Anchors, aliases and merge keys (`<<`) are resolved here; no other feature of YAML is special.
 */
import type { Document, Node, Pair, Scalar, YAMLMap, YAMLSeq } from 'yaml';
import { keepsDigits } from '../base/exact-json.ts';
import { type ConfigEntry, type ConfigMap, type ConfigNode, join, type Position, type Reading } from './reader.ts';

/** Most values one file may unfold to. Aliases of aliases grow exponentially; a real file has some hundred values. */
const MAX_VALUES = 10_000;
/** Most syntax errors reported: one slip in the indentation makes many. */
const MAX_SYNTAX_PROBLEMS = 8;

/**
 * Reads YAML text. Syntax errors, duplicate keys, unknown tags and unresolvable aliases go to `reading`. The result is
 * undefined when the text is empty, or so broken that its values mean nothing.
 * @param maxValues that it may unfold to
 */
export async function parseTree(
  source: string,
  reading: Pick<Reading, 'problem'>,
  maxValues = MAX_VALUES,
): Promise<ConfigNode | undefined> {
  const { LineCounter, isAlias, isMap, isScalar, isSeq, parseDocument, visit } = await import('yaml');
  const lines = new LineCounter();
  const document: Document = parseDocument(source, {
    lineCounter: lines,
    // Positions come from the counter; the pretty form repeats source lines, which may hold a secret.
    prettyErrors: false,
    // Reported by `entriesOf` with their path.
    uniqueKeys: false,
    logLevel: 'error',
    version: '1.2',
  });
  const position = (offset: number | undefined): Position => {
    const { line, col } = lines.linePos(offset ?? 0);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  for (const error of [...document.errors, ...document.warnings].slice(0, MAX_SYNTAX_PROBLEMS)) {
    reading.problem(position(error.pos[0]), '', `expected valid YAML, got: ${withoutSource(error.message)}`);
  }
  // An unknown tag leaves the tree intact; after any other error half of it may be missing.
  if (document.errors.length > 0) return undefined;

  /** The node of each alias. `Alias.resolve` would search the whole document for each of them. */
  const targets = new Map<unknown, Node>();
  const anchors = new Map<string, Node>();
  visit(document, {
    Alias(_, alias) {
      const target = anchors.get(alias.source);
      if (target !== undefined) targets.set(alias, target);
    },
    Value(_, node) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node);
    },
  });

  let budget = maxValues;
  const open = new Set<Node>();

  const convert = (node: Node | null, path: string, fallback: Position, placedAt?: Position): ConfigNode => {
    const at = placedAt ?? (node?.range ? position(node.range[0]) : fallback);
    const nothing: ConfigNode = { kind: 'scalar', value: null, ...at };
    if (node === null) return nothing;
    if (--budget < 0) {
      if (budget === -1)
        reading.problem(at, path, `expected at most ${maxValues} values, got more (aliases count each time)`);
      return nothing;
    }
    if (isAlias(node)) {
      const target = targets.get(node);
      if (target === undefined || open.has(target)) {
        const why = target === undefined ? 'an alias of no anchor above it' : 'an alias of what it is part of';
        reading.problem(at, path, `expected a value, got ${why}`);
        return nothing;
      }
      // The value's own position is where it was written; the whole is reported where it is used.
      return convert(target, path, at, at);
    }
    if (isScalar(node)) {
      const { value, source = '' } = node as Scalar;
      if (typeof value === 'number' && !isExact(value, source)) {
        reading.problem(at, path, 'expected a number that keeps all its digits; write this one in quotes');
      }
      return { kind: 'scalar', value: scalarValue(node as Scalar), ...at };
    }
    open.add(node);
    try {
      if (isSeq(node)) {
        const items = (node as YAMLSeq<Node | null>).items;
        return { kind: 'list', items: items.map((item, index) => convert(item, `${path}[${index}]`, at)), ...at };
      }
      if (isMap(node)) {
        return { kind: 'map', entries: entriesOf((node as YAMLMap<Node, Node | null>).items, path, at), ...at };
      }
      return nothing;
    } finally {
      open.delete(node);
    }
  };

  const entriesOf = (pairs: readonly Pair<Node, Node | null>[], path: string, at: Position): ConfigEntry[] => {
    const own: ConfigEntry[] = [];
    const merged: ConfigEntry[] = [];
    const seen = new Set<string>();
    for (const { key: keyNode, value } of pairs) {
      const place = keyNode.range ? position(keyNode.range[0]) : at;
      if (!isScalar(keyNode)) {
        reading.problem(place, path, 'expected a plain word as the key, got something else');
        continue;
      }
      const key = String(keyNode.value);
      const repeated = seen.has(key);
      if (repeated) reading.problem(place, join(path, key), `expected each key once, got ${JSON.stringify(key)} again`);
      seen.add(key);
      if (repeated) continue;
      const converted = convert(value, key === '<<' ? path : join(path, key), place);
      if (key === '<<') merged.push(...mergedEntries(converted, path));
      else own.push({ key, value: converted, ...place });
    }
    // The map's own entries win over merged ones, and of several merged maps the first wins.
    for (const entry of merged) {
      if (seen.has(entry.key)) continue;
      seen.add(entry.key);
      own.push(entry);
    }
    return own;
  };

  const mergedEntries = (node: ConfigNode, path: string): readonly ConfigEntry[] => {
    const maps = node.kind === 'list' ? node.items : [node];
    return maps.flatMap((each): readonly ConfigEntry[] => {
      if (each.kind === 'map') return (each as ConfigMap).entries;
      reading.problem(each, path, 'expected a map, or a list of maps, to merge, got something else');
      return [];
    });
  };

  return document.contents === null ? undefined : convert(document.contents as Node, '', { line: 1, column: 1 });
}

/** Scalars of the core schema; anything more exotic (a big integer, a binary) counts as its text. */
function scalarValue({ value, source }: Scalar): string | number | boolean | null {
  if (value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return value;
  return source ?? String(value);
}

const DECIMAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

const isExact = (value: number, source: string): boolean =>
  Number.isFinite(value) &&
  (DECIMAL.test(source) ? keepsDigits(source, value) : Math.abs(value) <= Number.MAX_SAFE_INTEGER);

/** Removes the parser's quotation of the invalid text, which may be a secret. */
function withoutSource(message: string): string {
  return message.replace(/: ".*$/s, '');
}

/** Returns a JSON value as YAML that reads back as the same value. Ends with a newline. */
export async function yamlText(value: unknown): Promise<string> {
  const { stringify } = await import('yaml');
  return stringify(value, { version: '1.2', lineWidth: 0, aliasDuplicateObjects: false });
}
