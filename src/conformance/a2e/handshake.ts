/**
 * Cases of the A2E handshake and of messages before it.
 */
import { expect, Skip } from '../case.ts';
import type { Fields } from '../line-peer.ts';
import { entriesOf, grantedIn, STANDARD_NAMES } from './connection.ts';
import { type A2eContext, casesOf } from './context.ts';

const RESPONSE = 'Handshake: HandshakeResponse';
const REASONS = 'Handshake: Rejection Reasons';
const REQUEST = 'Handshake: HandshakeRequest';
const BASE = 'Message protocol: A2EMessage Base';
const VERSIONING = 'Message protocol: Protocol Versioning';
const BEFORE = 'Handshake: Overview';

/** Fails the case unless a handshake was refused for one of these reasons. */
function expectRefusal(terms: Fields, ...reasons: readonly string[]): void {
  expect(terms.ok === false, 'handshake/resp with ok false', terms);
  expect(reasons.includes(String(terms.reason)), `reason ${reasons.join(' or ')}`, terms);
  expect(grantedIn(terms).length === 0, 'no granted capability in a refusal', terms);
}

/** Handshakes with this version stamp. */
async function stamped(context: A2eContext, stamp: Fields): Promise<Fields> {
  const connection = await context.open();
  return connection.handshake(context.asked([], { a2e: undefined, version: undefined, ...stamp }));
}

