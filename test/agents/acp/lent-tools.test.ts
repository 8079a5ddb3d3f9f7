/**
 * Files and terminals that an agent asks its client for: served by the tools of the session, with the rights of its
 * owner, through a real server of sessions and a real process of an agent that tries forbidden actions too.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type SharesServer, sharesServer } from '../../faults/shares-server.ts';
import { eventually } from '../../faults/support/fleet-server.ts';
import { type AgentStep, asks, calls, OPTIONS, scriptFolder } from './scripted-agent.ts';

const CLIENT = 'roles: [client], backends: [scripted]';
const SHELL = `${CLIENT}, tools: { allow: [read_file, write_file, shell] }, env: [WORD]`;

/** A reply to a request, with the members that any reply has. */
type Answer = Readonly<Record<string, unknown>> & { readonly data?: { readonly kind?: string } };

interface Scripted {
  readonly server: SharesServer;
  /** The folder of the sessions. */
  readonly folder: string;
  /** Returns the announced abilities, and the replies to the agent's requests, by method. */
  readonly told: (method: string) => Answer[];
}

/** Starts a server with an agent that does these steps in its only turn. */
async function scripted(
  t: TestContext,
  principals: Readonly<Record<string, string>>,
  steps: (folder: string) => readonly AgentStep[],
  approvals = '[{ when: "true", then: allow }]',
): Promise<Scripted> {
  const files = scriptFolder();
  t.after(() => files[Symbol.dispose]());
  const agent = { name: 'scripted', command: process.execPath, args: files.args({}) };
  const control = `control: { agents: [${JSON.stringify(agent)}], approvals: { rules: ${approvals} } }\n`;
  const server = await sharesServer(t, principals, control);
  files.args({ prompts: [[...steps(server.folder), { stop: 'end_turn' }]] });
  return { server, folder: server.folder, told: files.told };
}

/** Returns the loan that the agent was offered. */
function lentBy({ told }: Scripted) {
  const [request] = told('initialize');
  return (request?.clientCapabilities ?? {}) as { readonly fs?: unknown; readonly terminal?: unknown };
}

/** Runs the turn for a principal; resolves with the titles of the approvals for its user. */
async function run(t: TestContext, { server }: Scripted, name: string, answer?: 'allow' | 'deny') {
  const control = await server.client(name);
  t.after(() => control.close());
  const session = await control.create({ backend: 'scripted' });
  const turn = await session.prompt('go');
  const asked: string[] = [];
  const results: unknown[] = [];
  const answering = (async () => {
    for await (const event of session.events()) {
      if (event.type === 'approval.requested') {
        const { approval } = event.payload;
        asked.push(approval.title);
        if (answer !== undefined) {
          await control.rpc.approvalAnswer({ approval_id: approval.id, decision: answer });
        }
      }
      if (event.type === 'session.tool.call.completed') results.push(event.payload.data.executed.result);
      if (event.type === 'session.completed' || event.type === 'session.error') return;
    }
  })();
  const { stopReason, error } = await turn.result();
  if (error !== undefined) throw error;
  assert.equal(stopReason, 'end_turn');
  await answering;
  return { asked, results };
}

const create = (command: string, args?: readonly string[], more: object = {}): AgentStep =>
  asks('terminal/create', { command, ...(args && { args }), ...more });
const ofTerminal = (...methods: readonly string[]): AgentStep[] =>
  methods.map((method) => asks(`terminal/${method}`, { terminalId: 'last' }));

