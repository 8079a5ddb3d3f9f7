/**
 * Sessions that outlive their host: `handfast up` with a journal on disk is killed or stopped, started again, and a real agent
 * resumes over every transport. What is stored arrives once, what was lost is one gap, what ran says so.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Agent, type CallEvent, connect } from '../../src/index.ts';
import { serve } from '../../src/serve.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { User } from '../cli/command.ts';
import { ownPort } from '../support/own-port.ts';

const PLUGIN = `
import { setTimeout as pause } from 'node:timers/promises';
import { tool, toolsPlugin } from 'handfast';
const input = { type: 'object', properties: { n: { type: 'integer' } } };
const waits = (name, idempotent) => tool({ name, description: 'Runs until it is stopped.', input, idempotent,
  async run({ n }, { emit, signal }) {
    await emit('status', { n });
    await pause(600_000, undefined, { signal });
  } });
export const plugin = toolsPlugin({ name: 'testing', tools: [
  tool({ name: 'echo', description: 'Gives its number back.', input, run: (args) => args }),
  waits('acts', false),
  waits('looks', true),
] });
`;
/** More than it takes until a volatile entry is in the file. */
const WRITTEN_MS = 500;

class Place {
  readonly user = new User();
  readonly tcp: number;
  readonly http: number;

  constructor(tcp: number, http: number) {
    this.tcp = tcp;
    this.http = http;
    this.user.write('testing.mjs', PLUGIN);
    this.configure();
  }

  /** @param window `limits.resume_window_ms` */
  configure(window = 60_000, more = ''): void {
    this.user.write(
      'handfast.yaml',
      `listen: ['http://127.0.0.1:${this.http}', 'tcp://127.0.0.1:${this.tcp}']
plugins: [./testing.mjs]
journal: { kind: sqlite${more} }
limits: { resume_window_ms: ${window} }
auth:
  tokens:
    - { name: ann, token: token-of-ann-in-this-test, tools: { allow: ['*'] } }
    - { name: bob, token: token-of-bob-in-this-test, tools: { allow: ['*'] } }
`,
    );
  }

  async up() {
    const command = this.user.start(['up', '--json', '--config', 'handfast.yaml']);
    await command.says('\n');
    return command;
  }

  addresses(): Readonly<Record<string, string>> {
    return {
      tcp: `tcp://127.0.0.1:${this.tcp}`,
      http: `http://127.0.0.1:${this.http}`,
      webSocket: `ws://127.0.0.1:${this.http}/ws`,
    };
  }

  agent(address: string, states: string[] = []): Promise<Agent<'tools'>> {
    return connect(address, {
      capabilities: ['tools'],
      token: 'token-of-ann-in-this-test',
      timeoutMs: 0,
      onState: ({ state }) => void states.push(state),
    });
  }
}

async function place(t: { after(close: () => unknown): void }): Promise<Place> {
  const made = new Place(await ownPort(), await ownPort());
  t.after(() => made.user.leave());
  return made;
}

const failureOf = (call: Promise<unknown>): Promise<HandfastError> =>
  call.then(
    () => assert.fail('the call did not fail'),
    (error) => error as HandfastError,
  );

async function until(done: () => boolean, what: string): Promise<void> {
  for (const late = performance.now() + 60_000; !done(); await delay(5)) {
    assert.ok(performance.now() < late, `waited too long until ${what}`);
  }
}

describe('a session outlives its host', () => {
  for (const transport of ['tcp', 'http', 'webSocket']) {
    test(`that was killed, over ${transport}: calls end with what is known of them, and the session continues`, async (t) => {
      const here = await place(t);
      const host = await here.up();
      const states: string[] = [];
      await using agent = await here.agent(here.addresses()[transport] as string, states);
      const id = agent.sessionId;
      const seen: CallEvent[] = [];
      const onEvent = (event: CallEvent): void => void seen.push(event);
      assert.equal((await agent.tools.call<{ n: number }>('echo', { n: 1 })).data?.n, 1);
      const acts = failureOf(agent.tools.call('acts', { n: 2 }, { onEvent }));
      const looks = failureOf(agent.tools.call('looks', { n: 3 }, { onEvent }));
      await until(() => seen.length === 2, 'both run');
      await delay(WRITTEN_MS);
      host.child.kill('SIGKILL');
      await host.ended();
      // Made while the host is known to be away: it waits. One that was already on its way may have run.
      await until(() => states.includes('lost'), 'the loss is noticed');
      const later = agent.tools.call<{ n: number }>('echo', { n: 4 });
      await here.up();
      const [acted, looked] = [await acts, await looks];
      assert.deepEqual(
        [acted.code, acted.retryable, acted.detail.may_have_run],
        ['interrupted', false, true],
        acted.message,
      );
      assert.deepEqual([looked.code, looked.retryable, looked.detail.may_have_run], ['interrupted', true, undefined]);
      assert.equal((await later).data?.n, 4);
      assert.equal(agent.sessionId, id);
      assert.deepEqual(
        states.filter((state) => state === 'resumed'),
        ['resumed'],
      );
      assert.equal(seen.length, 2, 'no event came twice');
      assert.equal((await agent.tools.call<{ n: number }>('echo', { n: 5 })).data?.n, 5);
    });
  }

  test('what had not been written is one gap, and its calls may have run', async (t) => {
    const here = await place(t);
    const host = await here.up();
    const gaps: { from: number; to: number }[] = [];
    await using agent = await connect(here.addresses().tcp as string, {
      capabilities: ['tools'],
      token: 'token-of-ann-in-this-test',
      onGap: (gap) => void gaps.push(gap),
    });
    await agent.tools.call<{ n: number }>('echo', { n: 1 });
    await delay(WRITTEN_MS);
    const id = agent.sessionId;
    const running = Array.from({ length: 3 }, (_, n) => agent.tools.call('acts', { n }));
    const failures = Promise.all(running.map(failureOf));
    await agent.ping();
    host.child.kill('SIGKILL');
    await host.ended();
    await here.up();
    for (const error of await failures) {
      // Whether the last entries were written in time is a matter of milliseconds; what may be repeated is not.
      assert.ok(['interrupted', 'reply_lost'].includes(error.code), error.code);
      assert.deepEqual([error.retryable, error.detail.may_have_run], [false, true]);
    }
    assert.equal(agent.sessionId, id);
    assert.equal(gaps.length, 1);
    assert.equal((await agent.tools.call<{ n: number }>('echo', { n: 2 })).data?.n, 2);
    assert.equal(gaps.length, 1);
  });

  test('that stopped in order, and again: nothing is lost, and there is no gap', async (t) => {
    const here = await place(t);
    let host = await here.up();
    const gaps: unknown[] = [];
    await using agent = await connect(here.addresses().http as string, {
      capabilities: ['tools'],
      token: 'token-of-ann-in-this-test',
      onGap: (gap) => void gaps.push(gap),
    });
    const id = agent.sessionId;
    for (let n = 0; n < 2; n++) {
      await agent.tools.call<{ n: number }>('echo', { n });
      host.child.kill('SIGTERM');
      assert.equal((await host.ended()).code, 0);
      host = await here.up();
      assert.equal((await agent.tools.call<{ n: number }>('echo', { n: 9 })).data?.n, 9);
      assert.equal(agent.sessionId, id);
    }
    assert.deepEqual(gaps, []);
  });
});

