/** Faults of a server of session RPC, and the cases that must notice each of them. */
import type { Fault, FaultSide, Line } from './faulty-relay.ts';

/** Changes errors of one code. */
const error = (code: number, change: (message: Line) => Line | undefined) => ({
  outgoing: (message: Line) => (message.error?.code === code ? change(message) : message),
});

/** Changes requests of one method. */
const asked = (method: string, change: (message: Line, side: FaultSide) => Line | undefined) => ({
  incoming: (message: Line, side: FaultSide) => (message.method === method ? change(message, side) : message),
});

const answers = (change: (message: Line) => Line | readonly Line[] | undefined) => ({
  outgoing: (message: Line) => (message.result === undefined ? message : change(message)),
});

export const rpcFaults: readonly Fault[] = [
  { name: 'none', caught: [] },
  { name: 'ids become texts', caught: ['RPC-FR-001', 'RPC-FR-003'], ...answers((m) => ({ ...m, id: String(m.id) })) },
  { name: 'no id, no null', caught: ['RPC-FR-006'], incoming: (m) => (m.id === null ? undefined : m) },
  {
    name: 'unknown methods have another code',
    caught: ['RPC-FR-017', 'RPC-FR-020'],
    ...error(-32601, (m) => ({ ...m, error: { ...m.error, code: -32603 } })),
  },
  {
    name: 'errors without data',
    caught: ['RPC-FR-010'],
    ...error(-32600, ({ error: { data, ...rest }, ...m }) => ({ ...m, error: rest })),
  },
  { name: 'bad lines are dropped', caught: ['RPC-FR-029'], strange: () => undefined },
  {
    name: 'answers to notifications',
    caught: ['RPC-FR-036'],
    incoming: (m) => (m.id === undefined ? { ...m, id: 'none' } : m),
  },
  {
    name: 'strict is ignored',
    caught: ['RPC-HS-008'],
    ...asked('rpc.handshake', (m) => ({ ...m, params: { ...m.params, strict: undefined } })),
  },
  {
    name: 'every version is refused',
    caught: ['RPC-HS-005'],
    ...asked('rpc.handshake', (m) => ({ ...m, params: { ...m.params, strict: true } })),
  },
  {
    name: 'methods are not sorted',
    caught: ['RPC-HS-001'],
    ...answers((m) =>
      m.result.methods ? { ...m, result: { ...m.result, methods: m.result.methods.toReversed() } } : m,
    ),
  },
  { name: 'two answers', caught: ['RPC-LN-001'], ...answers((m) => [m, m]) },
  {
    name: 'one request a write',
    caught: ['RPC-LN-001'],
    bytes: (chunk) => chunk.subarray(0, chunk.indexOf(10) + 1 || chunk.length),
  },
  {
    name: 'a write is a request',
    caught: ['RPC-LN-002'],
    bytes: (chunk) => (chunk.at(-1) === 10 && chunk[0] === 0x7b ? chunk : Buffer.from('{\n')),
  },
  { name: 'text is read as Latin-1', caught: ['RPC-LN-003'], bytes: (chunk) => Buffer.from(chunk.toString('latin1')) },
  {
    name: 'large lines are dropped',
    caught: ['RPC-LN-005'],
    incoming: (m) => (JSON.stringify(m).length > 65_536 ? undefined : m),
    outgoing: (m) => (m.id === null ? undefined : m),
  },
  { name: 'jsonrpc is missing', caught: ['RPC-LN-007'], outgoing: ({ jsonrpc, ...m }) => m },
  {
    name: 'events without a time',
    caught: ['RPC-LN-008'],
    outgoing: (m) => (m.method === 'event' ? { ...m, params: { ...m.params, timestamp: 'now' } } : m),
  },
  {
    name: 'events come late',
    caught: ['RPC-LN-009'],
    outgoing(m, { own }) {
      if (m.method === 'event') {
        own.held = [...(own.held ?? []), m];
        return undefined;
      }
      const held = own.held ?? [];
      own.held = [];
      return [m, ...held];
    },
  },
  {
    name: 'a state of another type',
    caught: ['RPC-LN-011'],
    ...answers((m) => (m.result.state ? { ...m, result: { ...m.result, state: 'idle' } } : m)),
  },
  {
    name: 'params are not checked',
    caught: ['RPC-SE-005', 'RPC-SE-006'],
    ...asked('session.create', (m) => ({ ...m, params: {} })),
  },
];