test('an agent reads and writes files and runs programs through the tools of the session, and its call shows the output', async (t) => {
  const stand = await scripted(t, { owner: SHELL }, (folder) => [
    asks('fs/read_text_file', { path: join(folder, 'notes.txt') }),
    asks('fs/read_text_file', { path: join(folder, 'notes.txt'), line: 2, limit: 1 }),
    asks('fs/write_text_file', { path: join(folder, 'made', 'new.txt'), content: 'new\n' }),
    create('sh', ['-c', 'cat made/new.txt; echo $WORD; exit 3'], { env: [{ name: 'WORD', value: 'set' }] }),
    calls('tool_call', {
      kind: 'execute',
      title: 'cat',
      status: 'in_progress',
      content: [{ type: 'terminal', terminalId: 'lent_4' }],
    }),
    ...ofTerminal('wait_for_exit', 'output', 'release', 'output'),
    calls('tool_call_update', { status: 'completed' }),
    create('echo one | tr n N'),
    ...ofTerminal('wait_for_exit', 'output'),
    create('sleep', ['600']),
    ...ofTerminal('kill', 'wait_for_exit', 'output'),
    create('no-such-program-here', ['x']),
    ...ofTerminal('wait_for_exit', 'output'),
  ]);
  writeFileSync(join(stand.folder, 'notes.txt'), 'one\ntwo\nthree\n');
  const { results } = await run(t, stand, 'owner');
  const { fs, terminal } = lentBy(stand);
  assert.deepEqual([fs, terminal], [{ readTextFile: true, writeTextFile: true }, true]);
  assert.deepEqual(stand.told('fs/read_text_file answered'), [{ content: 'one\ntwo\nthree\n' }, { content: 'two\n' }]);
  assert.equal(readFileSync(join(stand.folder, 'made', 'new.txt'), 'utf8'), 'new\n');
  const [first, piped, killed, missing] = stand.told('terminal/wait_for_exit answered');
  assert.deepEqual(first, { exitCode: 3, signal: null });
  assert.deepEqual(piped, { exitCode: 0, signal: null });
  assert.deepEqual(killed, { exitCode: null, signal: 'SIGKILL' });
  assert.notEqual(missing?.exitCode, 0);
  const outputs = stand.told('terminal/output answered');
  assert.deepEqual(outputs[0], { output: 'new\nset\n', truncated: false, exitStatus: { exitCode: 3, signal: null } });
  assert.deepEqual([outputs[1]?.code, outputs[1]?.message], [-32602, 'there is no terminal lent_4']);
  assert.equal(outputs[2]?.output, 'oNe\n');
  assert.match(String(outputs[4]?.output), /no-such-program-here/);
  assert.deepEqual(results, [{ text: 'new\nset\n' }]);
});

test('nothing outside the folder is read, written or run in, by a path, a link or a folder', async (t) => {
  const stand = await scripted(t, { owner: SHELL }, (folder) => {
    const outside = join(folder, '..', 'outside.txt');
    return [
      asks('fs/read_text_file', { path: '/etc/passwd' }),
      asks('fs/read_text_file', { path: join(folder, 'link', 'passwd') }),
      asks('fs/read_text_file', { path: join(folder, '..', '..', 'etc', 'passwd') }),
      asks('fs/write_text_file', { path: outside, content: 'x' }),
      asks('fs/write_text_file', { path: join(folder, 'link', 'handfast-was-here'), content: 'x' }),
      // The configuration of the server lies in the folder, and is protected from its restricted principals.
      asks('fs/read_text_file', { path: join(folder, 'handfast.yaml') }),
      asks('fs/write_text_file', { path: join(folder, 'handfast.yaml'), content: 'x' }),
      create('pwd', [], { cwd: '/etc' }),
      ...ofTerminal('wait_for_exit', 'output'),
      create('pwd', [], { cwd: join(folder, 'link') }),
      ...ofTerminal('wait_for_exit', 'output'),
      create('env', [], { env: [{ name: 'LD_PRELOAD', value: '/tmp/x.so' }] }),
      ...ofTerminal('wait_for_exit', 'output'),
    ];
  });
  mkdirSync(join(stand.folder, 'inside'));
  symlinkSync('/etc', join(stand.folder, 'link'));
  const before = readFileSync(join(stand.folder, 'handfast.yaml'), 'utf8');
  await run(t, stand, 'owner');
  for (const answer of stand.told('fs/read_text_file answered')) {
    assert.equal(answer.content, undefined);
    assert.equal(answer.data?.kind, 'tool_denied', JSON.stringify(answer));
  }
  for (const answer of stand.told('fs/write_text_file answered')) {
    assert.equal(answer.data?.kind, 'tool_denied', JSON.stringify(answer));
  }
  assert.equal(existsSync('/etc/handfast-was-here'), false);
  assert.equal(readFileSync(join(stand.folder, 'handfast.yaml'), 'utf8'), before);
  assert.deepEqual(
    stand.told('terminal/wait_for_exit answered').map(({ exitCode }) => exitCode),
    [126, 126, 126],
  );
  const outputs = stand.told('terminal/output answered').map(({ output }) => output);
  for (const output of outputs) assert.doesNotMatch(String(output), /^\/etc/m);
});

test('an agent is offered no more than the rights of the owner, and a method that is not offered does not exist', async (t) => {
  const stand = await scripted(
    t,
    { reader: `${CLIENT}, tools: { deny: [write_file, shell] }`, client: CLIENT },
    (folder) => [
      asks('fs/read_text_file', { path: join(folder, 'notes.txt') }),
      asks('fs/write_text_file', { path: join(folder, 'notes.txt'), content: 'x' }),
      create('touch', [join(folder, 'ran')]),
    ],
  );
  writeFileSync(join(stand.folder, 'notes.txt'), 'one\n');
  await run(t, stand, 'reader');
  const { fs, terminal } = lentBy(stand);
  assert.deepEqual([fs, terminal], [{ readTextFile: true, writeTextFile: false }, false]);
  assert.deepEqual(stand.told('fs/read_text_file answered'), [{ content: 'one\n' }]);
  const METHOD_NOT_FOUND = -32601;
  assert.equal(stand.told('fs/write_text_file answered')[0]?.code, METHOD_NOT_FOUND);
  assert.equal(stand.told('terminal/create answered')[0]?.code, METHOD_NOT_FOUND);
  assert.equal(readFileSync(join(stand.folder, 'notes.txt'), 'utf8'), 'one\n');
  assert.equal(existsSync(join(stand.folder, 'ran')), false);
});