export const handshakeCases = casesOf([
  [
    'A2E-HS-001',
    'MUST',
    RESPONSE,
    'a handshake is answered by handshake/resp with ok true, its req_id and a session_id',
    async (context) => {
      const connection = await context.open();
      const terms = await connection.accepted(context.asked(['tools']));
      expect(typeof terms.session_id === 'string' && terms.session_id !== '', 'a session_id', terms);
      expect(Array.isArray(terms.accepted_caps), 'accepted_caps as a list', terms);
    },
  ],
  [
    'A2E-HS-002',
    'MUST',
    BASE,
    'every message has type, id and ts, and a version stamp of "1.0"',
    async (context) => {
      const connection = await context.session();
      await connection.alive();
      for (const message of connection.peer.messages) {
        expect(typeof message.id === 'string' && message.id !== '', 'a non-empty id', message);
        expect(typeof message.ts === 'number', 'ts as a number', message);
        expect(message.a2e === '1.0' || message.version === '1.0', 'a2e or version "1.0"', message);
      }
    },
  ],
  [
    'A2E-HS-003',
    'SHOULD',
    BASE,
    'messages carry both stamps, a2e and version, since readers differ in the one they know',
    async (context) => {
      const { terms } = await context.session();
      expect(terms?.a2e === '1.0' && terms.version === '1.0', 'a2e and version "1.0"', terms);
    },
  ],
  [
    'A2E-HS-004',
    'SHOULD',
    BASE,
    'ts is in seconds since 1970',
    async (context) => {
      const { terms } = await context.session();
      const ts = Number(terms?.ts);
      expect(ts > 1e9 && ts < 1e11, 'ts between 1e9 and 1e11', terms);
    },
  ],
  [
    'A2E-HS-005',
    'MUST',
    RESPONSE,
    'max_parallel is an integer of at least 1',
    async (context) => {
      const { terms } = await context.session();
      const { max_parallel: most } = terms ?? {};
      expect(Number.isInteger(most) && Number(most) >= 1, 'max_parallel of at least 1', terms);
    },
  ],
  [
    'A2E-HS-006',
    'MUST',
    REASONS,
    'a wrong token is refused with auth_failed',
    async (context) => {
      if (context.target.token === '') throw new Skip('no token was given: --token-file');
      const connection = await context.open();
      const wrong = `${context.target.token}x`;
      expectRefusal(await connection.handshake(context.asked(['tools'], { auth_token: wrong })), 'auth_failed');
    },
  ],
  [
    'A2E-HS-007',
    'MUST',
    REASONS,
    'a missing token is refused with auth_failed',
    async (context) => {
      if (context.target.token === '') throw new Skip('no token was given: --token-file');
      const connection = await context.open();
      expectRefusal(await connection.handshake(context.asked(['tools'], { auth_token: undefined })), 'auth_failed');
    },
  ],
  [
    'A2E-HS-008',
    'MUST',
    REASONS,
    'a version of another major number is refused with version_mismatch',
    async (context) => {
      expectRefusal(await stamped(context, { a2e: '2.0', version: '2.0' }), 'version_mismatch');
    },
  ],
  [
    'A2E-HS-009',
    'SHOULD',
    VERSIONING,
    'a newer minor version of the same major number is accepted',
    async (context) => {
      const terms = await stamped(context, { a2e: '1.7', version: '1.7' });
      expect(terms.ok !== false, 'ok true', terms);
    },
  ],
  [
    'A2E-HS-010',
    'MUST',
    VERSIONING,
    'the stamp a2e alone is accepted',
    async (context) => {
      const terms = await stamped(context, { a2e: '1.0' });
      expect(terms.ok !== false, 'ok true', terms);
    },
  ],
  [
    'A2E-HS-011',
    'MUST',
    VERSIONING,
    'the stamp version alone is accepted',
    async (context) => {
      const terms = await stamped(context, { version: '1.0' });
      expect(terms.ok !== false, 'ok true', terms);
    },
  ],
  [
    'A2E-HS-012',
    'SHOULD',
    VERSIONING,
    'a message without any stamp counts as 1.0',
    async (context) => {
      const terms = await stamped(context, {});
      expect(terms.ok !== false, 'ok true', terms);
    },
  ],
  [
    'A2E-HS-013',
    'MUST',
    REASONS,
    'an empty list of capabilities is accepted with an empty grant',
    async (context) => {
      const { terms = {} } = await context.session([]);
      expect(grantedIn(terms).length === 0, 'no granted capability', terms);
    },
  ],
  [
    'A2E-HS-014',
    'SHOULD',
    REASONS,
    'no_caps when capabilities were asked for and none of them is available',
    async (context) => {
      const granted = grantedIn((await context.shared()).terms ?? {});
      const missing = STANDARD_NAMES.filter((name) => name !== 'test' && !granted.includes(name));
      if (missing.length === 0) throw new Skip('the target grants every capability');
      const connection = await context.open();
      expectRefusal(await connection.handshake(context.asked(missing)), 'no_caps');
    },
  ],
  [
    'A2E-HS-015',
    'MUST',
    RESPONSE,
    'each connection gets a session of its own',
    async (context) => {
      const [one, other] = [await context.session(), await context.session()];
      expect(one.terms?.session_id !== other.terms?.session_id, 'two different session_ids', other.terms);
    },
  ],
  [
    'A2E-HS-016',
    'SHOULD',
    BEFORE,
    'a second handshake on a connection gets exactly one answer, and the connection stays usable',
    async (context) => {
      const connection = await context.session();
      const id = connection.send('handshake/req', context.asked([]));
      await connection.answer(id);
      await connection.alive();
      const answers = connection.answers(id);
      expect(answers.length === 1, 'one answer: handshake/resp or error', answers);
      expect(['handshake/resp', 'error'].includes(String(answers[0]?.type)), 'handshake/resp or error', answers[0]);
    },
  ],
  [
    'A2E-HS-017',
    'MUST',
    'Message protocol: Type Registry',
    'a ping is answered before the handshake',
    async (context) => {
      const pong = await (await context.open()).alive();
      expect(pong.type === 'pong', 'pong', pong);
    },
  ],
  [
    'A2E-HS-018',
    'MUST',
    BEFORE,
    'a request before the handshake is refused and not processed',
    async (context) => {
      const connection = await context.open();
      const id = connection.send('tool/list/req');
      const answer = await connection.peer.sought(({ req_id }) => req_id === id);
      // A host that requires a token may close the connection instead.
      if (answer === undefined) expect(connection.peer.over, 'an error, or the end of the connection', 'neither');
      else expect(answer.type === 'error', 'error', answer);
    },
  ],
  [
    'A2E-HS-019',
    'SHOULD',
    BEFORE,
    'the refusal of a request before the handshake has the code unauthorized or capability_missing',
    async (context) => {
      const connection = await context.open();
      const id = connection.send('tool/list/req');
      const answer = await connection.answer(id);
      const codes = ['unauthorized', 'capability_missing'];
      expect(
        answer.type === 'error' && codes.includes(String(answer.code)),
        `error with code ${codes.join(' or ')}`,
        answer,
      );
    },
  ],
  [
    'A2E-HS-020',
    'SHOULD',
    REQUEST,
    'a handshake of 48 KiB is accepted',
    async (context) => {
      const connection = await context.open();
      await connection.accepted(context.asked([], { agent_id: 'a'.repeat(48 * 1024) }));
    },
  ],
  [
    'A2E-HS-021',
    'MUST',
    REQUEST,
    'a line of 2 MiB before the handshake does not keep the target from serving the next connection',
    async (context) => {
      const connection = await context.open();
      connection.send('handshake/req', context.asked([], { agent_id: 'a'.repeat(2 * 1024 * 1024) }));
      await connection.peer.until(() => connection.peer.over || connection.peer.messages.length > 0);
      await (await context.session()).alive();
    },
  ],
  [
    'A2E-HS-022',
    'MUST',
    REQUEST,
    'a handshake with a field of the wrong type is not accepted in silence: error, ok false, or the end of the connection',
    async (context) => {
      const connection = await context.open();
      const id = connection.send('handshake/req', context.asked([], { agent_caps: 'tools' }));
      const answer = await connection.peer.sought(({ req_id, type }) => req_id === id || type === 'error');
      if (answer === undefined) expect(connection.peer.over, 'an answer', 'nothing');
      else expect(answer.type === 'error' || answer.ok === false, 'error, or ok false', answer);
    },
  ],
  [
    'A2E-HS-023',
    'MUST',
    'Message protocol: A2EMessage Base',
    'unknown fields of a handshake are ignored',
    async (context) => {
      const connection = await context.open();
      await connection.accepted(context.asked([], { conformance_unknown: { nested: [1, null] }, agent_version: 3 }));
    },
  ],
]);

