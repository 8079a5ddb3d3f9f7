/**
 * `setup`: connect, handshake, close, one after the other, over TCP.
 */
import type { Workload } from './workload.ts';

export const setup: Workload = {
  name: 'setup',
  unit: 'sessions/s',
  lowerIsBetter: false,
  transports: ['tcp'],
  fresh: false,
  async run(bench, { durationMs }) {
    await bench.target();
    let done = 0;
    const cpuBefore = await bench.cpuUs();
    const start = performance.now();
    do {
      await (await bench.open()).close();
      done++;
    } while (performance.now() - start < durationMs);
    const elapsedMs = performance.now() - start;
    const cpuUs = (await bench.cpuUs()) - cpuBefore;
    return { value: (done / elapsedMs) * 1000, cpuUsPerCall: cpuUs / done };
  },
};
