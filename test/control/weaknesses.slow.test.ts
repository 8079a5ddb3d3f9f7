/**
 * Known weaknesses of the reference server of session RPC 1.0.0, which this server does not have: every weakness has tests that
 * begin with its number, most of them beside the part that mends it. Those that only the server as a whole can show are here,
 * together with the list.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { ROLES } from '../../src/session/roles.ts';
import { type ModelServer, type ScriptedRound, startModelServer } from '../../src/testing/model-server.ts';
import { within } from '../contract/recorder.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { root } from '../rules/scan.ts';
import { type Client, composed, isTerminal, modelEnvironment, SCRIPTED_MODEL } from './support/composed-control.ts';
import { PROFILE, startLoginService } from './support/login-service.ts';

/** Weakness by number, as the wire reference lists them. */
const WEAKNESSES: Readonly<Record<number, string>> = {
  1: 'the handshake is optional, and the identity of the client gets lost',
  2: 'every failure looks the same to a program',
  3: 'an interrupt while the model is asked becomes an error without its prompt',
  4: 'some turns end without an event, none says why it ended',
  5: 'clearing a busy session lets two turns run in it',
  6: 'a steer that comes too late is lost',
  7: 'a failed turn loses its prompt and what was answered',
  8: 'saved chats cannot be paged',
  9: 'titles are ignored, chats renamed by every prompt',
  10: 'what tools did is kept nowhere',
  11: 'results of tools do not say which call they belong to',
  12: 'sessions cannot be listed, loaded, closed, deleted, forked or renamed',
  13: 'model, working directory and shell are shared by all sessions',
  14: 'a turn may run for ever',
  15: 'the choice of a model is changed before it is looked at, wrong words are replaced',
  16: 'every event goes to everybody',
  17: 'events have no numbers: nothing can be resumed, replayed or watched by a second client',
  18: 'nothing is bounded',
  19: 'streaming repeats itself',
  20: 'waiting for capacity is invisible',
  21: 'whole families of events are documented nowhere',
  22: 'requests cannot be cancelled',
  23: 'the end is no end',
  24: 'the server cannot ask its client anything',
  25: 'tools run without anybody being asked',
  26: 'every client may do everything',
  27: 'paths reach every file, and tell which exist',
  28: 'credentials may be read by others',
  29: 'anything that prints breaks the protocol',
  30: 'two servers on one data directory destroy it',
  31: 'events tell e-mail addresses and whole requests to everybody',
};

