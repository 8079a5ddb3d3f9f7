/**
 * The reading side of the fleet protocol: every rule of the messages that the vectors do not show, and the rules that hold for
 * any message, however it is broken.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decode, decodeValue } from '../../../src/fleet/messages/decode.ts';
import type { Announced, Decoded, Dispatched, Incoming, Reported } from '../../../src/fleet/messages/decoded.ts';
import fc from '../../support/properties.ts';
import { vectorNowMs, vectorsOf } from '../vectors.ts';

type Json = Record<string, unknown>;
const at = { nowMs: vectorNowMs };

const announce = (changes: { worker?: Json; capabilities?: Json; session?: Json; root?: Json } = {}): Json => ({
  type: 'SESSION_ANNOUNCE',
  protocol_version: '2.0',
  worker: { agent_id: 'codex-1', ...changes.worker },
  capabilities: { tools: [], mcp_servers: [], ...changes.capabilities },
  ...(changes.session && { session: changes.session }),
  ...changes.root,
});
const dispatch = (changes: { task?: Json; requirements?: Json; root?: Json } = {}): Json => ({
  type: 'TASK_DISPATCH',
  protocol_version: '2.0',
  task: { task_id: 't-1', ...changes.task },
  ...(changes.requirements && { requirements: changes.requirements }),
  brief: 'Fix it.',
  ...changes.root,
});
const result = (changes: Json = {}): Json => ({
  type: 'TASK_RESULT',
  protocol_version: '2.0',
  task_id: 't-1',
  status: 'done',
  tokens_spent: 1,
  ...changes,
});

/** Findings of a message, sorted; it must say the same as text and as value. */
function findings(message: unknown): string[] {
  const [text, value] = [decode(JSON.stringify(message), at), decodeValue(message, at)];
  assert.deepEqual(value, text);
  return [...text.errors, ...text.warnings].map(({ code, path }) => `${code} ${path}`).sort();
}
function valid<T extends Incoming>(message: unknown): T {
  const decoded = decodeValue(message, at);
  assert.deepEqual(decoded.errors, []);
  return (decoded as Extract<Decoded, { valid: true }>).message as T;
}

describe('type and version', () => {
  test('that are wrong end the reading, both told', () => {
    assert.deepEqual(findings({}), ['E_REQUIRED /protocol_version', 'E_REQUIRED /type']);
    assert.deepEqual(findings({ type: 7, protocol_version: 'two' }), ['E_TYPE /type', 'E_VERSION /protocol_version']);
    assert.deepEqual(findings({ type: 'TASK_DISPATCH', protocol_version: '3.0' }), [
      'E_VERSION_UNSUPPORTED /protocol_version',
    ]);
    for (const version of ['2', '2.0.0', 'v2.0', ' 2.0', '2.00', '02.0', '2.-1', '2.0\n', '', 2.0, {}]) {
      assert.deepEqual(
        findings({ ...result(), protocol_version: version }),
        ['E_VERSION /protocol_version'],
        `${version}`,
      );
    }
  });

  test('of a message are not looked up where objects inherit from', () => {
    for (const type of ['constructor', 'toString', '__proto__', 'hasOwnProperty']) {
      assert.deepEqual(findings({ type, protocol_version: '2.0' }), ['E_TYPE /type']);
    }
  });

  test('are reported with the task they concern, where it can be read', () => {
    const read = (message: unknown) => {
      const { type, taskId } = decodeValue(message, at) as Extract<Decoded, { valid: false }>;
      return [type, taskId];
    };
    assert.deepEqual(read(dispatch({ root: { protocol_version: '3.0' } })), ['TASK_DISPATCH', 't-1']);
    assert.deepEqual(read(dispatch({ root: { brief: '' } })), ['TASK_DISPATCH', 't-1']);
    assert.deepEqual(read(dispatch({ task: { task_id: ' ' } })), ['TASK_DISPATCH', undefined]);
    assert.deepEqual(read(result({ status: 'fine' })), ['TASK_RESULT', 't-1']);
    assert.deepEqual(read(result({ type: 'TASK_OTHER' })), [null, undefined]);
  });
});

