/**
 * Reads the output of a target within bounds: its lines, and the bodies of its HTTP responses. A target that never
 * stops costs neither the memory nor the time of the kit.
 */

/** Longest output of a target without a line break, in characters. */
const MAX_PARTIAL = 64 * 1024 * 1024;
/** Longest body that is read, in bytes. */
const MAX_BODY = 1024 * 1024;

/** Cuts text that arrives in pieces into lines. Text that is too long for a line is dropped. */
export class Lines {
  #partial = '';

  /** Adds a piece; the lines that it ends, without their line breaks. */
  push(piece: string): string[] {
    if (!piece.includes('\n')) {
      this.#partial = this.#partial.length + piece.length > MAX_PARTIAL ? '' : this.#partial + piece;
      return [];
    }
    const lines = (this.#partial + piece).split('\n');
    this.#partial = lines.pop() as string;
    return lines;
  }
}

/** Returns the text of a body, cut at 1 MiB: later bytes are not read. Rejects when the connection breaks. */
export async function bodyText({ body }: Response): Promise<string> {
  if (body === null) return '';
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  // Leaving the loop ends the connection.
  for await (const chunk of body as ReadableStream<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    bytes += chunk.length;
    if (bytes > MAX_BODY) break;
  }
  return text;
}
