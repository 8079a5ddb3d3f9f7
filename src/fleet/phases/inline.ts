/**
 * Phase 1, the reading side: hints in front of a free-text brief, for senders that can only send text. An executor can also
 * receive the whole text: it stays readable.
 *
 * Hand-written and linear, because the text is untrusted. Hints are read only from one block at the start, and nothing is
 * expanded. The first unknown line starts the brief, so that no text is lost.
 * @see docs/fleet-phases.md#inline-hints
 */
import { closesFence, type Fence, lineEnd, openFence } from './fences.ts';
import { type Hints, isEmptyValue, isHintKey, readHint } from './inline-values.ts';

/**
 * `H_LIMIT` the block is too long · `H_NESTED` a nested line was skipped · `H_YAML_FEATURE` a hint uses a refused feature ·
 * `H_BAD_VALUE` a hint has an invalid value · `H_DUPLICATE_KEY` the first one counts · `H_UNKNOWN_KEY` listed in `unknown` ·
 * `H_EMPTY_BRIEF` the brief is empty.
 */
export type InlineDiagnostic =
  | 'H_LIMIT'
  | 'H_NESTED'
  | 'H_YAML_FEATURE'
  | 'H_BAD_VALUE'
  | 'H_DUPLICATE_KEY'
  | 'H_UNKNOWN_KEY'
  | 'H_EMPTY_BRIEF';

/** A parsed text. Without a header line it is not a dispatch, and the brief is the unchanged text. */
export interface Inline {
  readonly is_dispatch: boolean;
  readonly hints: Readonly<Hints>;
  /** Hints of other keys, as they are written. */
  readonly unknown: ReadonlyMap<string, string>;
  readonly brief: string;
  /** One for each finding, in the order of the lines. */
  readonly diagnostics: readonly InlineDiagnostic[];
}

const MAX_BLOCK_LINES = 64;
const MAX_BLOCK_CHARS = 8192;
/** A longer first line is not a header; so the patterns never run on megabytes without a line end. */
const MAX_HEADER_CHARS = 256;

