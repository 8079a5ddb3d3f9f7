/**
 * `events`: one call with 1,000 events and then the reply, repeated. Counts the events that arrive in order and before
 * the reply; events that a contender loses are not hidden in its rate but shown as `delivered`.
 */
import type { Workload } from './workload.ts';

const EVENTS = 1000;

export const events: Workload = {
  name: 'events',
  unit: 'events/s',
  lowerIsBetter: false,
  transports: ['memory', 'stdio', 'tcp', 'websocket', 'http'],
  fresh: false,
  async run(bench, { durationMs }) {
    const session = await bench.session();
    let sent = 0;
    let arrived = 0;
    const cpuBefore = await bench.cpuUs();
    const start = performance.now();
    do {
      let last = -1;
      let replied = false;
      await session.flood(EVENTS, (index) => {
        if (replied || index <= last) return;
        last = index;
        arrived++;
      });
      replied = true;
      sent += EVENTS;
      // In memory nothing else would let timers and files have a turn.
      await new Promise((resolve) => setImmediate(resolve));
    } while (performance.now() - start < durationMs);
    const elapsedMs = performance.now() - start;
    const cpuUs = (await bench.cpuUs()) - cpuBefore;
    return {
      value: (arrived / elapsedMs) * 1000,
      cpuUsPerCall: cpuUs / Math.max(1, arrived),
      delivered: arrived / sent,
    };
  },
};
