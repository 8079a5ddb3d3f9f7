/**
 * `payload256k` and `payload1m`: `echo` with a large text, one call at a time; megabytes of text a second, argument and
 * reply counted. The text looks like source code: printable ASCII with quotes and newlines to escape.
 */
import type { Workload } from './workload.ts';

const LINE = '  const answer = await agent.tools.call("echo", { text, n: 42 }); // sends it back\n';

function payload(name: string, bytes: number): Workload {
  return {
    name,
    unit: 'MB/s',
    lowerIsBetter: false,
    transports: ['stdio', 'tcp', 'websocket'],
    fresh: false,
    async run(bench, { durationMs }) {
      const session = await bench.session();
      // Through a buffer, so that it is one flat string as a text read from a file would be.
      const text = Buffer.from(LINE.repeat(Math.ceil(bytes / LINE.length)).slice(0, bytes)).toString('latin1');
      let done = 0;
      const cpuBefore = await bench.cpuUs();
      const start = performance.now();
      do {
        const back = await session.echo(text, done);
        if (back.length !== text.length || (done === 0 && back !== text)) {
          throw new Error('echo sent another text back');
        }
        done++;
      } while (performance.now() - start < durationMs);
      const elapsedMs = performance.now() - start;
      const cpuUs = (await bench.cpuUs()) - cpuBefore;
      return { value: (2 * bytes * done) / elapsedMs / 1000, cpuUsPerCall: cpuUs / done };
    },
  };
}

export const payload256k: Workload = payload('payload256k', 256 * 1024);
export const payload1m: Workload = payload('payload1m', 1024 * 1024);