test('what changes something waits for the user; a program that a rule denies, or the user, is not started', async (t) => {
  const rules = '[{ command: ["touch *"], then: deny, reason: "touch is not granted" }]';
  const steps = (folder: string): readonly AgentStep[] => [
    asks('fs/read_text_file', { path: join(folder, 'notes.txt') }),
    create('touch', ['denied-by-rule']),
    asks('fs/write_text_file', { path: join(folder, 'asked.txt'), content: 'x' }),
    create('mkdir', ['asked']),
  ];
  const refused = await scripted(t, { owner: SHELL }, steps, rules);
  writeFileSync(join(refused.folder, 'notes.txt'), 'one\n');
  const { asked } = await run(t, refused, 'owner', 'deny');
  assert.deepEqual(asked, [`write_file: ${join(refused.folder, 'asked.txt')}`, 'shell: mkdir asked']);
  for (const name of ['denied-by-rule', 'asked.txt', 'asked'])
    assert.equal(existsSync(join(refused.folder, name)), false);
  const answers = [...refused.told('terminal/create answered'), ...refused.told('fs/write_text_file answered')];
  assert.deepEqual(
    answers.map(({ data }) => data?.kind),
    ['tool_denied', 'tool_denied', 'tool_denied'],
  );

  const allowed = await scripted(t, { owner: SHELL }, steps, rules);
  writeFileSync(join(allowed.folder, 'notes.txt'), 'one\n');
  await run(t, allowed, 'owner', 'allow');
  assert.equal(existsSync(join(allowed.folder, 'denied-by-rule')), false);
  assert.equal(readFileSync(join(allowed.folder, 'asked.txt'), 'utf8'), 'x');
});

test('a program that still runs when the turn ends is ended with it', async (t) => {
  const stand = await scripted(t, { owner: SHELL }, (folder) => [
    create('sh', ['-c', 'touch started; exec sleep 600'], { cwd: join(folder, 'run') }),
    create('sh', ['-c', 'while ! test -e run/started; do sleep 0.05; done']),
    ...ofTerminal('wait_for_exit'),
  ]);
  const place = join(stand.folder, 'run');
  mkdirSync(place);
  await run(t, stand, 'owner');
  assert.ok(existsSync(join(place, 'started')));
  await eventually(() => !worksIn(place), 'the end of the program');
  // Only the agent itself is left.
  await stand.server.until('processes', ({ used }) => used === 1);
});

/** Returns true while a process works in a folder. */
const worksIn = (folder: string): boolean =>
  readdirSync('/proc').some((pid) => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`) === folder;
    } catch {
      return false;
    }
  });

test('a change the user allowed when the agent asked is made without a second question, another one is not', async (t) => {
  const edits = (folder: string): readonly AgentStep[] => {
    const path = join(folder, 'notes.txt');
    const diff = (oldText: string, newText: string): AgentStep => ({
      permission: {
        toolCall: {
          toolCallId: `edit ${newText}`,
          kind: 'edit',
          title: 'edit',
          content: [{ type: 'diff', path, oldText, newText }],
        },
        options: OPTIONS,
      },
    });
    const write = (content: string): AgentStep => asks('fs/write_text_file', { path, content });
    return [
      diff('two', '2'),
      write('one\n2\n'),
      write('one\n2\n'),
      diff('one\n2\n', 'all\n'),
      write('all\nand more\n'),
    ];
  };
  const stand = await scripted(t, { owner: CLIENT }, edits, '[]');
  const path = join(stand.folder, 'notes.txt');
  writeFileSync(path, 'one\ntwo\n');
  const { asked } = await run(t, stand, 'owner', 'allow');
  const write = `write_file: ${path}`;
  // The first write is the approved one; the second finds the approval used up, and the third exceeds the shown change.
  assert.deepEqual(asked, ['edit', write, 'edit', write]);
  const denied = await scripted(t, { owner: CLIENT }, edits, '[{ when: "tool.name == \\"write_file\\"", then: deny }]');
  writeFileSync(join(denied.folder, 'notes.txt'), 'one\ntwo\n');
  assert.deepEqual(
    (await run(t, denied, 'owner', 'allow')).asked,
    ['edit', 'edit'],
    'a rule that denies is not passed by',
  );
  assert.equal(readFileSync(join(denied.folder, 'notes.txt'), 'utf8'), 'one\ntwo\n');
});