const HEADER =
  /^(?:[#>][#> \t]*)?(?:\*\*)?task(?:[ \t]+|[_-])dispatch(?:[ \t]*\(inline\))?(?:\*\*)?[ \t]*:?(?:\*\*)?$/i;
const HINT = /^[ \t]*(?:[-*+][ \t]+)?(\*\*|`)?([A-Za-z][\w-]*)(\*\*|`)?:(\*\*|`)?(?:[ \t](.*))?$/s;
const BRIEF = /^[ \t]*(?:[-*+][ \t]+)?(\*\*|`)?brief(\*\*|`)?:(\*\*|`)?/i;
const ENTRY = /^[ \t]*[-*+](?:[ \t]+(.*))?$/s;
/** A line that ends a document of YAML. */
const END_MARK = /^[ \t]*(?:---|\.\.\.)[ \t]*$/;

/** Reads hints and brief. Never throws. */
export function parseInline(text: string): Inline {
  const source = text.replace(/^\uFEFF/, '').replace(/\r\n?/g, '\n');
  const header = findHeader(source);
  if (header === undefined) return { is_dispatch: false, hints: {}, unknown: new Map(), brief: text, diagnostics: [] };
  const block = new Block();
  const { at, fence } = readBlock(source, header, block);
  block.flush();
  const brief = briefFrom(source.slice(at), fence);
  if (brief === '') block.diagnostics.push('H_EMPTY_BRIEF');
  return { is_dispatch: true, hints: block.hints, unknown: block.unknown, brief, diagnostics: block.diagnostics };
}

interface Position {
  readonly at: number;
  /** The open code fence around the block, if any. */
  readonly fence?: Fence;
}

/** Returns the position after the header line, or undefined without one. */
function findHeader(source: string): Position | undefined {
  let fence: Fence | undefined;
  for (let at = 0; at < source.length; ) {
    const end = lineEnd(source, at);
    if (end - at > MAX_HEADER_CHARS) return undefined;
    const line = source.slice(at, end);
    at = end + 1;
    if (line.trim() === '') continue;
    if (HEADER.test(line.trim())) return { at, fence };
    const opened = fence === undefined ? openFence(line) : undefined;
    if (opened === undefined || /[ \t]/.test(opened.info)) return undefined;
    fence = opened;
  }
  return undefined;
}

/** Reads lines into the block until one ends it; returns the start of the brief. */
function readBlock(source: string, { at: start, fence }: Position, block: Block): Position {
  let at = start;
  for (let lines = 1; at < source.length; lines++) {
    const end = lineEnd(source, at);
    // A line may be a megabyte long: only its start is checked when it exceeds the limit.
    const tooLong = lines > MAX_BLOCK_LINES || end - start > MAX_BLOCK_CHARS;
    const whole = end - at <= MAX_BLOCK_CHARS;
    const line = source.slice(at, whole ? end : at + MAX_BLOCK_CHARS);
    if (whole && fence !== undefined && closesFence(line, fence)) return { at: end + 1 };
    if (whole && (line.trim() === '' || END_MARK.test(line))) return { at: end + 1, fence };
    if (afterBriefMark(line) !== undefined) return { at, fence };
    if (tooLong) {
      block.diagnostics.push('H_LIMIT');
      return { at, fence };
    }
    if (!block.accept(line)) return { at, fence };
    at = end + 1;
  }
  return { at, fence };
}

/** Returns the text after the block, without `Brief:`, the closing fence around it, and blank lines at both ends. */
function briefFrom(rest: string, fence: Fence | undefined): string {
  let text = withoutBlankEnds(rest);
  const first = text.slice(0, Math.min(lineEnd(text, 0), MAX_HEADER_CHARS));
  const marked = afterBriefMark(first);
  if (marked !== undefined) text = text.slice(marked);
  if (fence !== undefined) text = withoutClosing(text, fence);
  return withoutBlankEnds(text);
}

/** Removes the line that closes the fence. Skips inner blocks, which name a language. */
function withoutClosing(text: string, fence: Fence): string {
  let inner: Fence | undefined;
  for (let at = 0; at < text.length; ) {
    const end = lineEnd(text, at);
    const line = text.slice(at, end);
    if (inner !== undefined) {
      if (closesFence(line, inner)) inner = undefined;
    } else if (closesFence(line, fence)) return text.slice(0, at) + text.slice(end + 1);
    else {
      const opened = openFence(line);
      if (opened !== undefined && opened.info !== '') inner = opened;
    }
    at = end + 1;
  }
  return text;
}

function withoutBlankEnds(text: string): string {
  const trimmed = text.trimEnd();
  const start = text.lastIndexOf('\n', text.length - text.trimStart().length - 1) + 1;
  return trimmed === '' ? '' : text.slice(start, lineEnd(text, trimmed.length));
}

/** Returns the offset behind `Brief:` at the start of a line and one optional blank; undefined without it. */
function afterBriefMark(line: string): number | undefined {
  const found = BRIEF.exec(line);
  if (found === null) return undefined;
  const [mark, open, middle, after] = found;
  const decorated = balanced(open, middle, after);
  if (decorated === undefined) return undefined;
  const end = mark.length - (decorated ? 0 : (after?.length ?? 0));
  return /[ \t]/.test(line[end] ?? '') ? end + 1 : end;
}

/** True for `**key**:` and `**key:**`, false for `key:`, undefined for unbalanced decoration. */
function balanced(
  open: string | undefined,
  middle: string | undefined,
  after: string | undefined,
): boolean | undefined {
  if (open === undefined) return middle === undefined ? false : undefined;
  return middle === open || (middle === undefined && after === open) ? true : undefined;
}

/** Parses a line as `key: value`. */
function hintOf(line: string): { readonly key: string; readonly text: string } | undefined {
  const [, open, name = '', middle, after, text = ''] = HINT.exec(line) ?? [];
  if (name === '') return undefined;
  const decorated = balanced(open, middle, after);
  if (decorated === undefined || (after !== undefined && (!decorated || middle !== undefined))) return undefined;
  const key = name.toLowerCase().replaceAll('-', '_');
  return { key: key === 'required_tools' ? 'required_capabilities' : key, text };
}

/** The current hint: list entries may follow an empty value, and nested lines belong to it. */
interface OpenHint {
  readonly key: string;
  readonly text: string;
  readonly entries: string[];
  /** `waiting` for entries; `dropped` with a diagnostic, so that its nested lines get none. */
  state: 'waiting' | 'read' | 'dropped';
}

/** The hints read so far. */
class Block {
  readonly hints: Hints = {};
  readonly unknown = new Map<string, string>();
  readonly diagnostics: InlineDiagnostic[] = [];
  readonly #seen = new Set<string>();
  /** Indentation of the first hint. */
  #indent: number | undefined;
  #open: OpenHint | undefined;

  /** Accepts a line of the block; false: the line does not belong to it. */
  accept(line: string): boolean {
    const trimmed = line.trimStart();
    if (trimmed.startsWith('#')) return true;
    const hint = hintOf(line);
    if (hint === undefined && this.#open !== undefined && isEmptyValue(this.#open.text)) {
      const entry = ENTRY.exec(line);
      if (entry !== null) {
        this.#open.entries.push(entry[1] ?? '');
        return true;
      }
    }
    const indent = line.length - trimmed.length;
    if (this.#indent !== undefined && indent > this.#indent) {
      this.#skipNested();
      return true;
    }
    if (hint === undefined) return false;
    this.#indent ??= indent;
    this.#start(hint);
    return true;
  }

  /** Reads the waiting hint; called again at the end of the block. */
  flush(): void {
    const open = this.#open;
    if (open?.state !== 'waiting') return;
    open.state = 'read';
    if (!isHintKey(open.key)) {
      this.diagnostics.push('H_UNKNOWN_KEY');
      this.unknown.set(open.key, [open.text.trim(), ...open.entries.map((entry) => `- ${entry}`)].join('\n').trim());
      return;
    }
    const read = readHint(open.key, open);
    if (read.problem !== undefined) {
      this.diagnostics.push(read.problem);
      open.state = 'dropped';
    } else if (read.value !== undefined) Object.assign(this.hints, { [open.key]: read.value });
  }

  #start(hint: { readonly key: string; readonly text: string }): void {
    this.flush();
    // The first one counts, so that a later line cannot raise a limit.
    const again = this.#seen.has(hint.key);
    if (again) this.diagnostics.push('H_DUPLICATE_KEY');
    this.#seen.add(hint.key);
    this.#open = { ...hint, entries: [], state: again ? 'dropped' : 'waiting' };
    if (!isEmptyValue(hint.text)) this.flush();
  }

  #skipNested(): void {
    const open = this.#open;
    if (open?.state === 'dropped') return;
    if (open?.state === 'waiting' && open.entries.length === 0) {
      this.diagnostics.push('H_YAML_FEATURE');
      open.state = 'dropped';
    } else this.diagnostics.push('H_NESTED');
  }
}
