/** All fleet cases: the recorded messages, and the rules of announce, dispatch, refusal, result and replay. */
import { expect, type Level, Skip } from '../case.ts';
import type { Fields, LinePeer } from '../line-peer.ts';
import {
  announced,
  expectRefusal,
  type FleetCase,
  type FleetContext,
  fits,
  recorded,
  UNKNOWN,
  WORKER,
} from './context.ts';

const ANNOUNCE = 'Fleet handshake 2: SESSION_ANNOUNCE';
const DISPATCH = 'Fleet handshake 2: TASK_DISPATCH';
const RESULT = 'Fleet handshake 2: TASK_RESULT';
const PREFLIGHT = 'Fleet handshake 2: Phase 4';
const DECODER = 'Fleet handshake 2: strict decoder';
const VERSIONS = 'Fleet handshake 2: versions';
const LINKS = 'Fleet handshake 2: stream links';

/** Proves that a worker still replies. Its replies to earlier messages have arrived by then. */
async function answers(context: FleetContext, peer: LinePeer): Promise<void> {
  expectRefusal(await context.dispatch(peer, context.impossible()), 'missing_mcp');
}

/** Expects that no message since `from` accepts a task or ends it. */
function nothingBegan(peer: LinePeer, from: number, task: unknown): void {
  const began = peer.messages
    .slice(from)
    .filter(
      ({ type, task_id, accepted, status }) =>
        task_id === task &&
        ((type === 'TASK_ACK' && accepted === true) || (type === 'TASK_RESULT' && status !== 'blocked')),
    );
  expect(began.length === 0, 'no task that is accepted', began);
}

