/**
 * The table of workloads, in the order of the report.
 */
import { events } from './events.ts';
import { frame } from './frame.ts';
import { idle } from './idle.ts';
import { payload1m, payload256k } from './payload.ts';
import { setup } from './setup.ts';
import { start } from './start.ts';
import { small64, unary1, unary64 } from './unary.ts';
import type { Workload } from './workload.ts';

export const workloads: readonly Workload[] = [
  unary64,
  unary1,
  small64,
  events,
  payload256k,
  payload1m,
  setup,
  start,
  idle,
  frame,
];

export function workloadOf(name: string): Workload {
  const found = workloads.find((workload) => workload.name === name);
  if (found === undefined) throw new Error(`no workload is called ${JSON.stringify(name)}`);
  return found;
}
