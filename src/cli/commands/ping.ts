/** `handfast ping`: checks that a host responds, and prints its latency and uptime. */
import type { ConnectFlags } from '../connect/find-host.ts';
import { withAgent } from '../connect/open-agent.ts';
import type { Terminal } from '../output/terminal.ts';

export interface PingFlags extends ConnectFlags {
  readonly count: number;
}

/** Pings one after the other. With `--json` one line each. */
export async function ping(flags: PingFlags, terminal: Terminal): Promise<void> {
  await withAgent(flags, [], terminal, async ({ agent, address, signal }) => {
    const times: number[] = [];
    for (let seq = 1; seq <= flags.count; seq++) {
      const { roundTripMs, hostUptimeSeconds: up } = await agent.ping({ signal });
      times.push(roundTripMs);
      const round_trip_ms = Math.round(roundTripMs * 1000) / 1000;
      if (terminal.json) terminal.document({ seq, address, round_trip_ms, uptime_seconds: up });
      else terminal.line(`pong from ${address}: ${round_trip_ms} ms${up === undefined ? '' : `, up ${up} s`}`);
    }
    if (terminal.json || times.length < 2) return;
    const mean = times.reduce((sum, time) => sum + time, 0) / times.length;
    const [least, most] = [Math.min(...times), Math.max(...times)];
    terminal.line(
      `${times.length} pings: least ${least.toFixed(3)}, mean ${mean.toFixed(3)}, most ${most.toFixed(3)} ms`,
    );
  });
}