const rows: readonly (readonly [string, Level, string, string, FleetCase['run']])[] = [
  [
    'FLT-WK-001',
    'MUST',
    ANNOUNCE,
    'a worker announces itself first, with agent_id, tools and MCP servers',
    async (context) => {
      const { peer, announce } = await context.worker();
      expect(peer.messages[0] === announce, 'SESSION_ANNOUNCE as the first message', peer.messages[0]);
      fits(announce);
      const { agent_id } = (announce.worker ?? {}) as Fields;
      expect(/^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/.test(String(agent_id)), 'an agent_id', announce);
      const { tools, mcp_servers } = (announce.capabilities ?? {}) as Fields;
      expect(Array.isArray(tools) && Array.isArray(mcp_servers), 'tools and mcp_servers as lists', announce);
    },
  ],
  [
    'FLT-WK-002',
    'MUST',
    VERSIONS,
    'the announce has a protocol_version of major number 2',
    async (context) => {
      const { announce } = await context.worker();
      expect(/^2\.\d+$/.test(String(announce.protocol_version)), 'protocol_version 2.x', announce);
    },
  ],
  [
    'FLT-WK-003',
    'MUST',
    PREFLIGHT,
    'a required MCP server that is not configured: blocked, missing_mcp, 0 tokens',
    async (context) => answers(context, (await context.worker()).peer),
  ],
  [
    'FLT-WK-004',
    'SHOULD',
    PREFLIGHT,
    'a refusal names everything that is missing, and that it is not retryable',
    async (context) => {
      const { peer } = await context.worker();
      const required_mcp = [UNKNOWN, `${UNKNOWN}-2`];
      const answer = await context.dispatch(
        peer,
        context.impossible({ requirements: { required_mcp, access: 'read' } }),
      );
      const { missing, retryable } = (answer.blocked ?? {}) as Fields;
      expect(Array.isArray(missing) && missing.length === 2, 'blocked.missing with both', answer);
      expect(retryable === false, 'blocked.retryable false', answer);
    },
  ],
  [
    'FLT-WK-005',
    'MUST',
    PREFLIGHT,
    'a required tool that the worker does not have: missing_capability',
    async (context) => {
      const { peer } = await context.worker();
      const requirements = { required_capabilities: [UNKNOWN], access: 'read' };
      expectRefusal(await context.dispatch(peer, context.impossible({ requirements })), 'missing_capability');
    },
  ],
  [
    'FLT-WK-006',
    'MUST',
    PREFLIGHT,
    'a deadline that has passed: deadline_passed, before what is missing',
    async (context) => {
      const { peer } = await context.worker();
      const deadline = new Date(Date.now() - 3_600_000).toISOString();
      expectRefusal(await context.dispatch(peer, context.impossible({ deadline })), 'deadline_passed');
    },
  ],
  [
    'FLT-WK-007',
    'SHOULD',
    PREFLIGHT,
    'a deadline that leaves no time to work: deadline_too_close',
    async (context) => {
      const { peer } = await context.worker();
      const deadline = new Date(Date.now() + 20_000).toISOString();
      expectRefusal(await context.dispatch(peer, context.impossible({ deadline })), 'deadline_too_close');
    },
  ],
  [
    'FLT-WK-008',
    'MUST',
    VERSIONS,
    'another major version: unsupported_version',
    async (context) => {
      const { peer } = await context.worker();
      expectRefusal(
        await context.dispatch(peer, context.impossible({ protocol_version: '3.0' })),
        'unsupported_version',
      );
    },
  ],
  [
    'FLT-WK-009',
    'MUST',
    VERSIONS,
    'a newer minor version is read as the own one',
    async (context) => {
      const { peer } = await context.worker();
      expectRefusal(await context.dispatch(peer, context.impossible({ protocol_version: '2.9' })), 'missing_mcp');
    },
  ],
  [
    'FLT-WK-010',
    'MUST',
    DISPATCH,
    'unknown members and null for optional ones are accepted',
    async (context) => {
      const { peer } = await context.worker();
      const more = { deadline: null, conformance: { any: [1] } };
      expectRefusal(await context.dispatch(peer, context.impossible(more)), 'missing_mcp');
    },
  ],
  [
    'FLT-WK-011',
    'MUST',
    DECODER,
    'a message of an unknown type is dropped, and the worker continues',
    async (context) => {
      const { peer } = await context.worker();
      peer.line({ type: 'CONFORMANCE_UNKNOWN', protocol_version: '2.0' });
      await answers(context, peer);
    },
  ],
  [
    'FLT-WK-012',
    'MUST',
    PREFLIGHT,
    'the same refused dispatch sent twice gets the same answer',
    async (context) => {
      const { peer } = await context.worker();
      const message = context.impossible();
      for (let count = 0; count < 2; count += 1) expectRefusal(await context.dispatch(peer, message), 'missing_mcp');
    },
  ],
  [
    'FLT-WK-013',
    'MUST',
    RESULT,
    'a brief is accepted and ends with one result; the same dispatch again gets that result and runs nothing',
    async (context) => {
      const { peer, message, result } = await ran(context);
      const again = await context.dispatch(peer, message);
      const stored = again.type === 'TASK_RESULT' ? again : await resultOf(peer, message, again);
      expect(stored.status === result.status, `the stored result with status ${result.status}`, stored);
      expect(stored.tokens_spent === result.tokens_spent, 'the same tokens_spent', stored);
    },
  ],
  [
    'FLT-WK-014',
    'MUST',
    PREFLIGHT,
    'the id of a task that has ended with another content: duplicate_conflict',
    async (context) => {
      const { peer, message } = await ran(context);
      const other = { ...message, brief: `${String(message.brief)} and something else` };
      expectRefusal(await context.dispatch(peer, other), 'duplicate_conflict');
    },
  ],
  [
    'FLT-OR-001',
    'MUST',
    ANNOUNCE,
    'an announce is answered by SESSION_ACCEPT with the name and the terms of the worker',
    async (context) => {
      context.only('orchestrator');
      const answer = await context.accepted(await context.open(), announced);
      if (answer === undefined) throw new Skip('the target does not know SESSION_ACCEPT');
      expect(typeof answer.peer_id === 'string' && Number(answer.heartbeat_s) > 0, 'peer_id and heartbeat_s', answer);
    },
  ],
  [
    'FLT-OR-002',
    'MUST',
    LINKS,
    'a wrong token is refused, and the link ends',
    async (context) => {
      context.only('orchestrator');
      if (context.target.token === '') throw new Skip('no token was given: --token-file');
      const peer = await context.open();
      const answer = await context.announce(peer, announced, `${context.target.token}x`);
      expect(answer?.type !== 'SESSION_ACCEPT', 'no SESSION_ACCEPT', answer);
      expect(await peer.ended(), 'the end of the link', 'it is open');
    },
  ],
  [
    'FLT-OR-003',
    'MUST',
    VERSIONS,
    'a worker of another major version alone is not accepted as one of this version',
    async (context) => {
      context.only('orchestrator');
      const answer = await context.announce(await context.open(), { ...announced, protocol_version: '3.0' });
      expect(answer?.type !== 'SESSION_ACCEPT', 'SESSION_BYE, or the end of the link', answer);
    },
  ],
  [
    'FLT-OR-004',
    'MUST',
    DECODER,
    'malformed lines and unknown types leave a link open',
    async (context) => {
      context.only('orchestrator');
      const peer = await context.open();
      await context.accepted(peer, announced);
      for (const line of ['{', '[]', '{"type":"CONFORMANCE_UNKNOWN"}', '{"type":"TASK_RESULT","type":"x"}'])
        peer.line(line);
      await context.announce(await context.open(), { ...announced, worker: { agent_id: `${WORKER}-2` } });
      expect(!peer.over, 'a link that is open', 'the target ended it');
    },
  ],
  [
    'FLT-OR-005',
    'SHOULD',
    LINKS,
    'a second link under the same name replaces the first one, which ends',
    async (context) => {
      context.only('orchestrator');
      const [one, other] = [await context.open(), await context.open()];
      await context.announce(one, announced);
      const from = one.messages.length;
      await context.accepted(other, announced);
      const bye = await one.sought(({ type }) => type === 'SESSION_BYE', from);
      expect(bye !== undefined || one.over, 'SESSION_BYE, or the end of the first link', 'it is open');
    },
  ],
];

