/** Questions of the MCP servers of a host, asked while a call of a session's model runs: put to the user of the session. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { call, create, type Started, started, turn } from './session-stand.ts';

const program = fileURLToPath(
  new URL('../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url),
);
const plugins = `plugins:
  - use: tools
  - use: mcp
    options:
      servers:
        - { name: everything, command: ${JSON.stringify(process.execPath)}, args: [${JSON.stringify(program)}, stdio], may_ask: [elicitation] }`;

interface Question {
  readonly id: string;
  readonly kind: string;
  readonly title: string;
  readonly schema: { readonly properties: object };
}

/** Returns the question with this number, once it is there. */
async function question({ peer }: Started, session: string, count: number): Promise<Question> {
  const asked = () =>
    peer.events.filter(({ type, payload }) => type === 'approval.requested' && payload.session_id === session);
  await peer.recorder.until(() => asked().length === count, 'the question of the server');
  return asked().at(-1)?.payload.approval as Question;
}

test('the user answers the form of a server of the host, or declines; the call has what he said', {
  timeout: 120_000,
}, async (t) => {
  const stand = await started(t, '', plugins);
  const session = await create(stand.peer);
  const asks = (id: string) => [call('everything__trigger-elicitation-request', {}, id), { text: 'thanks' }];
  const first = turn(stand, session, 'ask me', asks('a'));
  const { id, kind, title, schema } = await question(stand, session, 1);
  assert.equal(kind, 'question');
  assert.match(title, /^MCP server "everything" asks: Please provide inputs/);
  assert.ok(Object.keys(schema.properties).includes('name'));
  const said = { decision: 'allow', content: { name: 'Ada' } };
  await stand.peer.call('approval.answer', { session_id: session, approval_id: id, ...said });
  assert.match((await first)[1].messages.at(-1).content, /Ada/);
  const second = turn(stand, session, 'ask again', asks('b'));
  const again = await question(stand, session, 2);
  await stand.peer.call('approval.answer', { session_id: session, approval_id: again.id, decision: 'deny' });
  assert.match((await second)[1].messages.at(-1).content, /declined/);
});
