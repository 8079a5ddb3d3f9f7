/**
 * The client process of a pair: `client-process.ts CONTENDER TRANSPORT`, forked by `pair.ts`. Runs one workload per
 * message it gets and replies with the measurement.
 */
import { Bench } from './bench.ts';
import type { TransportName } from './contenders/contender.ts';
import { loadContender } from './contenders/registry.ts';
import type { Measurement, RunSettings } from './workloads/workload.ts';
import { workloadOf } from './workloads/workloads.ts';

/** `pair.ts` → this process. */
export type PairRequest = { readonly run: string; readonly settings: RunSettings } | { readonly close: true };
/** This process → `pair.ts`. */
export type PairAnswer = { readonly measurement: Measurement } | { readonly closed: true } | { readonly error: string };

function reply(answer: PairAnswer): void {
  process.send?.(answer);
}

const [name = '', transport = ''] = process.argv.slice(2);
const bench = new Bench(await loadContender(name), transport as TransportName);

process.on('disconnect', () => process.exit(0));
process.on('message', async (request: PairRequest) => {
  try {
    if ('close' in request) {
      await bench.close();
      reply({ closed: true });
      return;
    }
    reply({ measurement: await workloadOf(request.run).run(bench, request.settings) });
  } catch (thrown) {
    reply({ error: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown) });
  }
});
reply({ closed: true });
