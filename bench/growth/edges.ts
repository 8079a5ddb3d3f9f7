/** The edges that `bench/growth.ts` draws, in the order of their pictures. */
import { learning, memory, planning } from './capability-edges.ts';
import type { EdgeKind } from './edge.ts';
import { audit, connections, events, sessions } from './host-edges.ts';
import { idle, listed, long } from './long-edges.ts';
import { mixed } from './mixed-edge.ts';
import { approvals, turns } from './server-edges.ts';
import { tasks } from './tasks-edge.ts';

export const EDGES: Readonly<Record<string, EdgeKind>> = {
  tasks,
  sessions,
  connections,
  events,
  turns,
  approvals,
  long,
  listed,
  idle,
  audit,
  memory,
  learning,
  planning,
  mixed,
};