test('with durable: replies a host killed at once has every reply that left it', async (t) => {
  const here = await place(t);
  here.configure(60_000, ', durable: replies');
  const host = await here.up();
  const agent = await here.agent(here.addresses().tcp as string);
  const id = agent.sessionId;
  await Promise.all(Array.from({ length: 20 }, (_, n) => agent.tools.call('echo', { n })));
  host.child.kill('SIGKILL');
  await host.ended();
  await agent.close();
  await here.up();
  const env = { HANDFAST_TOKEN: 'token-of-ann-in-this-test' };
  const { stdout } = await here.user.run(['tail', id, '--json'], { env });
  const kinds = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).kind);
  assert.equal(kinds.filter((kind) => kind === 'reply').length, 20);
});

describe('a stored session', () => {
  /** A session with one call, whose agent was cut off with its host. */
  async function leftBehind(here: Place): Promise<string> {
    const host = await here.up();
    const agent = await here.agent(here.addresses().tcp as string);
    await agent.tools.call<{ n: number }>('echo', { n: 1 });
    await delay(WRITTEN_MS);
    host.child.kill('SIGKILL');
    await host.ended();
    const id = agent.sessionId;
    await agent.close();
    return id;
  }

  /** The handshake of a principal that names a session. */
  async function resume(here: Place, id: string, name: string) {
    const socket = new WebSocket(here.addresses().webSocket as string);
    await new Promise((resolve) => socket.addEventListener('open', resolve));
    const extensions = { 'handfast/resume': { session_id: id, cursor: 0 } };
    socket.send(
      JSON.stringify({
        type: 'handshake/req',
        id: '1',
        agent_caps: ['tools'],
        auth_token: `token-of-${name}-in-this-test`,
        extensions,
      }),
    );
    const { data } = await new Promise<MessageEvent>((done) => socket.addEventListener('message', done));
    socket.close();
    return JSON.parse(String(data).split('\n')[0] as string);
  }

  test('is resumed by its own principal alone', async (t) => {
    const here = await place(t);
    const id = await leftBehind(here);
    await here.up();
    const stranger = await resume(here, id, 'bob');
    assert.notEqual(stranger.session_id, id);
    assert.equal(stranger.extensions['handfast/resume'].resumed, undefined);
    const owner = await resume(here, id, 'ann');
    assert.equal(owner.session_id, id);
    const { resumed, restarts, running } = owner.extensions['handfast/resume'];
    assert.deepEqual({ resumed, restarts, running }, { resumed: true, restarts: 1, running: [] });
  });

  test('ends with its window, over any number of restarts, and is not taken up again', async (t) => {
    const here = await place(t);
    const id = await leftBehind(here);
    here.configure(3_000);
    const host = await here.up();
    await delay(WRITTEN_MS);
    host.child.kill('SIGKILL');
    await host.ended();
    // The window began when the first of these hosts was there.
    await delay(3_000);
    await here.up();
    assert.notEqual((await resume(here, id, 'ann')).session_id, id);
    const env = { HANDFAST_TOKEN: 'token-of-ann-in-this-test' };
    assert.match((await here.user.run(['tail', id], { env })).stdout, /#2 reply/);
  });

  test('is taken up by serve() as well', async (t) => {
    const here = await place(t);
    const id = await leftBehind(here);
    const home = process.env.HANDFAST_HOME;
    process.env.HANDFAST_HOME = here.user.home;
    t.after(() => {
      if (home === undefined) delete process.env.HANDFAST_HOME;
      else process.env.HANDFAST_HOME = home;
    });
    const server = await serve(`${here.user.cwd}/handfast.yaml`, { announce: false });
    try {
      assert.equal((await resume(here, id, 'ann')).session_id, id);
    } finally {
      await server.close(0);
    }
  });
});
