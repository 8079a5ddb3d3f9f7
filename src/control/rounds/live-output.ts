/**
 * Live output of one tool call within a rate: the output of a program goes to every client and into the journal, so a program
 * that prints without end must not be passed on whole. The result of the call is not touched by it.
 *
 * A note stands at the place of each span left out.
 */

/** Receives a piece of output. */
export type Output = (stream: string, text: string) => void;

export interface LiveOutputOptions {
  /** Characters that pass at once. Default 256 Ki. */
  readonly burstCharacters?: number;
  /** Characters that pass for each second after that. Default 64 Ki. */
  readonly charactersPerSecond?: number;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

/** Passes output on while it is within the rate. `end` reports the last omission. */
export function liveOutput(output: Output, options: LiveOutputOptions = {}): { push: Output; end(): void } {
  const { burstCharacters = 256 * 1024, charactersPerSecond = 64 * 1024, now = () => performance.now() } = options;
  const leftOut = new Map<string, number>();
  let allowance = burstCharacters;
  let lastMs = now();
  const reportOmitted = (stream: string): void => {
    const characters = leftOut.get(stream);
    if (characters === undefined) return;
    leftOut.delete(stream);
    output(stream, `\n[… ${characters} characters left out …]\n`);
  };
  return {
    push(stream, text) {
      if (text === '') return;
      const nowMs = now();
      allowance = Math.min(burstCharacters, allowance + ((nowMs - lastMs) / 1000) * charactersPerSecond);
      lastMs = nowMs;
      // All or nothing: a piece is at most a message long, and cutting one would only make more of them.
      if (text.length > allowance) {
        leftOut.set(stream, (leftOut.get(stream) ?? 0) + text.length);
        return;
      }
      allowance -= text.length;
      reportOmitted(stream);
      output(stream, text);
    },
    end() {
      for (const stream of [...leftOut.keys()]) reportOmitted(stream);
    },
  };
}
