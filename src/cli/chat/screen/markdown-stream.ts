/**
 * Cuts a streamed answer into blocks of Markdown that will not change any more, and the tail that still may. Each
 * character is looked at once, and the tail is bounded, so a long answer costs no more per character than a short one.
 *
 * Lines of code are finished one by one; other blocks end with an empty line. Pure.
 */

/** Characters and lines of a block after which it is cut: a paragraph, list or table without an end. */
const MAX_CHARACTERS = 8192;
const MAX_LINES = 40;

/** A finished piece. `code` is a line of a code block, `fence` the line before or behind one. */
export interface Block {
  readonly kind: 'text' | 'code' | 'fence';
  readonly text: string;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
/** Below the heading of a table. */
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*$/;

export class MarkdownStream {
  /** Whole lines of the block that has not ended. */
  #lines: string[] = [];
  #characters = 0;
  /** The line that has not ended. */
  #partial = '';
  /** The fence of the code block that is open. */
  #fence: string | undefined;

  /** The text that may change; inside a code block, '' or the line that has not ended. */
  get tail(): Block | undefined {
    if (this.#fence !== undefined) return this.#partial === '' ? undefined : { kind: 'code', text: this.#partial };
    const text = [...this.#lines, this.#partial].join('\n');
    return text.trim() === '' ? undefined : { kind: 'text', text };
  }

  /** Adds text; gives the blocks it finishes. */
  push(text: string): Block[] {
    const blocks: Block[] = [];
    const lines = text.split('\n');
    const last = lines.pop() ?? '';
    for (const line of lines) {
      this.#add(`${this.#partial}${line}`, blocks);
      this.#partial = '';
    }
    this.#partial += last;
    if (this.#partial.length > MAX_CHARACTERS) {
      this.#add(this.#partial, blocks);
      this.#partial = '';
    }
    return blocks;
  }

  /** Ends everything that is open. */
  flush(): Block[] {
    const blocks: Block[] = [];
    if (this.#partial !== '') this.#add(this.#partial, blocks);
    this.#partial = '';
    this.#end(blocks);
    this.#fence = undefined;
    return blocks;
  }

  #add(line: string, blocks: Block[]): void {
    const fence = FENCE.exec(line);
    if (this.#fence !== undefined) {
      const closes = fence?.[2] === '' && fence[1]!.startsWith(this.#fence);
      blocks.push({ kind: closes ? 'fence' : 'code', text: line });
      if (closes) this.#fence = undefined;
      return;
    }
    if (fence !== null) {
      this.#end(blocks);
      this.#fence = fence[1]!;
      blocks.push({ kind: 'fence', text: line });
      return;
    }
    // An indented line behind an empty one belongs to the list item above it.
    const isNew = this.#lines.at(-1)?.trim() === '' && /^\S/.test(line);
    if (isNew) this.#end(blocks);
    if (this.#lines.length >= MAX_LINES || this.#characters > MAX_CHARACTERS) this.#cut(blocks);
    this.#lines.push(line);
    this.#characters += line.length;
  }

  /** Ends a block in its middle; the rest of a table gets its heading again. */
  #cut(blocks: Block[]): void {
    const [head = '', rule = ''] = this.#lines;
    const isTable = TABLE_RULE.test(rule) && head.includes('|');
    this.#end(blocks);
    if (isTable) this.#lines.push(head, rule);
  }

  #end(blocks: Block[]): void {
    const text = this.#lines.join('\n');
    if (text.trim() !== '') blocks.push({ kind: 'text', text });
    this.#lines = [];
    this.#characters = 0;
  }
}
