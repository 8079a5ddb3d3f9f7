/** Faults of an A2E host, and the cases that must notice each of them. */
import type { Fault, FaultSide, Line } from './faulty-relay.ts';

/** Changes messages of one type. */
const of = (type: string, change: (message: Line, side: FaultSide) => Line | readonly Line[] | undefined) => ({
  outgoing: (message: Line, side: FaultSide) => (message.type === type ? change(message, side) : message),
});

/** Changes requests of one type. */
const asked = (type: string, change: (message: Line, side: FaultSide) => Line | undefined) => ({
  incoming: (message: Line, side: FaultSide) => (message.type === type ? change(message, side) : message),
});

const ALL = ['tools', 'memory', 'planning', 'env', 'learning'];

export const a2eFaults: readonly Fault[] = [
  { name: 'none', caught: [] },
  {
    name: 'the handshake is not correlated',
    caught: ['A2E-HS-001'],
    ...of('handshake/resp', ({ req_id, ...rest }) => rest),
  },
  { name: 'no session id', caught: ['A2E-HS-001'], ...of('handshake/resp', (m) => ({ ...m, session_id: '' })) },
  {
    name: 'one session id for all',
    caught: ['A2E-HS-015'],
    ...of('handshake/resp', (m) => ({ ...m, session_id: 'same' })),
  },
  {
    name: 'no stamps',
    caught: ['A2E-HS-002', 'A2E-HS-003'],
    outgoing: ({ a2e, version, ...rest }) => rest,
  },
  { name: 'one stamp', caught: ['A2E-HS-003'], outgoing: ({ a2e, ...rest }) => rest },
  { name: 'milliseconds', caught: ['A2E-HS-004'], outgoing: (m) => ({ ...m, ts: m.ts * 1000 }) },
  { name: 'max_parallel 0', caught: ['A2E-HS-005'], ...of('handshake/resp', (m) => ({ ...m, max_parallel: 0 })) },
  {
    name: 'any token',
    caught: ['A2E-HS-006', 'A2E-HS-007'],
    ...asked('handshake/req', (m, { all }) => ({ ...m, auth_token: all.token })),
  },
  {
    name: 'a refusal that grants',
    caught: ['A2E-HS-006'],
    ...of('handshake/resp', (m) => (m.ok ? m : { ...m, accepted_caps: [{ capability: 'tools', enabled: true }] })),
  },
  {
    name: 'any version',
    caught: ['A2E-HS-008', 'A2E-EX-006'],
    incoming: (m) => ({ ...m, a2e: '1.0', version: '1.0' }),
  },
  {
    name: 'exactly version 1.0',
    caught: ['A2E-HS-009'],
    ...asked('handshake/req', (m) => (m.version === '1.7' ? { ...m, a2e: '2.0' } : m)),
  },
  {
    name: 'a stamp is required',
    caught: ['A2E-HS-010', 'A2E-HS-012'],
    ...asked('handshake/req', (m) => (m.version === undefined ? { ...m, version: '0' } : m)),
  },
  {
    name: 'a2e is required',
    caught: ['A2E-HS-011', 'A2E-HS-012'],
    ...asked('handshake/req', (m) => (m.a2e === undefined ? { ...m, version: '0' } : m)),
  },
  {
    name: 'never no_caps',
    caught: ['A2E-HS-014'],
    ...asked('handshake/req', (m) => ({
      ...m,
      agent_caps: [].concat(m.agent_caps).filter((name) => ALL.includes(name)),
    })),
  },
  {
    name: 'every capability, always',
    caught: ['A2E-HS-013', 'A2E-NG-003', 'A2E-NG-009'],
    ...asked('handshake/req', (m) => ({ ...m, agent_caps: ALL })),
  },
  {
    name: 'what was not granted is served',
    caught: ['A2E-NG-009', 'A2E-TL-017'],
    incoming(m, { own }) {
      if (m.type !== 'handshake/req') return m;
      own.asked = m.agent_caps;
      return { ...m, agent_caps: ALL };
    },
    outgoing: (m, { own }) =>
      m.type === 'handshake/resp'
        ? { ...m, accepted_caps: m.accepted_caps.filter((entry: Line) => own.asked.includes(entry.capability)) }
        : m,
  },
  {
    name: 'no handshake is needed',
    caught: ['A2E-HS-018', 'A2E-HS-019'],
    incoming(m, side) {
      if (m.type === 'handshake/req') side.own.begun = true;
      else if (!side.own.begun && m.type !== 'ping') {
        side.own.begun = true;
        side.toHost({ type: 'handshake/req', id: 'hidden', agent_caps: ALL, auth_token: side.all.token });
      }
      return m;
    },
    outgoing: (m) => (m.req_id === 'hidden' ? undefined : m),
  },
  {
    name: 'a second handshake is dropped',
    caught: ['A2E-HS-016'],
    incoming(m, { own }) {
      if (m.type !== 'handshake/req') return m;
      own.count = (own.count ?? 0) + 1;
      return own.count > 1 ? undefined : m;
    },
  },
  {
    name: 'no ping before the handshake',
    caught: ['A2E-HS-017'],
    incoming(m, { own }) {
      if (m.type === 'handshake/req') own.begun = true;
      return own.begun || m.type !== 'ping' ? m : undefined;
    },
  },
  {
    name: 'lists are not checked',
    caught: ['A2E-HS-022'],
    ...asked('handshake/req', (m) => ({ ...m, agent_caps: [m.agent_caps].flat() })),
  },
  {
    name: 'a name outside the protocol is granted',
    caught: ['A2E-NG-001', 'A2E-NG-002'],
    ...of('handshake/resp', (m) => ({
      ...m,
      accepted_caps: [...m.accepted_caps, { capability: 'streaming', enabled: false, metadata: {} }],
    })),
  },
  {
    name: 'entries twice',
    caught: ['A2E-NG-006'],
    ...of('handshake/resp', (m) => ({ ...m, accepted_caps: [...m.accepted_caps, ...m.accepted_caps] })),
  },
  {
    name: 'no metadata',
    caught: ['A2E-NG-007'],
    ...of('handshake/resp', (m) => ({
      ...m,
      accepted_caps: m.accepted_caps.map(({ capability, enabled }: Line) => ({ capability, enabled })),
    })),
  },
  {
    name: 'the order of names decides',
    caught: ['A2E-NG-005'],
    ...asked('handshake/req', (m) => ({ ...m, agent_caps: m.agent_caps[0] === 'test' ? ['tools'] : m.agent_caps })),
  },
  {
    name: 'errors name no capability',
    caught: ['A2E-NG-010'],
    ...of('error', (m) => ({ ...m, capability_name: '' })),
  },
  {
    name: 'another code for what was not granted',
    caught: ['A2E-NG-009'],
    ...of('error', (m) => ({ ...m, code: m.code === 'capability_missing' ? 'unauthorized' : m.code })),
  },
  {
    name: 'blank lines are errors',
    caught: ['A2E-FR-001'],
    strange: (line) => (line.trim() === '' ? '{' : line),
  },
  {
    name: 'CRLF is not understood',
    caught: ['A2E-FR-002'],
    bytes: (chunk) => (chunk.includes('\r\n') ? Buffer.alloc(0) : chunk),
  },
  {
    name: 'blanks around a line are not understood',
    caught: ['A2E-FR-003'],
    bytes: (chunk) => (/^\s+\{/.test(chunk.toString('latin1')) ? Buffer.alloc(0) : chunk),
  },
  {
    name: 'one message a write',
    caught: ['A2E-FR-004'],
    bytes: (chunk) => chunk.subarray(0, chunk.indexOf(10) + 1 || chunk.length),
  },
  {
    name: 'a write is a message',
    caught: ['A2E-FR-005'],
    bytes: (chunk) => (chunk.at(-1) === 10 && chunk[0] === 0x7b ? chunk : Buffer.from('{\n')),
  },
  { name: 'bad lines are dropped', caught: ['A2E-FR-006', 'A2E-FR-009', 'A2E-EX-007'], strange: () => undefined },
  {
    name: 'bad lines end the connection',
    caught: ['A2E-FR-006', 'A2E-FR-008'],
    strange(_line, { drop }) {
      drop();
      return undefined;
    },
  },
  {
    name: 'bad lines have another code',
    caught: ['A2E-FR-006'],
    ...of('error', (m) => ({ ...m, code: m.code === 'parse_error' ? 'runtime_error' : m.code })),
  },
  {
    name: 'a stale id in the error of a bad line',
    caught: ['A2E-FR-007'],
    ...of('error', (m) => ({ ...m, req_id: m.req_id || 'stale' })),
  },
  { name: 'no type, no answer', caught: ['A2E-FR-014'], incoming: (m) => (m.type === undefined ? undefined : m) },
  {
    name: 'a type that is a number is dropped',
    caught: ['A2E-FR-015'],
    incoming: (m) => (typeof m.type === 'number' ? undefined : m),
  },
  {
    name: 'unknown types end the connection',
    caught: ['A2E-FR-016', 'A2E-FR-017'],
    incoming(m, { drop }) {
      if (m.type === 'conformance/unknown/req') drop();
      return m;
    },
  },
  {
    name: 'unknown fields are refused',
    caught: ['A2E-FR-018'],
    incoming: (m) => (m.conformance === undefined ? m : { ...m, ts: 'x' }),
  },
  {
    name: 'text is read as Latin-1',
    caught: ['A2E-FR-020'],
    bytes: (chunk) => Buffer.from(chunk.toString('latin1')),
  },
  {
    name: 'text is cut to the basic plane',
    caught: ['A2E-FR-019', 'A2E-FR-020'],
    ...of('pong', (m) => ({ ...m, req_id: m.req_id.replaceAll(/[\ud800-\udfff]/g, '?') })),
  },
  { name: 'text beyond ASCII is raw', caught: ['A2E-FR-021'], written: (m) => JSON.stringify(m) },
  { name: 'blanks between tokens', caught: ['A2E-FR-022'], written: (m) => JSON.stringify(m).replaceAll('":', '": ') },
  {
    name: 'messages over 64 KiB are dropped',
    caught: ['A2E-FR-023', 'A2E-FR-024'],
    incoming: (m) => (JSON.stringify(m).length > 65_536 ? undefined : m),
  },
  {
    name: 'deep messages are dropped',
    caught: ['A2E-FR-025'],
    incoming: (m) => (m.deep === undefined ? m : undefined),
  },
  {
    name: 'answers get answers',
    caught: ['A2E-FR-026'],
    incoming(m, { toClient }) {
      if (m.type === 'pong') toClient({ type: 'error', id: 'e', version: '1.0', ts: 1, req_id: m.id, code: 'x' });
      return m;
    },
  },
  {
    name: 'a banner',
    caught: ['A2E-FR-027'],
    ...of('handshake/resp', (m) => [['ready'], m].flat()),
    written: (m) => (m === 'ready' ? 'ready' : JSON.stringify(m)),
  },
  { name: 'pong without an id', caught: ['A2E-EX-001'], ...of('pong', ({ req_id, ...rest }) => rest) },
  { name: 'two pongs', caught: ['A2E-EX-003', 'A2E-FR-004'], ...of('pong', (m) => [m, { ...m, id: `${m.id}b` }]) },
  {
    name: 'time runs back',
    caught: ['A2E-EX-002'],
    // A host that has just started reports 0, whose negative is no smaller.
    ...of('pong', (m) => ({ ...m, uptime_seconds: -1 - m.uptime_seconds })),
  },
  {
    name: 'every tenth answer is lost',
    caught: ['A2E-EX-003'],
    ...of('pong', (m, { own }) => {
      own.count = (own.count ?? 0) + 1;
      return own.count % 10 === 0 ? undefined : m;
    }),
  },
  { name: 'one id for all messages', caught: ['A2E-EX-004'], outgoing: (m) => ({ ...m, id: 'same' }) },
  {
    name: 'ids are shared between connections',
    caught: ['A2E-EX-005'],
    incoming(m, { all }) {
      if (m.id !== 'conformance-same') return m;
      all.seen = (all.seen ?? 0) + 1;
      return all.seen > 1 ? undefined : m;
    },
  },
  { name: 'errors without a code', caught: ['A2E-EX-007'], ...of('error', ({ code, ...rest }) => rest) },
  { name: 'retryable is a text', caught: ['A2E-EX-007'], ...of('error', (m) => ({ ...m, retryable: 'no' })) },
  {
    name: 'shutdown is answered',
    caught: ['A2E-EX-008'],
    incoming(m, { toClient }) {
      if (m.type === 'shutdown') toClient({ type: 'pong', id: 'p', version: '1.0', ts: 1, req_id: m.id });
      return m;
    },
  },
  { name: 'shutdown is ignored', caught: ['A2E-EX-009'], ...asked('shutdown', () => undefined) },
  {
    name: 'shutdown drops what runs',
    caught: ['A2E-EX-010'],
    incoming(m, { drop, own }) {
      own.shut ||= m.type === 'shutdown';
      if (own.shut) drop();
      return m;
    },
    outgoing: (m, { own }) => (own.shut || m.type === 'tool/call/resp' ? undefined : m),
  },
  {
    name: 'tools without names',
    caught: ['A2E-TL-001'],
    ...of('tool/list/resp', (m) => ({ ...m, tools: m.tools.map(({ name, ...tool }: Line) => tool) })),
  },
  {
    name: 'tools twice',
    caught: ['A2E-TL-002'],
    ...of('tool/list/resp', (m) => ({ ...m, tools: [...m.tools, ...m.tools] })),
  },
  {
    name: 'deferred tools are always listed',
    caught: ['A2E-TL-003'],
    ...asked('tool/list/req', (m) => ({ ...m, include_deferred: true })),
  },
  { name: 'queries are ignored', caught: ['A2E-TL-005'], ...asked('tool/list/req', (m) => ({ ...m, query: '' })) },
  {
    name: 'queries find nothing',
    caught: ['A2E-TL-004'],
    ...of('tool/list/resp', (m) => (m.tools.length < 4 ? { ...m, tools: [] } : m)),
  },
  { name: 'tags are ignored', caught: ['A2E-TL-006'], ...asked('tool/list/req', (m) => ({ ...m, filter_tags: [] })) },
  {
    name: 'unknown tools succeed',
    caught: ['A2E-TL-007', 'A2E-TL-008'],
    ...of('error', (m) =>
      m.code === 'unknown_tool'
        ? { ...m, type: 'tool/call/resp', data: { success: true, tool_name: 'x', duration_ms: 1 } }
        : m,
    ),
  },
  {
    name: 'arguments are optional',
    caught: ['A2E-TL-009', 'A2E-TL-016'],
    ...asked('tool/call/req', (m) => ({ ...m, tool_name: 'echo', arguments: { value: 1 } })),
  },
  {
    name: 'violations are parse errors',
    caught: ['A2E-TL-010'],
    ...of('error', (m) => ({ ...m, code: m.code === 'schema_violation' ? 'parse_error' : m.code })),
  },
  {
    name: 'durations have fractions',
    caught: ['A2E-TL-011'],
    ...of('tool/call/resp', (m) => ({ ...m, data: { ...m.data, duration_ms: 0.5 } })),
  },
  {
    name: 'results are bare',
    caught: ['A2E-TL-012'],
    ...of('tool/call/resp', (m) => ({ ...m, data: { ...m.data, data: 7 } })),
  },
  {
    name: 'events fall behind their answer',
    caught: ['A2E-TL-013'],
    outgoing(m, { own }) {
      if (m.type === 'tool/event') {
        own.held = [...(own.held ?? []), m];
        return undefined;
      }
      const held = own.held ?? [];
      if (m.type !== 'tool/call/resp') return m;
      own.held = [];
      return [m, ...held];
    },
  },
  { name: 'seq falls', caught: ['A2E-TL-013'], ...of('tool/event', (m) => ({ ...m, seq: 10 - m.seq })) },
  {
    name: 'events unasked',
    caught: ['A2E-TL-014'],
    ...asked('tool/call/req', (m) => ({ ...m, streaming: true })),
  },
  {
    name: 'calls over max_parallel are dropped',
    caught: ['A2E-TL-015'],
    incoming(m, { own }) {
      if (m.type !== 'tool/call/req') return m;
      own.open = (own.open ?? 0) + 1;
      return own.open > 8 ? undefined : m;
    },
    outgoing(m, { own }) {
      if (m.type === 'tool/call/resp') own.open -= 1;
      return m;
    },
  },
  {
    name: 'two answers to a call',
    caught: ['A2E-TL-011'],
    ...of('tool/call/resp', (m) => [m, { ...m, id: `${m.id}b` }]),
  },
  {
    name: 'memory loses what it stores',
    caught: ['A2E-ME-002', 'A2E-ME-003'],
    ...of('memory/retrieve/resp', (m) => ({ ...m, entries: [], total: 0 })),
  },
  {
    name: 'memory appends',
    caught: ['A2E-ME-003'],
    ...of('memory/retrieve/resp', (m) => ({ ...m, entries: [...m.entries, ...m.entries] })),
  },
  {
    name: 'memory forgets nothing',
    caught: ['A2E-ME-004'],
    ...asked('memory/forget/req', (m) => ({ ...m, keys: [{ none: 1 }] })),
  },
  {
    name: 'memory forgets all when nothing is named',
    caught: ['A2E-ME-005'],
    incoming(m, { own }) {
      if (m.type === 'memory/store/req') own.keys = m.entries.map((entry: Line) => entry.key);
      return m.type === 'memory/forget/req' && m.keys === undefined ? { ...m, keys: own.keys } : m;
    },
  },
  {
    name: 'memory does not search',
    caught: ['A2E-ME-006'],
    ...asked('memory/retrieve/req', (m) => (m.query === undefined ? m : { ...m, keys: [{ none: 1 }] })),
  },
  {
    name: 'bad entries are dropped in silence',
    caught: ['A2E-ME-007'],
    ...of('memory/store/resp', (m) => ({ ...m, errors: [] })),
  },
  {
    name: 'total is what is returned',
    caught: ['A2E-ME-010'],
    ...of('memory/retrieve/resp', (m) => ({ ...m, total: m.entries.length })),
  },
  {
    name: 'an unknown memory is empty',
    caught: ['A2E-ME-008', 'A2E-ME-009'],
    ...of('error', (m) =>
      m.code === 'memory_not_found' ? { ...m, type: 'memory/retrieve/resp', entries: [], total: 0 } : m,
    ),
  },
  {
    name: 'unknown episodes are answered',
    caught: ['A2E-EN-001', 'A2E-EN-002'],
    ...of('error', (m) =>
      m.capability_name === 'env'
        ? { ...m, type: 'env/observe/resp', obs: { episode_id: 'x', step_num: 0, state: {} } }
        : m,
    ),
  },
  {
    name: 'an observation counts as a step',
    caught: ['A2E-EN-003'],
    ...of('env/observe/resp', (m) => ({ ...m, obs: { ...m.obs, step_num: m.obs.step_num + 1 } })),
  },
  {
    name: 'other columns',
    caught: ['A2E-PL-003'],
    ...of('planning/plan/create/resp', (m) => ({ ...m, columns: ['todo', 'done'] })),
  },
  {
    name: 'tasks do not move',
    caught: ['A2E-PL-004'],
    ...asked('planning/task/update', (m) => ({ ...m, status: '' })),
  },
  {
    name: 'stats without components',
    caught: ['A2E-LN-001'],
    ...of('learn/stats/resp', ({ components, ...rest }) => rest),
  },
];
