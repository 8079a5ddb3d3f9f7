/** Cases of the capabilities that offer work: tools, toolkits, skill. */
import { expect, Skip } from '../case.ts';
import type { Fields } from '../line-peer.ts';
import { type A2eConnection, expectError, fits } from './connection.ts';
import { type A2eContext, casesOf } from './context.ts';

const TOOLS = 'tools: tool/*';
const TOOLKITS = 'toolkits: toolkit/*';
const SKILLS = 'skill: skill/*';

/** A name that no target has. */
const UNKNOWN = 'conformance-unknown-name';

const listOf = (message: Fields, member: string): readonly Fields[] =>
  Array.isArray(message[member]) ? (message[member] as Fields[]) : [];

const namesOf = (items: readonly Fields[]): readonly string[] => items.map(({ name }) => String(name));

const listed = async (connection: A2eConnection, body: Fields = {}): Promise<readonly Fields[]> =>
  listOf(await connection.result('tool/list/req', body, 'tool/list/resp'), 'tools');

/** Calls the tool that was named, on a connection where its events are counted from the start. */
async function called(context: A2eContext, body: Fields = {}): Promise<{ answer: Fields; events: readonly Fields[] }> {
  const { name, arguments: args } = context.tool();
  const connection = await context.granted('tools');
  const id = connection.send('tool/call/req', { tool_name: name, arguments: args, streaming: false, ...body });
  const answer = await connection.answer(id, `an answer to the call of ${name}`);
  fits(answer);
  await connection.alive();
  const answers = connection.answers(id);
  expect(answers.length === 1, 'exactly one answer', answers);
  const late = connection.peer.messages.slice(connection.peer.messages.indexOf(answer));
  const after = late.filter(({ req_id, type }) => req_id === id && type === 'tool/event');
  expect(after.length === 0, 'no event behind the answer', after);
  return { answer, events: connection.events(id) };
}

/** Returns the result in the reply to a call, which must have succeeded. */
async function result(context: A2eContext, body: Fields = {}): Promise<Fields> {
  const { answer } = await called(context, body);
  expect(answer.type === 'tool/call/resp', 'tool/call/resp', answer);
  return (answer.data ?? {}) as Fields;
}

/** Returns true for both forms of a failed call. */
const hasFailed = ({ type, data }: Fields): boolean =>
  type === 'error' || (data as Fields | undefined)?.success === false;

