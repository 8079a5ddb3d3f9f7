/**
 * Runs a function in the next turn of the event loop: in Node after callbacks that wait for input, in a page by a
 * timer. Connections and agents run in both.
 */
export function nextTurn(run: () => void): void {
  if (typeof setImmediate === 'function') setImmediate(run);
  else setTimeout(run, 0);
}
