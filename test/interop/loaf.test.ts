/**
 * The agent loaf, unchanged: its headless server (session RPC 1.0.0, the 29 methods) driven by `connectControl`, and its
 * terminal client in front of `handfast rpc`, with an approval in the turn.
 * `docs/interop.md` has the findings.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect } from '../../src/control-client/connect.ts';
import type { ControlClient } from '../../src/control-client/control.ts';
import { startModelServer } from '../../src/testing/model-server.ts';
import { asError } from '../../src/wire/errors.ts';
import { type Command, plainEnvironment, User } from '../cli/command.ts';
import { modelEnvironment, SCRIPTED_MODEL } from '../control/support/composed-control.ts';
import { PlainClient } from '../support/plain-client.ts';
import { type LoafPlace, loafPlace, skip, support } from './loaf.ts';

/** Returns a signal for turns that the test ends; one that hangs fails the test. */
const signal = (): AbortSignal => AbortSignal.timeout(60_000);

const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'done',
    (thrown) => asError(thrown).code,
  );

describe('connectControl against the server of loaf', { skip }, () => {
  let place: LoafPlace;
  let control: ControlClient;
  const reach = (): Promise<ControlClient> =>
    connect(`stdio:${place.command([support('loaf-provider.ts')], 'rpc').join(' ')}`, {
      cwd: place.home,
      env: place.env,
      connectTimeoutMs: 60_000,
    });
  before(async () => {
    place = loafPlace();
    control = await reach();
    await control.rpc.setOpenrouterKey({ api_key: 'none' });
    await control.rpc.modelSelect({ model_id: 'scripted/model', provider: 'openrouter', thinking_level: 'OFF' });
  });
  after(async () => {
    await control?.close();
    place?.[Symbol.dispose]();
  });

  test('it has the methods of 1.0.0 and no others', () => {
    const { server_name, protocol_version, methods } = control.server;
    assert.deepEqual([server_name, protocol_version, methods.length], ['loaf', '1.0.0', 29]);
  });

  test('a prompt is answered; its events come in order, each with the turn it belongs to', async () => {
    const session = await control.create({ title: 'ignored there' });
    const turn = await session.prompt('say "hello"', { signal: signal() });
    const events = await Array.fromAsync(turn);
    assert.deepEqual(
      events.filter(({ type }) => type !== 'session.context.estimate').map(({ type }) => type),
      [
        'session.status',
        'session.status',
        'session.message.appended',
        'session.status',
        'session.stream.chunk',
        'session.message.appended',
        'session.completed',
      ],
    );
    assert.ok(events.every((event) => event.type !== 'gap' && event.payload.turn_id === turn.turnId));
    const { stopReason, text } = await turn.result();
    assert.deepEqual([stopReason, text], ['end_turn', 'hello']);
    const said = await Array.fromAsync(session.messages());
    assert.deepEqual(
      said.map(({ kind, text: words }) => [kind, words]),
      [
        ['user', 'say "hello"'],
        ['assistant', 'hello'],
      ],
    );
  });

  test('its tools run, and their events have what was called and what came of it', async () => {
    const session = await control.create();
    const events = await Array.fromAsync(await session.prompt('run "echo loaf > made"', { signal: signal() }));
    const started = events.find((event) => event.type === 'session.tool.call.started');
    const done = events.find((event) => event.type === 'session.tool.call.completed');
    assert.deepEqual([started?.payload.data.call.name, done?.payload.data.executed.ok], ['bash', true]);
    assert.equal(readFileSync(join(place.home, 'made'), 'utf8'), 'loaf\n');
  });

  test('a turn is interrupted, a queued prompt follows it, and one that fails has its error', async () => {
    const session = await control.create();
    const first = await session.prompt('wait', { signal: signal() });
    const second = await session.prompt('say "next"', { signal: signal() });
    assert.equal(second.queued, true);
    assert.equal(await codeOf(session.prompt('say "no"', { enqueue: false })), 'session_busy');
    assert.equal((await session.queue()).length, 1);
    assert.equal(await session.interrupt('another turn'), false);
    assert.equal(await session.interrupt(first.turnId), true);
    // Its own server reports an interrupted request to the provider as a failure of the turn.
    assert.match((await first.result()).stopReason, /^(interrupted|error)$/);
    assert.equal((await second.result()).text, 'next');
    const failed = await (await session.prompt('fail', { signal: signal() })).result();
    assert.equal(failed.stopReason, 'error');
    assert.match(failed.error?.message ?? '', /out of luck/);
  });

  test('prompts that are dropped from its queue end, although it sends no event about them', async () => {
    const session = await control.create();
    const running = await session.prompt('wait', { signal: signal() });
    const dropped = await session.prompt('say "never"', { signal: signal() });
    assert.equal(await session.clearQueue(), 1);
    assert.equal((await dropped.result()).stopReason, 'cleared');
    const steered = await session.steer('say "steered"');
    assert.deepEqual([steered.outcome, steered.turn_id], ['injected', running.turnId]);
    await session.close();
    assert.ok((await running.result()).stopReason);
  });

  test('sessions are listed with the saved chats of earlier runs, and one of those is opened again', async () => {
    const earlier = await control.create();
    await (await earlier.prompt('say "to be found again"', { signal: signal() })).result();
    const { activeSessionId } = await earlier.state();
    await using next = await reach();
    const rows = await Array.fromAsync(next.sessions({ query: 'found again' }));
    assert.deepEqual(
      rows.map(({ session_id }) => session_id),
      [activeSessionId],
    );
    const session = await next.open(activeSessionId as string);
    const { messages } = await session.state();
    assert.deepEqual(
      messages.map(({ text }) => text),
      ['say "to be found again"', 'to be found again'],
    );
    const again = await Array.fromAsync(next.sessions());
    assert.equal(again.filter(({ session_id }) => session_id === activeSessionId).length, 0, 'it is listed once');
    assert.equal(await codeOf(next.open('00000000-0000-4000-8000-000000000000')), 'session_not_found');
  });

  test('what it does not have is refused with its name: settings of a session, forks', async () => {
    const session = await control.create();
    assert.equal(await codeOf(control.create({ approvals: 'deny' })), 'capability_missing');
    assert.equal(await codeOf(control.create({ cwd: '/' })), 'capability_missing');
    await assert.rejects(session.fork(), {
      code: 'unknown_type',
      message: 'the server "loaf" does not offer session.fork, an addition to session RPC 1.0.0',
    });
  });
});

