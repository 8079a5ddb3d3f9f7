/** Faults of an orchestrator and of a worker, and the cases that must notice each of them. */
import type { Fault, FaultSide, Line } from './faulty-relay.ts';

const of = (type: string, change: (message: Line, side: FaultSide) => Line | readonly Line[] | undefined) => ({
  outgoing: (message: Line, side: FaultSide) => (message.type === type ? change(message, side) : message),
});

const asked = (type: string, change: (message: Line, side: FaultSide) => Line | undefined) => ({
  incoming: (message: Line, side: FaultSide) => (message.type === type ? change(message, side) : message),
});

const VALID = {
  worker: { agent_id: 'conformance', features: ['accept'] },
  capabilities: { tools: [], mcp_servers: [] },
  session: undefined,
  mcp_health: undefined,
  protocol_version: '2.0',
};

export const orchestratorFaults: readonly Fault[] = [
  { name: 'none', caught: [] },
  {
    name: 'any token',
    caught: ['FLT-OR-002'],
    ...asked('SESSION_ANNOUNCE', (m, { all }) => ({ ...m, envelope: { ...m.envelope, token: all.token } })),
  },
  {
    name: 'any version',
    caught: ['FLT-OR-003', 'FLT-AN-017'],
    ...asked('SESSION_ANNOUNCE', (m) => ({ ...m, protocol_version: '2.0' })),
  },
  {
    name: 'any announce',
    caught: ['FLT-AN-001', 'FLT-AN-011', 'FLT-AN-012'],
    ...asked('SESSION_ANNOUNCE', (m) => ({ ...m, ...VALID })),
  },
  {
    name: 'terms without a name',
    caught: ['FLT-OR-001'],
    ...of('SESSION_ACCEPT', (m) => ({ ...m, peer_id: undefined })),
  },
  {
    name: 'bad lines end the link',
    caught: ['FLT-OR-004'],
    strange(_line, { drop }) {
      drop();
      return undefined;
    },
  },
  {
    name: 'a minor version is refused',
    caught: ['FLT-AN-005'],
    ...asked('SESSION_ANNOUNCE', (m) => (m.protocol_version === '2.7' ? { ...m, protocol_version: '3.0' } : m)),
  },
];

export const workerFaults: readonly Fault[] = [
  { name: 'none', caught: [] },
  {
    name: 'an announce without tools',
    caught: ['FLT-WK-001'],
    ...of('SESSION_ANNOUNCE', (m) => ({ ...m, capabilities: { mcp_servers: [] } })),
  },
  { name: 'version 1', caught: ['FLT-WK-002'], ...of('SESSION_ANNOUNCE', (m) => ({ ...m, protocol_version: '1.0' })) },
  {
    name: 'refusals cost tokens',
    caught: ['FLT-WK-003'],
    ...of('TASK_RESULT', (m) => ({ ...m, tokens_spent: 7 })),
  },
  {
    name: 'refusals are errors',
    caught: ['FLT-WK-003', 'FLT-WK-005'],
    ...of('TASK_RESULT', (m) => ({ ...m, status: 'error', error_summary: 'no' })),
  },
  {
    name: 'refusals name one thing',
    caught: ['FLT-WK-004'],
    ...of('TASK_RESULT', (m) => ({ ...m, blocked: { ...m.blocked, missing: m.blocked?.missing?.slice(0, 1) } })),
  },
  {
    name: 'deadlines are not read',
    caught: ['FLT-WK-006', 'FLT-WK-007'],
    ...asked('TASK_DISPATCH', (m) => ({ ...m, deadline: undefined })),
  },
  {
    name: 'versions are not read',
    caught: ['FLT-WK-008'],
    ...asked('TASK_DISPATCH', (m) => ({ ...m, protocol_version: '2.0' })),
  },
  {
    name: 'unknown types end the link',
    caught: ['FLT-WK-011'],
    incoming(m, { drop }) {
      if (m.type === 'CONFORMANCE_UNKNOWN') drop();
      return m;
    },
  },
  {
    name: 'tasks run again',
    caught: ['FLT-WK-013'],
    ...asked('TASK_DISPATCH', (m, { own }) => {
      own.count = (own.count ?? 0) + 1;
      return own.count === 1
        ? m
        : { ...m, requirements: { access: 'read', required_mcp: ['none'] }, task: { ...m.task } };
    }),
  },
  {
    name: 'the content of a task is not compared',
    caught: ['FLT-WK-014'],
    ...asked('TASK_DISPATCH', (m, { own }) => {
      own.first ??= m;
      return { ...own.first, envelope: m.envelope };
    }),
  },
];