describe('numbers', () => {
  const budget = (token_budget: unknown) => findings(dispatch({ task: { token_budget } }));

  test('that are whole may be written in any way, within what a number can hold', () => {
    for (const text of ['4000.0', '4e3', '40E+2', '1', '9007199254740991']) {
      const message = JSON.stringify(dispatch({ task: { token_budget: 7 } })).replace(
        '"token_budget":7',
        `"token_budget":${text}`,
      );
      const decoded = decode(message, at);
      assert.deepEqual(decoded.errors, [], text);
      assert.equal(decoded.valid && (decoded.message as Dispatched).token_budget, Number(text));
    }
    assert.ok(Object.is(valid<Reported>(result({ tokens_spent: -0 })).tokens_spent, 0));
    for (const text of ['1e999', '9007199254740992', '1e300', '-1e999', '-1', '0']) {
      const message = JSON.stringify(dispatch({ task: { token_budget: 7 } })).replace(
        '"token_budget":7',
        `"token_budget":${text}`,
      );
      assert.deepEqual(decode(message, at).errors, [{ code: 'E_RANGE', path: '/task/token_budget' }], text);
    }
    for (const value of [1.5, '4000', true, [], {}])
      assert.deepEqual(budget(value), ['E_FIELD_TYPE /task/token_budget']);
  });
});

describe('SESSION_ANNOUNCE', () => {
  test('with objects of another type says so once, not for each of their members', () => {
    assert.deepEqual(findings({ ...announce(), worker: [], capabilities: 'all', session: 1, mcp_health: [] }), [
      'E_FIELD_TYPE /capabilities',
      'E_FIELD_TYPE /mcp_health',
      'E_FIELD_TYPE /session',
      'E_FIELD_TYPE /worker',
    ]);
    assert.deepEqual(findings({ type: 'SESSION_ANNOUNCE', protocol_version: '2.0' }), [
      'E_REQUIRED /capabilities',
      'E_REQUIRED /worker',
    ]);
  });

  test('keeps names in canonical form, each once, at most 256', () => {
    const tools = ['Terminal', 'terminal', 'file', 'FILE '];
    assert.deepEqual(findings(announce({ capabilities: { tools } })), [
      'W_DUP_NAME /capabilities/tools/1',
      'W_DUP_NAME /capabilities/tools/3',
    ]);
    assert.deepEqual(valid<Announced>(announce({ capabilities: { tools } })).tools, ['terminal', 'file']);
    const many = (count: number) => Array.from({ length: count }, (_, index) => `tool_${index}`);
    assert.deepEqual(findings(announce({ capabilities: { tools: many(256) } })), []);
    assert.deepEqual(findings(announce({ capabilities: { tools: many(257) } })), ['E_LIMIT /capabilities/tools']);
    assert.deepEqual(findings(announce({ capabilities: { tools: ['', null, 'a\nb'] } })), [
      'E_FIELD_TYPE /capabilities/tools/1',
      'E_FORMAT /capabilities/tools/0',
      'E_FORMAT /capabilities/tools/2',
    ]);
  });

  test('holds the worse of two spellings of a server, and knows no server by inheritance', () => {
    const health = (mcp_health: Json) =>
      valid<Announced>(announce({ capabilities: { mcp_servers: ['a_b', 'constructor'] }, root: { mcp_health } }))
        .mcp_health;
    assert.equal(health({ a_b: 'ok', 'A-B': 'timeout' }).get('a_b'), 'timeout');
    assert.equal(health({ 'A-B': 'timeout', a_b: 'ok' }).get('a_b'), 'timeout');
    assert.equal(health({ 'A-B': 'error', a_b: 'timeout' }).get('a_b'), 'error');
    assert.equal(health({}).get('constructor'), 'unknown');
    assert.equal(health({ constructor: 'ok' }).get('constructor'), 'ok');
    assert.equal(health({ toString: 'ok' }).get('toString'), undefined);
  });

  test('points at members of maps by their own spelling, escaped', () => {
    const mcp_health = { 'x/y~z': 'ok', A: 7, b: null, c: '' };
    assert.deepEqual(findings(announce({ capabilities: { mcp_servers: ['A', 'b'] }, root: { mcp_health } })), [
      'E_FIELD_TYPE /mcp_health/A',
      'E_FORMAT /mcp_health/c',
      'W_HEALTH_MISSING /mcp_health/a',
      'W_HEALTH_MISSING /mcp_health/b',
      'W_HEALTH_UNLISTED /mcp_health/x~1y~0z',
    ]);
  });

  test('normalises its extensions', () => {
    const bare = valid<Announced>(announce());
    assert.deepEqual(bare.protocol_versions, ['2.0']);
    assert.deepEqual(bare.features, []);
    assert.deepEqual([bare.max_concurrent, bare.overhead_tokens, bare.seq, bare.ttl_s], [null, null, null, null]);
    assert.equal(bare.draining, false);
    assert.deepEqual(bare.envelope, {});
    const full = valid<Announced>(
      announce({
        worker: {
          protocol_versions: ['2.0', '2.1'],
          features: ['ack', 'telepathy', 'steer'],
          max_concurrent: 2,
          pools: ['Re-Views'],
        },
        session: {
          repo_state: { clean: false },
          incarnation: 'i',
          seq: 0,
          ttl_s: 1.5,
          draining: true,
          active_tasks: 0,
        },
        root: { envelope: { sent_at: '2026-06-01T14:00:00+02:00', unheard_of: 1 } },
      }),
    );
    assert.deepEqual(full.features, ['ack', 'steer']);
    assert.deepEqual(full.pools, ['re_views']);
    assert.deepEqual(full.repo_state, { branch: null, clean: false });
    assert.deepEqual([full.seq, full.ttl_s, full.draining, full.active_tasks], [0, 1.5, true, 0]);
    assert.deepEqual(full.envelope, { sent_at: '2026-06-01T12:00:00.000Z' });
  });
});