describe('the command line in front of the server of loaf', { skip }, () => {
  test('a new session is sent a prompt; the answer is printed and the exit code is 0', async (t) => {
    const place = loafPlace();
    const user = new User();
    t.after(async () => {
      await user.leave();
      place[Symbol.dispose]();
    });
    const server = `stdio:${place.command([support('loaf-provider.ts')], 'rpc').join(' ')}`;
    const chosen = await connect(server, { cwd: place.home, env: place.env, connectTimeoutMs: 60_000 });
    await chosen.rpc.setOpenrouterKey({ api_key: 'none' });
    await chosen.rpc.modelSelect({ model_id: 'scripted/model', provider: 'openrouter', thinking_level: 'OFF' });
    await chosen.close();
    const words = ['session', 'send', 'new', 'say "hello"', '--connect', server];
    const { code, stdout, stderr } = await user.run(words, { env: place.env });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /hello/);
  });
});

describe('the terminal client of loaf in front of handfast rpc', { skip }, () => {
  test('shows that the turn waits for an approval, and continues when another terminal has answered', async (t) => {
    const place = loafPlace();
    const user = new User();
    const model = await startModelServer({ models: [SCRIPTED_MODEL.model_id] });
    t.after(async () => {
      await user.leave();
      await model[Symbol.asyncDispose]();
      place[Symbol.dispose]();
    });
    const env = plainEnvironment({
      HOME: user.folder,
      HANDFAST_HOME: user.home,
      HANDFAST_KEYRING: 'off',
      ...modelEnvironment(model),
    });
    const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
    const server = [process.execPath, '-C', 'handfast-source', main, 'rpc'];
    // Setup that its own first start demands.
    const first = new PlainClient(server[0] as string, server.slice(1), { cwd: user.cwd, env });
    await first.call('onboarding.complete');
    await first.call('model.select', SCRIPTED_MODEL);
    first.child.stdin.end();
    await once(first.child, 'close');

    model.play([
      { tool_calls: [{ id: 'c1', name: 'shell', input: { command: 'echo allowed > made' } }] },
      { text: 'It is done.' },
    ]);
    const screen = user.terminal(place.command([support('loaf-transport.ts')]), {
      ...env,
      ...place.env,
      COLUMNS: '120',
      LINES: '40',
      TERM: 'xterm-256color',
      RPC_SERVER: JSON.stringify(server),
    });
    await screen.says('attach image');
    // It draws before it listens: text typed into the gap is typed again.
    await typed(screen, 'please make the file');
    screen.child.stdin.write('\r');
    await screen.says('waiting for approval: shell: echo allowed > made (handfast approve yes|no ');
    const [approval] = await user.json(['approve', 'ls']);
    assert.equal((await user.run(['approve', 'yes', approval.id.slice(0, 8)])).code, 0);
    await screen.says('It is done.');
    assert.equal(readFileSync(join(user.cwd, 'made'), 'utf8'), 'allowed\n');
  });
});

/** Types until it is shown. */
async function typed(screen: Command, text: string): Promise<void> {
  for (let tries = 0; tries < 20 && !screen.stdout.includes(text); tries++) {
    screen.child.stdin.write(tries === 0 ? text : `\u0015${text}`);
    for (let waits = 0; waits < 20 && !screen.stdout.includes(text); waits++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  await screen.says(text);
}