/** Returns the tests that name a weakness, by its number: `file › name`. */
function namedTests(): Map<number, string[]> {
  const found = new Map<number, string[]>();
  const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' });
  for (const file of files.filter((name) => name.endsWith('.test.ts')).sort()) {
    const text = readFileSync(join(root, 'test', file), 'utf8');
    for (const [, , name = ''] of text.matchAll(
      /\b(?:test|describe)\(\s*(['"`])((?:\$\{\w+\}: )?weakness \d+: .+?)\1,/g,
    )) {
      const number = Number(/weakness (\d+)/.exec(name)?.[1]);
      found.set(number, [...(found.get(number) ?? []), `${file} › ${name}`]);
    }
  }
  return found;
}

test('every weakness has a test that names it, and no test names another', () => {
  const named = namedTests();
  const missing = Object.entries(WEAKNESSES).filter(([number]) => !named.has(Number(number)));
  assert.deepEqual(missing, []);
  assert.deepEqual(
    [...named].filter(([number]) => WEAKNESSES[number] === undefined),
    [],
  );
});

/** Starts a model for one test. */
async function modelFor(t: TestContext, ...rounds: ScriptedRound[]): Promise<ModelServer> {
  const model = await startModelServer({
    models: [SCRIPTED_MODEL.model_id],
    otherwise: () => ({ text: 'fine' }),
  });
  t.after(() => model[Symbol.asyncDispose]());
  model.play(rounds);
  return model;
}

const calling = (name: string, input: object = {}, id = 'c1'): ScriptedRound => ({ tool_calls: [{ id, name, input }] });

async function sessionOf(client: Client, params: object = {}): Promise<string> {
  return (await client.call('session.create', params)).session_id;
}

/**
 * Returns numbers of the events of a session that a client was sent. Events of the server that are about it have separate
 * numbers.
 */
const numbersOf = (client: Client, session: string): number[] =>
  client.events
    .filter(({ type, payload }) => payload.session_id === session && type !== 'state.changed')
    .map(({ seq }) => seq);

const upTo = (last: number, first = 1): number[] => Array.from({ length: last - first + 1 }, (_, at) => first + at);

describe('events', () => {
  test('weakness 16: a client gets what it subscribes to, or all but what it can do without', async (t) => {
    const { client } = await composed(t, { model: await modelFor(t) });
    const [all, some, quiet] = [client(), client(), client()];
    const [mine, other] = [await sessionOf(all), await sessionOf(all)];
    await some.call('events.subscribe', { session_id: mine, types: ['session.completed', 'session.message.*'] });
    await quiet.call('rpc.handshake', { opt_out_events: ['session.s*', 'state.changed'] });
    some.events.length = 0;
    quiet.events.length = 0;
    await all.turn(other, 'hello');
    const { turn_id } = (await all.turn(mine, 'hello')).payload;
    await Promise.all([some.ended(turn_id), quiet.ended(turn_id)]);

    assert.deepEqual(
      some.events.map(({ type, payload }) => [type, payload.session_id === mine]),
      [
        ['session.message.appended', true],
        ['session.message.appended', true],
        ['session.completed', true],
      ],
    );
    assert.deepEqual(new Set(quiet.events.map(({ payload }) => payload.session_id)), new Set([mine, other]));
    const heard = new Set(quiet.events.map(({ type }) => type));
    assert.ok(heard.has('session.turn.started') && heard.has('session.completed'));
    assert.ok(!heard.has('session.status') && !heard.has('session.stream.chunk') && !heard.has('state.changed'));
    assert.ok(all.events.some(({ type, payload }) => type === 'session.status' && payload.session_id === other));
  });

  test('weakness 17: a lost client resumes its running turn, a second one watches it, and a restart forgets nothing', async (t) => {
    const gate = Promise.withResolvers<void>();
    const hold = tool({
      name: 'hold',
      description: 'Waits',
      risks: ['reads'],
      run: () => gate.promise.then(() => ({})),
    });
    const model = await modelFor(t, { text: 'first ', ...calling('hold') }, { text: 'then' });
    const file = join(temporaryFolder(t), 'sessions.journal.db');
    const journal = () => sqliteJournal({ file });
    const { client, home, cwd, stop } = await composed(t, { model, tools: [hold], journal: await journal() });
    const first = client();
    const session = await sessionOf(first);
    const { turn_id } = await first.call('session.send', { session_id: session, text: 'go' });
    await first.event(({ type }) => type === 'session.tool.call.started');
    first.link.destroy();
    const seen = numbersOf(first, session);

    const again = client();
    await again.call('events.subscribe', { session_id: session, after_seq: seen.at(-1) });
    const watching = client();
    await watching.call('events.subscribe', { session_id: session, after_seq: 0, role: 'observer' });
    gate.resolve();
    await Promise.all([again.ended(turn_id), watching.ended(turn_id)]);
    for (const one of [again, watching]) await one.event(({ payload }) => payload.status_label === 'ready');
    const all = numbersOf(watching, session);
    assert.deepEqual(all, upTo(all.length));
    assert.deepEqual([...seen, ...numbersOf(again, session)], all);
    assert.equal(watching.events.filter(isTerminal).length, 1);

    await stop();
    const { client: later } = await composed(t, { home, cwd, journal: await journal() });
    const after = later();
    await after.call('events.subscribe', { session_id: session, after_seq: 0 });
    await after.event(({ seq }) => seq === all.length);
    const content = (one: Client) => one.events.slice(0, all.length).map(({ type, payload }) => [type, payload]);
    assert.deepEqual(content(after), content(watching));
  });

  test('weakness 21: every type of event is in the reference page, and nothing else is ever sent', async (t) => {
    const page = readFileSync(join(root, 'docs/protocol/session-rpc.md'), 'utf8');
    const documented = new Set([...page.matchAll(/^\| `([a-z_]+(?:\.[a-z_]+)+)` \|/gm)].map(([, type]) => type));
    const source = readFileSync(join(root, 'src/protocol/session-events.schema.ts'), 'utf8');
    const defined = [...source.matchAll(/^ {2}'([a-z_.]+)': /gm)].map(([, type]) => type as string);
    assert.ok(defined.length > 30);
    assert.deepEqual(
      defined.filter((type) => !documented.has(type)),
      [],
    );

    const model = await modelFor(t, { thought: '**Looking**', ...calling('bash', { command: 'echo hi' }) });
    const { client } = await composed(t, { model });
    const one = client();
    await one.call('debug.set', { super_debug: true });
    const session = await sessionOf(one);
    for (const text of ['look', 'again', 'and again']) await one.turn(session, text);
    await one.call('command.execute', { session_id: session, raw_command: '/compress' });
    await one.call('session.rename', { session_id: session, title: 'looked' });
    const sent = new Set(one.events.map(({ type }) => type));
    for (const type of ['session.debug', 'session.context.estimate', 'compaction.started', 'compaction.completed']) {
      assert.ok(sent.has(type), type);
    }
    assert.deepEqual(
      [...sent].filter((type) => !defined.includes(type)),
      [],
    );
  });
});

describe('asking', () => {
  test('weakness 24: the server asks before a tool runs, any client answers, and a no is heard by the model', async (t) => {
    const model = await modelFor(
      t,
      calling('bash', { command: 'echo yes' }, 'c1'),
      { text: 'did it' },
      calling('bash', { command: 'echo no' }, 'c2'),
      { text: 'did not' },
    );
    const { client } = await composed(t, { model, approvals: {} });
    const [driver, approver] = [client(), client()];
    const session = await sessionOf(driver);
    for (const [decision, callId, state] of [
      ['allow', 'c1', 'allowed'],
      ['deny', 'c2', 'denied'],
    ] as const) {
      const { turn_id } = await driver.call('session.send', { session_id: session, text: decision });
      const { payload } = await approver.event(
        ({ type, payload: told }) => type === 'approval.requested' && told.approval.turn_id === turn_id,
      );
      const { id: approval_id, tool: asked } = payload.approval;
      assert.deepEqual([asked.name, asked.call_id], ['bash', callId]);
      assert.deepEqual(
        (await driver.call('approval.list')).approvals.map(({ id }: { id: string }) => id),
        [approval_id],
      );
      assert.equal((await approver.call('approval.answer', { approval_id, decision })).accepted, true);
      assert.equal((await driver.call('approval.answer', { approval_id, decision: 'deny' })).accepted, false);
      await driver.event(({ type, payload: told }) => type === 'approval.resolved' && told.approval.state === state);
      assert.equal((await driver.ended(turn_id)).type, 'session.completed');
    }
    const results = driver.events.filter(({ type }) => type === 'session.tool.call.completed');
    assert.deepEqual(
      results.map(({ payload }) => [payload.data.executed.callId, payload.data.executed.ok]),
      [
        ['c1', true],
        ['c2', false],
      ],
    );
  });

  test('weakness 24: the model asks the user and continues with the answer', async (t) => {
    const model = await modelFor(t, calling('ask_user', { question: 'Which one?', choices: ['left', 'right'] }), {
      text: 'left it is',
    });
    const { client } = await composed(t, { model });
    const one = client();
    const session = await sessionOf(one);
    const { turn_id } = await one.call('session.send', { session_id: session, text: 'choose' });
    const { payload } = await one.event(({ type }) => type === 'approval.requested');
    const { id: approval_id, kind, title } = payload.approval;
    assert.deepEqual([kind, title], ['question', 'Which one?']);
    const wrong = { approval_id, decision: 'allow', content: { answer: 'up' } };
    assert.equal((await one.refusal('approval.answer', wrong)).code, -32602);
    await one.call('approval.answer', { approval_id, decision: 'allow', content: { answer: 'left' } });
    assert.equal((await one.ended(turn_id)).type, 'session.completed');
    assert.match(JSON.stringify(model.requests.at(-1)?.body), /left/);
  });
});

describe('what must not get out', () => {
  test('weakness 29: what a package of the running server prints never comes between the messages', async (t) => {
    const model = await modelFor(t, { text: 'fine' });
    const folder = temporaryFolder(t);
    mkdirSync(join(folder, 'work'));
    // Everything that reaches for the network prints, as a careless package would.
    const careless =
      'const { fetch } = globalThis; globalThis.fetch = (...given) => {' +
      " console.log('stray log'); process.stdout.write('stray write\\n'); return fetch(...given); };";
    const child = spawn(
      process.execPath,
      ['--import', `data:text/javascript,${encodeURIComponent(careless)}`, join(root, 'src/cli/main.ts'), 'rpc'],
      {
        cwd: join(folder, 'work'),
        env: { PATH: process.env.PATH, HOME: folder, HANDFAST_KEYRING: 'off', ...modelEnvironment(model) },
      },
    );
    t.after(() => child.kill('SIGKILL'));
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    const lines: string[] = [];
    let partial = '';
    const send = (id: number, method: string, params: object): void =>
      void child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      const parts = (partial + text).split('\n');
      partial = parts.pop() as string;
      for (const line of parts) {
        lines.push(line);
        const { id, result, params } = JSON.parse(line);
        if (id === 1) send(2, 'session.create', {});
        if (id === 2) send(3, 'session.send', { session_id: result.session_id, text: 'hello' });
        if (params !== undefined && isTerminal(params)) child.stdin.end();
      }
    });
    send(1, 'model.select', SCRIPTED_MODEL);
    const [code] = await within(once(child, 'close'), 'the end of the process');
    assert.equal(code, 0);
    assert.ok(lines.every((line) => JSON.parse(line).jsonrpc === '2.0'));
    assert.equal(lines.filter((line) => line.includes('"session.completed"')).length, 1);
    assert.match(stderr, /^stray log$/m);
    assert.match(stderr, /^stray write$/m);
  });

  test('weakness 31: an account is sent to its owner alone, debug steps to clients that asked for them, keys to no client', async (t) => {
    const login = await startLoginService();
    t.after(() => login[Symbol.asyncDispose]());
    const model = await modelFor(t);
    const grant = (name: string, more: object = {}) => ({
      principal: { name, ...ROLES.client, ...more },
      digests: [tokenDigest(name)],
    });
    const auth = createAuthenticator([grant('ada', { admin: true }), grant('bob')]);
    const { client } = await composed(t, { auth, model, env: login.env });
    const [ada, bob, curious] = [client(), client(), client()];
    await ada.call('rpc.handshake', { token: 'ada' });
    await bob.call('rpc.handshake', { token: 'bob' });
    await curious.call('rpc.handshake', { token: 'bob' });
    await ada.call('model.select', SCRIPTED_MODEL);

    const connected = ada.call('auth.connect.antigravity');
    await login.browse((await ada.event(({ type }) => type === 'auth.flow.url')).payload.url);
    assert.equal((await connected).profile.email, PROFILE.email);
    assert.equal((await ada.call('state.get')).auth.antigravityProfile.email, PROFILE.email);
    assert.equal((await bob.call('state.get')).auth.antigravityProfile, null);
    await bob.event(({ payload }) => payload.reason === 'auth_antigravity_connected');

    await curious.call('debug.set', { super_debug: true });
    const session = await sessionOf(bob);
    const { payload } = await bob.turn(session, 'hello');
    await curious.ended(payload.turn_id);
    const debugged = curious.events.filter(({ type }) => type === 'session.debug');
    assert.ok(debugged.some((event) => event.payload.stage === 'request'));
    // Ada may see every session, and asked for no debug steps either.
    for (const one of [ada, bob]) assert.ok(!one.events.some(({ type }) => type === 'session.debug'));
    assert.equal(JSON.stringify(debugged).includes('sk-test'), false);
    const changes = [ada, bob].map(({ events }) => events.filter(({ type }) => type === 'state.changed'));
    assert.ok(changes.every(({ length }) => length > 0));
    assert.equal(JSON.stringify(changes).includes(PROFILE.email), false);
    assert.equal(JSON.stringify(bob.events).includes(PROFILE.email), false);
  });
});