describe('TASK_DISPATCH', () => {
  test('works out the access of a task that does not state it, and is safe about it', () => {
    const access = (requirements: Json) => valid<Dispatched>(dispatch({ requirements })).access;
    assert.equal(access({}), 'write');
    assert.equal(access({ required_capabilities: ['Browser', 'search', 'read', 'web', 'fetch'] }), 'read');
    assert.equal(access({ required_capabilities: ['browser', 'terminal'] }), 'write');
    assert.equal(access({ required_capabilities: ['terminal'], access: 'read' }), 'read');
    assert.equal(access({ required_capabilities: ['browser'], access: 'write' }), 'write');
    assert.deepEqual(findings(dispatch({ requirements: { access: 'admin' } })), ['E_ENUM /requirements/access']);
  });

  test('refuses a brief that is too long, and never cuts one', () => {
    assert.equal(valid<Dispatched>(dispatch({ root: { brief: 'x'.repeat(262_144) } })).brief.length, 262_144);
    assert.deepEqual(findings(dispatch({ root: { brief: 'x'.repeat(262_145) } })), ['E_LIMIT /brief']);
    assert.deepEqual(findings(dispatch({ root: { brief: 'é'.repeat(131_073) } })), ['E_LIMIT /brief']);
    assert.deepEqual(findings(dispatch({ root: { brief: '\u200b\u3000' } })), ['E_REQUIRED /brief']);
    assert.deepEqual(findings(dispatch({ root: { brief: 7 } })), ['E_FIELD_TYPE /brief']);
  });

  test('has its deadline compared with the clock it is given', () => {
    const deadline = (text: string) => findings(dispatch({ root: { deadline: text } }));
    assert.deepEqual(deadline('2026-06-01T12:00:00.001Z'), []);
    assert.deepEqual(deadline('2026-06-01T12:00:00Z'), ['W_DEADLINE_PAST /deadline']);
    assert.deepEqual(deadline('2026-06-01T12:30:00+01:00'), ['W_DEADLINE_PAST /deadline']);
  });

  test('warns of unknown members where members are ours, and nowhere else', () => {
    const message = {
      ...dispatch({ task: { x: 1, answer_schema: { anything: 1 } }, requirements: { y: 1 } }),
      z: 1,
      envelope: { w: 1 },
    };
    assert.deepEqual(findings(message), [
      'W_UNKNOWN_FIELD /requirements/y',
      'W_UNKNOWN_FIELD /task/x',
      'W_UNKNOWN_FIELD /z',
    ]);
  });

  test('keeps its digest through another envelope, order and writing, and through nothing else', () => {
    const digest = (message: unknown) => valid<Dispatched>(message).digest;
    const message = dispatch({ task: { token_budget: 4000, priority: 'high' } });
    assert.match(digest(message), /^[0-9a-f]{64}$/);
    assert.equal(digest({ ...message, envelope: { attempt: 2 } }), digest(message));
    const reordered = Object.fromEntries(Object.entries(message).reverse());
    assert.equal(digest(reordered), digest(message));
    const text = JSON.stringify(message).replace('4000', '4e3');
    const decoded = decode(text, at);
    assert.equal(decoded.valid && (decoded.message as Dispatched).digest, digest(message));
    assert.equal(digest({ ...message, deadline: undefined }), digest(message));
    for (const other of [
      { ...message, brief: 'Fix it!' },
      { ...message, later: 1 },
      dispatch({ task: { priority: 'low' } }),
    ]) {
      assert.notEqual(digest(other), digest(message));
    }
  });

  test('has the digest that its rule gives', () => {
    // SHA-256 of {"brief":"Fix it.","protocol_version":"2.0","task":{"task_id":"t-1"},"type":"TASK_DISPATCH"}
    assert.equal(
      valid<Dispatched>(dispatch()).digest,
      '37b3effeeda5d78349baa6e85673926d93ada42cb2013a7590d74e9f36d6cda1',
    );
  });

  test('checks what its envelope says of attempt and lease', () => {
    const envelope = (value: unknown) => findings(dispatch({ root: { envelope: value } }));
    assert.deepEqual(envelope(null), []);
    assert.deepEqual(envelope('x'), ['E_FIELD_TYPE /envelope']);
    assert.deepEqual(envelope({ attempt: 0, lease: { ttl_s: '45' }, context_id: ' ', sent_at: 'now', message_id: 1 }), [
      'E_FIELD_TYPE /envelope/lease/ttl_s',
      'E_FIELD_TYPE /envelope/message_id',
      'E_FORMAT /envelope/context_id',
      'E_FORMAT /envelope/sent_at',
      'E_RANGE /envelope/attempt',
      'E_REQUIRED /envelope/lease/fence',
    ]);
  });
});

