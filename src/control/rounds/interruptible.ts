/**
 * Waits for a stream until a signal aborts: a provider or a host that neither replies nor
 * reacts to the abort must not keep a turn from ending.
 */

/**
 * Yields the items of `stream`. Throws the signal's reason as soon as it aborts; the stream is then ended and not waited for.
 * Leaving the loop early ends the stream too.
 */
export async function* interruptible<Item>(
  stream: AsyncIterable<Item>,
  signal: AbortSignal,
): AsyncGenerator<Item, void, undefined> {
  signal.throwIfAborted();
  const iterator = stream[Symbol.asyncIterator]();
  // A new promise for each step: racing every step against one long-lived promise would keep a reaction of each in memory.
  let give: ((reason: unknown) => void) | undefined;
  const aborted = () => give?.(signal.reason);
  signal.addEventListener('abort', aborted, { once: true });
  try {
    for (;;) {
      const step = await new Promise<IteratorResult<Item>>((resolve, reject) => {
        give = reject;
        iterator.next().then(resolve, reject);
      });
      signal.throwIfAborted();
      if (step.done) return;
      yield step.value;
      signal.throwIfAborted();
    }
  } finally {
    signal.removeEventListener('abort', aborted);
    // Not awaited: a generator that hangs in its own `await` would answer only after that.
    iterator.return?.()?.then(undefined, () => {});
  }
}