/** Runs the brief that was named to its end. */
async function ran(context: FleetContext): Promise<{ peer: LinePeer; message: Fields; result: Fields }> {
  context.only('worker');
  const { brief } = context.target;
  if (brief === undefined) throw new Skip('no brief was named: --brief TEXT');
  const { peer } = await context.worker();
  const message = context.impossible({ requirements: { access: 'read' }, brief });
  const answer = await context.dispatch(peer, message);
  return { peer, message, result: await resultOf(peer, message, answer) };
}

/** Returns the result of a task: the reply itself, or the result that follows its TASK_ACK. It is acknowledged. */
async function resultOf(peer: LinePeer, { task }: Fields, answer: Fields): Promise<Fields> {
  const { task_id } = task as Fields;
  if (answer.type === 'TASK_ACK') expect(answer.accepted === true, 'TASK_ACK with accepted true', answer);
  const isResult = (message: Fields): boolean => message.type === 'TASK_RESULT' && message.task_id === task_id;
  const from = answer.type === 'TASK_RESULT' ? 0 : peer.messages.indexOf(answer);
  const result = await peer.find(isResult, 'TASK_RESULT', from);
  fits(result);
  const { message_id } = (result.envelope ?? {}) as Fields;
  peer.line({
    type: 'TASK_ACK',
    protocol_version: '2.0',
    task_id,
    accepted: true,
    envelope: { causation_id: message_id },
  });
  return result;
}

/** Recorded messages that a worker must not act upon. */
const dispatches: readonly FleetCase[] = recorded('message', 'task_dispatch.')
  .filter(({ name }) => name.endsWith('.invalid'))
  .map(({ name, value }, at) => ({
    id: `FLT-WD-${String(at + 1).padStart(3, '0')}`,
    level: 'MUST',
    section: DISPATCH,
    title: `an invalid dispatch starts nothing: ${name.replace('.invalid', '').replaceAll('-', ' ')}`,
    async run(context) {
      const { peer } = await context.worker();
      const from = peer.messages.length;
      const { task } = value as { task?: Fields };
      const own = task?.task_id === undefined ? {} : { task: { ...task, task_id: context.id() } };
      const message: Fields = { ...value, ...own };
      const named = (message.task as Fields | undefined)?.task_id;
      if (named === undefined) peer.line(message);
      else expectRefusal(await context.dispatch(peer, message));
      await answers(context, peer);
      nothingBegan(peer, from, named);
    },
  }));

/** Recorded texts that are no message. */
const texts: readonly FleetCase[] = recorded('message_text', 'raw.')
  .filter(({ name }) => name.endsWith('.invalid'))
  .map(({ name, value }, at) => ({
    id: `FLT-RW-${String(at + 1).padStart(3, '0')}`,
    level: 'MUST',
    section: DECODER,
    title: `text that is no message starts nothing: ${name.replace('.invalid', '').replaceAll('-', ' ')}`,
    async run(context) {
      const { peer } = await context.worker();
      const from = peer.messages.length;
      const { text } = value.input as { text: string };
      peer.line(text.replaceAll(/\s*\n\s*/g, ' '));
      await answers(context, peer);
      const others = peer.messages.slice(from).filter(({ type, accepted }) => type === 'TASK_ACK' && accepted === true);
      expect(others.length === 0, 'no task that is accepted', others);
    },
  }));

/** Recorded announces. */
const announces: readonly FleetCase[] = recorded('message', 'session_announce.').map(({ name, value }, at) => {
  const isValid = name.endsWith('.valid');
  return {
    id: `FLT-AN-${String(at + 1).padStart(3, '0')}`,
    level: 'MUST',
    section: ANNOUNCE,
    title: `an announce is ${isValid ? 'accepted' : 'not accepted'}: ${name.replace(/\.(?:in)?valid$/, '').replaceAll('-', ' ')}`,
    async run(context) {
      context.only('orchestrator');
      const worker = value.worker as Fields | undefined;
      const own = isValid ? { worker: { ...worker, agent_id: WORKER } } : {};
      const peer = await context.open();
      const message = { ...value, ...own };
      if (isValid) return void (await context.accepted(peer, message));
      const answer = await context.announce(peer, message);
      expect(answer?.type !== 'SESSION_ACCEPT', 'SESSION_BYE, an error or the end of the link', answer);
    },
  };
});

export const fleetCases: readonly FleetCase[] = [
  ...rows.map(([id, level, section, title, run]) => ({ id, level, section, title, run })),
  ...dispatches,
  ...texts,
  ...announces,
];