export const toolCases = casesOf([
  [
    'A2E-TL-001',
    'MUST',
    TOOLS,
    'tool/list/req is answered by tool/list/resp, every tool with name and description',
    async (context) => {
      for (const tool of await listed(await context.granted('tools'))) {
        expect(typeof tool.name === 'string' && tool.name !== '', 'a name', tool);
        expect(typeof tool.description === 'string', 'a description', tool);
      }
    },
  ],
  [
    'A2E-TL-002',
    'MUST',
    TOOLS,
    'the names of the listed tools differ',
    async (context) => {
      const names = namesOf(await listed(await context.granted('tools'), { include_deferred: true }));
      expect(new Set(names).size === names.length, 'names that differ', names);
    },
  ],
  [
    'A2E-TL-003',
    'MUST',
    TOOLS,
    'tools that load deferred are left out of a plain list and are in one with include_deferred',
    async (context) => {
      const connection = await context.granted('tools');
      const plain = await listed(connection);
      const deferred = plain.filter(({ defer_loading }) => defer_loading === true);
      expect(deferred.length === 0, 'no deferred tool', namesOf(deferred));
      const all = namesOf(await listed(connection, { include_deferred: true }));
      const lost = namesOf(plain).filter((name) => !all.includes(name));
      expect(lost.length === 0, 'every tool of the plain list', lost);
    },
  ],
  [
    'A2E-TL-004',
    'MUST',
    TOOLS,
    'a query for the name of a tool finds it',
    async (context) => {
      const connection = await context.granted('tools');
      const [first] = namesOf(await listed(connection));
      if (first === undefined) throw new Skip('the target lists no tools');
      const found = namesOf(await listed(connection, { query: first.toUpperCase() }));
      expect(found.includes(first), `${first}, without regard to case`, found);
    },
  ],
  [
    'A2E-TL-005',
    'MUST',
    TOOLS,
    'a query that nothing fits finds nothing',
    async (context) => {
      const found = await listed(await context.granted('tools'), { query: 'qzxjkvwqzxjkvw' });
      expect(found.length === 0, 'no tool', namesOf(found));
    },
  ],
  [
    'A2E-TL-006',
    'SHOULD',
    TOOLS,
    'filter_tags keeps tools that have every tag',
    async (context) => {
      const connection = await context.granted('tools');
      const found = await listed(connection, { filter_tags: [UNKNOWN] });
      expect(found.length === 0, 'no tool', namesOf(found));
    },
  ],
  [
    'A2E-TL-007',
    'MUST',
    TOOLS,
    'the call of an unknown tool fails',
    async (context) => {
      const connection = await context.granted('tools');
      const answer = await connection.request('tool/call/req', { tool_name: UNKNOWN, arguments: {} });
      expect(hasFailed(answer), 'error, or a result with success false', answer);
    },
  ],
  [
    'A2E-TL-008',
    'SHOULD',
    TOOLS,
    'the call of an unknown tool has the code unknown_tool',
    async (context) => {
      const connection = await context.granted('tools');
      const answer = await connection.request('tool/call/req', { tool_name: UNKNOWN, arguments: {} });
      const code = answer.type === 'error' ? answer.code : (answer.data as Fields | undefined)?.error_code;
      expect(code === 'unknown_tool', 'code unknown_tool', answer);
    },
  ],
  [
    'A2E-TL-009',
    'MUST',
    TOOLS,
    'a call without arguments is refused',
    async (context) => {
      const connection = await context.granted('tools');
      await connection.refused(
        'tool/call/req',
        { tool_name: UNKNOWN },
        'schema_violation',
        'parse_error',
        'unknown_tool',
      );
    },
  ],
  [
    'A2E-TL-010',
    'SHOULD',
    'Message protocol: Error Handling',
    'a field of the wrong type gets error schema_violation',
    async (context) => {
      const connection = await context.granted('tools');
      await connection.refused('tool/call/req', { tool_name: 7, arguments: 'none' }, 'schema_violation');
    },
  ],
  [
    'A2E-TL-011',
    'MUST',
    TOOLS,
    'a call is answered by tool/call/resp with success, the name of the tool and whole milliseconds',
    async (context) => {
      const data = await result(context);
      expect(data.success === true, 'success true', data);
      expect(data.tool_name === context.tool().name, `tool_name ${context.tool().name}`, data);
      expect(Number.isInteger(data.duration_ms), 'duration_ms as an integer', data);
    },
  ],
  [
    'A2E-TL-012',
    'SHOULD',
    TOOLS,
    'the data of a result is an object: another value is in its member value',
    async (context) => {
      const { data } = await result(context);
      expect(data === null || (typeof data === 'object' && !Array.isArray(data)), 'an object', data);
    },
  ],
  [
    'A2E-TL-013',
    'MUST',
    'Message protocol: Event Streaming',
    'the events of a call come before its answer, with its id, and their seq does not fall',
    async (context) => {
      const { events } = await called(context, { streaming: true });
      for (const [at, event] of events.entries()) {
        fits(event);
        const before = Number(events[at - 1]?.seq ?? 0);
        expect(at === 0 || Number(event.seq ?? 0) >= before, 'a seq that does not fall', events);
      }
    },
  ],
  [
    'A2E-TL-014',
    'SHOULD',
    TOOLS,
    'a call without streaming has no events',
    async (context) => {
      const { events } = await called(context, { streaming: false });
      expect(events.length === 0, 'no events', events);
    },
  ],
  [
    'A2E-TL-015',
    'MUST',
    'Message protocol: Correlation',
    'more calls at once than max_parallel are all answered, each once',
    async (context) => {
      const { name, arguments: args } = context.tool();
      const connection = await context.granted('tools');
      const count = Math.min(32, Number(connection.terms?.max_parallel ?? 4) * 3);
      const ids = Array.from({ length: count }, () =>
        connection.send('tool/call/req', { tool_name: name, arguments: args, timeout: 30 }),
      );
      for (const id of ids) await connection.answer(id);
      await connection.alive();
      for (const id of ids) expect(connection.answers(id).length === 1, 'one answer for each', connection.answers(id));
    },
  ],
  [
    'A2E-TL-016',
    'SHOULD',
    TOOLS,
    'a required parameter that is missing is refused with schema_violation',
    async (context) => {
      const { name } = context.tool();
      const connection = await context.granted('tools');
      const tool = (await listed(connection, { include_deferred: true })).find((each) => each.name === name);
      const required = listOf(tool ?? {}, 'input_parameters').filter(({ required }) => required === true);
      if (required.length === 0) throw new Skip(`${name} has no required parameter`);
      const answer = await connection.request('tool/call/req', { tool_name: name, arguments: {} });
      expectError(answer, 'schema_violation');
    },
  ],
  [
    'A2E-TL-017',
    'MUST',
    TOOLS,
    'a call on a session where tools were not asked for is not run',
    async (context) => {
      const { name, arguments: args } = context.tool();
      const connection = await context.session([]);
      await connection.refused('tool/call/req', { tool_name: name, arguments: args }, 'capability_missing');
    },
  ],
]);