export const negotiationCases = casesOf([
  [
    'A2E-NG-001',
    'MUST',
    'Capability negotiation: A2ECapability Enum',
    'accepted_caps holds standard names only, also when others were asked for',
    async (context) => {
      const { terms = {} } = await context.session(['streaming', 'tools', 'x.conformance', 'artifacts']);
      const strange = entriesOf(terms).filter(({ capability }) => !STANDARD_NAMES.includes(String(capability)));
      expect(strange.length === 0, 'standard capability names only', strange);
    },
  ],
  [
    'A2E-NG-002',
    'MUST',
    REASONS,
    'a request for unknown names alone is accepted with an empty grant',
    async (context) => {
      const { terms = {} } = await context.session(['streaming', 'artifacts']);
      expect(entriesOf(terms).length === 0, 'empty accepted_caps', terms);
    },
  ],
  [
    'A2E-NG-003',
    'MUST',
    'Capability negotiation: Negotiation Rules',
    'nothing is granted that was not asked for',
    async (context) => {
      const all = grantedIn((await context.shared()).terms ?? {});
      const [asked] = all;
      if (asked === undefined) throw new Skip('the target grants nothing');
      const { terms = {} } = await context.session([asked]);
      expect(grantedIn(terms).join() === asked, `${asked} alone`, terms);
    },
  ],
  [
    'A2E-NG-004',
    'MUST',
    'Capability negotiation: Process',
    'what is not available is left out or has enabled false',
    async (context) => {
      const connection = await context.shared();
      for (const entry of entriesOf(connection.terms ?? {})) {
        expect(typeof entry.capability === 'string', 'capability as a string', entry);
        expect(typeof (entry.enabled ?? true) === 'boolean', 'enabled as a boolean', entry);
      }
    },
  ],
  [
    'A2E-NG-005',
    'MUST',
    'Capability negotiation: Negotiation Rules',
    'the order of the names makes no difference to what is granted',
    async (context) => {
      const all = [...grantedIn((await context.shared()).terms ?? {})].sort();
      const { terms = {} } = await context.session([...STANDARD_NAMES].reverse());
      expect([...grantedIn(terms)].sort().join() === all.join(), `the grant of ${all.join(', ')}`, terms);
    },
  ],
  [
    'A2E-NG-006',
    'SHOULD',
    'Capability negotiation: Process',
    'a name that is asked for twice has one entry',
    async (context) => {
      const [asked] = grantedIn((await context.shared()).terms ?? {});
      if (asked === undefined) throw new Skip('the target grants nothing');
      const { terms = {} } = await context.session([asked, asked]);
      expect(entriesOf(terms).length === 1, 'one entry', terms);
    },
  ],
  [
    'A2E-NG-007',
    'SHOULD',
    'Capability negotiation: Capability Metadata',
    'the metadata of a granted capability has name, type, priority and exclusive',
    async (context) => {
      const { terms = {} } = await context.shared();
      for (const entry of entriesOf(terms).filter(({ enabled }) => enabled !== false)) {
        const metadata = (entry.metadata ?? {}) as Fields;
        expect(typeof metadata.name === 'string', 'metadata.name as a string', entry);
        expect(metadata.type === entry.capability, 'metadata.type equal to the capability', entry);
        expect(Number.isInteger(metadata.priority), 'metadata.priority as an integer', entry);
        expect(typeof metadata.exclusive === 'boolean', 'metadata.exclusive as a boolean', entry);
      }
    },
  ],
  [
    'A2E-NG-008',
    'MAY',
    'Capability negotiation: Plugin type mapping',
    'the alias "skills" of skill is understood, and answered with the standard name',
    async (context) => {
      await context.granted('skill');
      const { terms = {} } = await context.session(['skills']);
      if (entriesOf(terms).length === 0) throw new Skip('the target knows no aliases');
      expect(grantedIn(terms).join() === 'skill', 'skill', terms);
    },
  ],
  [
    'A2E-NG-009',
    'MUST',
    'Capability negotiation: After Negotiation',
    'a message of a capability that was not granted gets error capability_missing',
    async (context) => {
      const connection = await context.session([]);
      const answer = await connection.request('tool/list/req');
      expect(
        answer.type === 'error' && answer.code === 'capability_missing',
        'error with code capability_missing',
        answer,
      );
    },
  ],
  [
    'A2E-NG-010',
    'SHOULD',
    'Message protocol: Error Handling',
    'capability_missing names the capability in capability_name',
    async (context) => {
      const connection = await context.session([]);
      const answer = await connection.request('tool/list/req');
      expect(answer.capability_name === 'tools', 'capability_name "tools"', answer);
    },
  ],
]);
