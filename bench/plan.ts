/**
 * The measured cells: every contender in every workload on every transport it has, without those that the command line
 * filters out.
 */
import { type TransportName, transportNames } from './contenders/contender.ts';
import { type Entry, entries, entriesBefore } from './contenders/registry.ts';
import type { Workload } from './workloads/workload.ts';
import { workloads } from './workloads/workloads.ts';

/** One workload on one transport, and its contenders: their samples are compared round by round. */
export interface Heat {
  readonly workload: Workload;
  readonly transport: TransportName;
  readonly contenders: readonly Entry[];
}

/** Names to include; an empty list includes all. A workload is also named by its beginning (`payload`, `unary`). */
export interface Filters {
  readonly workloads: readonly string[];
  readonly transports: readonly string[];
  readonly contenders: readonly string[];
}

/** Yardsticks stay under every filter on contenders: without them no ratio exists. */
const YARDSTICKS: readonly string[] = ['bare', 'limit'];

const keeps = (names: readonly string[], name: string): boolean => names.length === 0 || names.includes(name);

function takesPart(entry: Entry, workload: Workload, transport: TransportName): boolean {
  if (!entry.transports.includes(transport)) return false;
  if (workload.name === 'events' && entry.withoutEvents?.includes(transport)) return false;
  if (workload.contenders !== undefined && !workload.contenders.includes(entry.contender)) return false;
  return entry.workloads === undefined || entry.workloads.includes(workload.name);
}

/**
 * Returns the heats, grouped by transport so that one set of processes serves all of a transport's workloads.
 *
 * @param before root of another checkout: its Handfast takes part in the same cells as this one
 */
export function plan(filters: Filters, before?: string): readonly Heat[] {
  const all = before === undefined ? entries : [...entries, ...entriesBefore(before)];
  const heats: Heat[] = [];
  for (const transport of transportNames) {
    if (!keeps(filters.transports, transport)) continue;
    for (const workload of workloads) {
      if (!workload.transports.includes(transport)) continue;
      if (filters.workloads.length > 0 && !filters.workloads.some((name) => workload.name.startsWith(name))) continue;
      const contenders = all.filter(
        (entry) =>
          takesPart(entry, workload, transport) &&
          (keeps(filters.contenders, entry.contender) || YARDSTICKS.includes(entry.name)),
      );
      if (contenders.length > 0) heats.push({ workload, transport, contenders });
    }
  }
  return heats;
}

/** Checks the names of a filter; an unknown one is refused rather than silently matching nothing. */
export function checkFilters(filters: Filters): void {
  const known: readonly [readonly string[], readonly string[], string][] = [
    [filters.transports, transportNames, 'transport'],
    [filters.contenders, entries.map((entry) => entry.name), 'contender'],
  ];
  for (const [given, names, kind] of known) {
    for (const name of given) {
      if (!names.includes(name)) throw new Error(`no ${kind} "${name}"; there are: ${names.join(', ')}`);
    }
  }
  for (const name of filters.workloads) {
    if (!workloads.some((workload) => workload.name.startsWith(name))) {
      throw new Error(`no workload "${name}"; there are: ${workloads.map((workload) => workload.name).join(', ')}`);
    }
  }
}
