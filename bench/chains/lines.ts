/**
 * The protocol with which the processes of `bench:chains` and `bench:multi-agent` measure: a line of JSON for each
 * request, a line for its reply; the first line reports that the process is ready. It ends with its input.
 */
import { createInterface } from 'node:readline';

/** Answers each line in turn, and ends the process behind the last. */
export async function serveLines(
  answer: (request: never) => Promise<object> | object,
  end: () => Promise<void> | void = () => {},
): Promise<void> {
  const send = (value: object): void => void process.stdout.write(`${JSON.stringify(value)}\n`);
  send({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      send(await answer(JSON.parse(line) as never));
    } catch (error) {
      send({ error: String((error as Error).stack ?? error) });
    }
  }
  await end();
  process.exit(0);
}

/** Returns the seconds that the work took. */
export async function timed(work: () => Promise<unknown> | unknown): Promise<number> {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) / 1_000;
}