describe('TASK_RESULT', () => {
  test('needs what its status says, and a member that cannot be read is none', () => {
    assert.deepEqual(findings(result({ status: 'blocked', tokens_spent: 0, blocked_reason: '\u2003' })), [
      'E_BLOCKED_REASON /blocked_reason',
    ]);
    assert.deepEqual(findings(result({ status: 'blocked', tokens_spent: 0, blocked_reason: 7 })), [
      'E_BLOCKED_REASON /blocked_reason',
      'E_FIELD_TYPE /blocked_reason',
    ]);
    assert.deepEqual(findings(result({ status: 'partial', next_steps: ['\u200b', 7] })), [
      'E_FIELD_TYPE /next_steps/1',
      'E_PARTIAL_NEXT_STEPS /next_steps',
    ]);
    assert.deepEqual(findings(result({ status: 'error', error: { message: ' ' }, summary: '' })), [
      'E_ERROR_SUMMARY /error_summary',
    ]);
    assert.deepEqual(findings(result({ status: null })), ['E_REQUIRED /status']);
  });

  test('takes the first summary of an error that is not blank', () => {
    const summary = (changes: Json) => valid<Reported>(result({ status: 'error', ...changes })).error_summary;
    const all = { error_summary: 'a', error: { message: 'b' }, summary: 'c', blocked_reason: 'd' };
    assert.equal(summary(all), 'a');
    assert.equal(summary({ ...all, error_summary: ' ' }), 'b');
    assert.equal(summary({ ...all, error_summary: null, error: 'text' }), 'text');
    assert.equal(summary({ ...all, error_summary: null, error: ['odd'] }), 'c');
    assert.equal(summary({ ...all, error_summary: null, error: { message: 7 }, summary: null }), 'd');
    assert.equal('error_summary' in valid<Reported>(result({ error_summary: 'x' })), false);
  });

  test('keeps every artifact, and of the two it knows only what can be used', () => {
    const artifacts = {
      pr: 'javascript:alert(1)',
      files_changed: ['a.ts', '../b', ''],
      constructor: 'x',
      report: { ok: 1 },
    };
    const read = valid<Reported>(result({ artifacts }));
    assert.deepEqual(read.artifacts, { pr: null, files_changed: ['a.ts'] });
    assert.deepEqual(
      [...read.more_artifacts],
      [
        ['files_changed', ['a.ts']],
        ['constructor', 'x'],
        ['report', { ok: 1 }],
      ],
    );
    assert.equal(valid<Reported>(result()).more_artifacts.get('toString'), undefined);
    assert.deepEqual(findings(result({ artifacts: { pr: 7, files_changed: 'a.ts' } })), [
      'E_FIELD_TYPE /artifacts/files_changed',
      'E_FIELD_TYPE /artifacts/pr',
    ]);
  });

  test('shows operators only links of the web and paths below the repository', () => {
    const link = (pr: string) => valid<Reported>(result({ artifacts: { pr } })).artifacts.pr !== null;
    for (const pr of ['https://example.test/pull/1', 'HTTP://example.test', 'https://example.test/a?b=c#d'])
      assert.ok(link(pr), pr);
    for (const pr of [
      '',
      'example.test',
      '//example.test',
      'ftp://example.test',
      ' https://example.test',
      'https://',
      'https://a b',
      'data:text/html,x',
      'https://example.test/\u202e',
    ]) {
      assert.ok(!link(pr), pr);
    }
    const path = (file: string) =>
      valid<Reported>(result({ artifacts: { files_changed: [file] } })).artifacts.files_changed.length === 1;
    for (const file of ['a', 'src/a.ts', './a', 'a/.../b', '..a/b', 'a b.md', '.gitignore', 'größe.txt'])
      assert.ok(path(file), file);
    for (const file of [
      '..',
      'a/..',
      'a/../b',
      '..\\b',
      '/a',
      '\\\\host\\a',
      '~',
      '~root/a',
      'C:a',
      'c:/a',
      'a\u0000b',
      'a\nb',
      ' ',
    ]) {
      assert.ok(!path(file), file);
    }
  });

  test('vouches for no figures whose source it does not know', () => {
    const usage = (value: Json) => valid<Reported>(result({ usage: value })).usage;
    assert.deepEqual(usage({ source: 'measured', input: 5, note: 'x' }), { source: 'measured', input: 5 });
    assert.deepEqual(usage({ input: 5 }), { source: 'unknown', input: 5 });
    assert.deepEqual(usage({ source: 'guessed' }), { source: 'unknown' });
    assert.deepEqual(findings(result({ usage: { source: 'guessed', output: -1, cost_usd: '1' } })), [
      'E_FIELD_TYPE /usage/cost_usd',
      'E_RANGE /usage/output',
      'W_UNKNOWN_ENUM /usage/source',
    ]);
  });

  test('tells an answer of null from no answer', () => {
    assert.equal(valid<Reported>(result({ answer: null })).answer, null);
    assert.equal(valid<Reported>(result()).answer, undefined);
  });
});

