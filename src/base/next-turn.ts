/**
 * Runs a function in the next turn of the event loop: in Node behind what waits for input, in a page by a timer. Used by
 * connections and agents, which run in both.
 */
export function nextTurn(run: () => void): void {
  if (typeof setImmediate === 'function') setImmediate(run);
  else setTimeout(run, 0);
}