export const toolkitCases = casesOf([
  [
    'A2E-TK-001',
    'MUST',
    TOOLKITS,
    'toolkit/list/req is answered by toolkit/list/resp, every toolkit with name and tools',
    async (context) => {
      const connection = await context.granted('toolkits');
      const answer = await connection.result('toolkit/list/req', {}, 'toolkit/list/resp');
      for (const kit of listOf(answer, 'toolkits')) {
        expect(typeof kit.name === 'string' && kit.name !== '', 'a name', kit);
        expect(Array.isArray(kit.tools), 'tools as a list', kit);
      }
    },
  ],
  [
    'A2E-TK-002',
    'MUST',
    TOOLKITS,
    'configuring an unknown toolkit fails: status error, or error',
    async (context) => {
      const connection = await context.granted('toolkits');
      const answer = await connection.request('toolkit/configure/req', { toolkit_name: UNKNOWN, config: {} });
      expect(answer.type === 'error' || answer.status === 'error', 'status error, or error', answer);
    },
  ],
  [
    'A2E-TK-003',
    'SHOULD',
    TOOLKITS,
    'filter_tags that no toolkit has gives an empty list',
    async (context) => {
      const connection = await context.granted('toolkits');
      const answer = await connection.result('toolkit/list/req', { filter_tags: [UNKNOWN] }, 'toolkit/list/resp');
      expect(listOf(answer, 'toolkits').length === 0, 'no toolkit', answer);
    },
  ],
]);

export const skillCases = casesOf([
  [
    'A2E-SK-001',
    'MUST',
    SKILLS,
    'skill/discover/req is answered by skill/discover/resp',
    async (context) => {
      const connection = await context.granted('skill');
      const answer = await connection.result('skill/discover/req', {}, 'skill/discover/resp');
      for (const skill of listOf(answer, 'skills')) expect(typeof skill.name === 'string', 'a name', skill);
    },
  ],
  [
    'A2E-SK-002',
    'MUST',
    SKILLS,
    'filter_categories and filter_tags that no skill has give an empty list',
    async (context) => {
      const connection = await context.granted('skill');
      for (const member of ['filter_categories', 'filter_tags']) {
        const answer = await connection.result('skill/discover/req', { [member]: [UNKNOWN] }, 'skill/discover/resp');
        expect(listOf(answer, 'skills').length === 0, `no skill for ${member}`, answer);
      }
    },
  ],
  [
    'A2E-SK-003',
    'MUST',
    SKILLS,
    'the call of an unknown skill fails',
    async (context) => {
      const connection = await context.granted('skill');
      const answer = await connection.request('skill/call/req', { name: UNKNOWN, arguments: {} });
      const { error } = answer as { error?: unknown };
      expect(hasFailed(answer) || (error !== undefined && error !== null), 'error, or an answer with error', answer);
    },
  ],
  [
    'A2E-SK-004',
    'SHOULD',
    SKILLS,
    'the call of an unknown skill has the code unknown_skill',
    async (context) => {
      const connection = await context.granted('skill');
      const answer = await connection.request('skill/call/req', { name: UNKNOWN, arguments: {} });
      const code = answer.type === 'error' ? answer.code : (answer.error as Fields | null | undefined)?.code;
      expect(code === 'unknown_skill', 'code unknown_skill', answer);
    },
  ],
]);