describe('additive messages', () => {
  /** Type → members it needs, each with a value that fits; and values that do not fit, with the findings about them. */
  const rows: Readonly<Record<string, { needs: Json; wrong: Json; says: readonly string[] }>> = {
    TASK_ACK: {
      needs: { task_id: 't', accepted: false },
      wrong: { lease: { ttl_s: 1, fence: 1.5 }, state: 'maybe', retry_after_s: -1 },
      says: ['E_ENUM /state', 'E_FIELD_TYPE /lease/fence', 'E_RANGE /retry_after_s'],
    },
    TASK_PROGRESS: {
      needs: { task_id: 't', seq: 0, phase: 'running' },
      wrong: { percent: 101, note: 7, tokens_so_far: 1.5 },
      says: ['E_FIELD_TYPE /note', 'E_FIELD_TYPE /tokens_so_far', 'E_RANGE /percent'],
    },
    TASK_CANCEL: { needs: { task_id: 't' }, wrong: { reason: {} }, says: ['E_FIELD_TYPE /reason'] },
    TASK_STEER: {
      needs: { task_id: 't', steer_id: 's', text: 'Stop.' },
      wrong: { text: 'x'.repeat(262_145) },
      says: ['E_LIMIT /text'],
    },
    TASK_POLL: { needs: { task_id: 't' }, wrong: { task_id: 't ' }, says: ['E_FORMAT /task_id'] },
    TASK_QUESTION: {
      needs: { task_id: 't', question_id: 'q', kind: 'tool', title: 'May I?' },
      wrong: { kind: 'riddle', tool: { name: '' }, risks: ['x', 1], schema: [] },
      says: [
        'E_ENUM /kind',
        'E_FIELD_TYPE /risks/1',
        'E_FIELD_TYPE /schema',
        'E_REQUIRED /tool/input',
        'E_REQUIRED /tool/name',
      ],
    },
    TASK_ANSWER: {
      needs: { task_id: 't', question_id: 'q', allowed: true },
      wrong: { allowed: 'yes', content: 'yes' },
      says: ['E_FIELD_TYPE /allowed', 'E_FIELD_TYPE /content'],
    },
    SESSION_HEARTBEAT: {
      needs: { agent_id: 'a', incarnation: 'i', seq: 0, active_tasks: 0 },
      wrong: { agent_id: 'a b', active_tasks: -1 },
      says: ['E_FORMAT /agent_id', 'E_RANGE /active_tasks'],
    },
    SESSION_BYE: { needs: { agent_id: 'a', reason: 'idle' }, wrong: { reason: ' ' }, says: ['E_REQUIRED /reason'] },
    SESSION_ACCEPT: {
      needs: { peer_id: 'p', features: [], heartbeat_s: 15, lease_ttl_s: 45 },
      wrong: { features: [1], heartbeat_s: '15' },
      says: ['E_FIELD_TYPE /features/0', 'E_FIELD_TYPE /heartbeat_s'],
    },
    ANNOUNCE_REQUEST: { needs: {}, wrong: { context_id: '' }, says: ['E_FORMAT /context_id'] },
  };

  test('need what they need, take null for what they do not, and pass what is unknown', () => {
    for (const [type, { needs, wrong, says }] of Object.entries(rows)) {
      const message = { type, protocol_version: '2.0', ...needs };
      assert.deepEqual(valid(message), message);
      for (const key of Object.keys(needs)) {
        assert.deepEqual(findings({ ...message, [key]: null }), [`E_REQUIRED /${key}`], type);
      }
      for (const key of Object.keys(wrong)) {
        if (key in needs) continue;
        assert.deepEqual(valid({ ...message, [key]: null }), message, `${type} ${key}`);
      }
      assert.deepEqual(findings({ ...message, ...wrong }), says, type);
      assert.deepEqual(findings({ ...message, later: { a: 1 } }), ['W_UNKNOWN_FIELD /later'], type);
      assert.deepEqual(valid({ ...message, later: 1, envelope: { attempt: 3, later: 1 } }), {
        ...message,
        envelope: { attempt: 3 },
      });
    }
  });
});

describe('any message', () => {
  test('tells at most 256 errors and 256 warnings', () => {
    const junk = Object.fromEntries(Array.from({ length: 2000 }, (_, index) => [`x${index}`, 0]));
    const decoded = decodeValue(result({ ...junk, next_steps: Array.from({ length: 2000 }, () => 0) }), at);
    assert.deepEqual([decoded.errors.length, decoded.warnings.length], [256, 256]);
  });

  test('tells every reserved key in it, and where, as text and as value', () => {
    const type = JSON.parse('{"__proto__":[{"__proto__":0}],"a/b":{"__proto__":null}}');
    assert.deepEqual(findings(result({ type, answer: ['__proto__', { ['__proto__']: {} }] })), [
      'E_RESERVED_KEY /answer/1/__proto__',
      'E_RESERVED_KEY /type/__proto__',
      'E_RESERVED_KEY /type/__proto__/0/__proto__',
      'E_RESERVED_KEY /type/a~1b/__proto__',
    ]);
    const many = Array.from({ length: 300 }, () => ({ ['__proto__']: 1 }));
    assert.equal(findings(result({ answer: many })).length, 256);
  });

  test('takes members that are undefined as absent', () => {
    assert.deepEqual(findings(result({ later: undefined, summary: undefined, ['__proto__']: undefined })), []);
  });

  const messages = vectorsOf<Json>('message').map(({ vector }) => vector);
  /** A path to some member of a message, and the value to put there. */
  const change = fc.record({
    message: fc.constantFrom(...messages),
    steps: fc.array(fc.nat(), { minLength: 1, maxLength: 4 }),
    value: fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.constantFrom<unknown>(
        null,
        '',
        ' ',
        -1,
        0,
        1.5,
        1e300,
        '\u0000',
        '😀'.repeat(300),
        {},
        [],
        [null],
        true,
        'done',
      ),
    ),
  });

  function broken({ message, steps, value }: { message: Json; steps: readonly number[]; value: unknown }): Json {
    const copy = structuredClone(message);
    let place: Json = copy;
    for (const [index, step] of steps.entries()) {
      const keys = Object.keys(place);
      if (keys.length === 0) break;
      const key = keys[step % keys.length] as string;
      const inner = place[key];
      if (index === steps.length - 1 || typeof inner !== 'object' || inner === null) {
        place[key] = value;
        break;
      }
      place = inner as Json;
    }
    return copy;
  }

  test('that is broken somewhere is reported, never thrown, and says the same as text and as value', () => {
    fc.assert(
      fc.property(change, (drawn) => {
        const message = broken(drawn);
        const text = decode(JSON.stringify(message), at);
        assert.deepEqual(decodeValue(JSON.parse(JSON.stringify(message)), at), text);
        if (!text.valid) assert.ok(text.errors.length > 0);
        for (const { code, path } of [...text.errors, ...text.warnings]) {
          assert.match(code, /^[EW]_[A-Z_]+$/);
          assert.match(path, /^(\/([^/~]|~[01])*)*$/s);
        }
      }),
      { numRuns: 600, examples: [[{ message: announce(), steps: [0], value: JSON.parse('{"__proto__":0}') }]] },
    );
  });

  test('that is valid stays valid with unknown members, and means the same', () => {
    const unknown = fc.dictionary(
      fc.string({ minLength: 1 }).map((name) => `x_${name}`),
      // A reserved key is refused wherever it stands.
      fc.jsonValue().filter((value) => !JSON.stringify(value).includes('"__proto__":')),
      { maxKeys: 4 },
    );
    fc.assert(
      fc.property(fc.constantFrom(...messages), unknown, (message, more) => {
        const [before, after] = [decodeValue(message, at), decodeValue({ ...message, ...more }, at)];
        assert.equal(after.valid, before.valid);
        assert.deepEqual(after.errors, before.errors);
        if (!before.valid || !after.valid || before.message.type === 'TASK_DISPATCH') return;
        assert.deepEqual(after.message, before.message);
      }),
      { numRuns: 200 },
    );
  });
});
