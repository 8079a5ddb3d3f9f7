/**
 * A user whose host has its journal in SQLite and is killed, stopped and restarted, on the same addresses. Its tools
 * return at once (`echo`, and `charge`, which sends an event before), or run until they are stopped (`acts`, and
 * `looks`, which is idempotent).
 */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { type Agent, connect } from '../../../src/index.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { type Command, User } from '../../cli/command.ts';
import { ownPort } from '../../support/own-port.ts';

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
  tool({ name: 'charge', description: 'Acts.', input, async run({ n }, { emit }) {
    await emit('status', { n });
    return { n };
  } }),
  waits('acts', false),
  waits('looks', true),
] });
`;
/** More than it takes until a volatile entry is in the file. */
export const WRITTEN_MS = 500;

export class StoredHost {
  readonly user = new User();
  readonly tcp: number;
  readonly http: number;

  constructor(tcp: number, http: number) {
    this.tcp = tcp;
    this.http = http;
    this.user.write('testing.mjs', PLUGIN);
    this.configure();
  }

  /**
   * Writes the configuration that the next start has.
   *
   * @param windowMs `limits.resume_window_ms`
   * @param journal further settings of `journal`, each behind a comma
   */
  configure(windowMs = 60_000, journal = ''): void {
    this.user.write(
      'handfast.yaml',
      `listen: ['http://127.0.0.1:${this.http}', 'tcp://127.0.0.1:${this.tcp}']
plugins: [./testing.mjs]
journal: { kind: sqlite${journal} }
limits: { resume_window_ms: ${windowMs} }
auth:
  tokens:
    - { name: ann, token: token-of-ann-in-this-test, tools: { allow: ['*'] } }
    - { name: bob, token: token-of-bob-in-this-test, tools: { allow: ['*'] } }
`,
    );
  }

  /** Starts the host. @param clockMs time by which its wall clock is ahead; negative: behind */
  async up(clockMs = 0): Promise<Command> {
    const node = clockMs === 0 ? [] : ['--import', clockAhead(clockMs)];
    const command = this.user.start(['up', '--json', '--config', 'handfast.yaml'], { node });
    await command.says('\n');
    return command;
  }

  async kill(host: Command): Promise<void> {
    host.child.kill('SIGKILL');
    await host.ended();
  }

  /** Returns the journal's entries of a session, as its owner reads them: each as its text. */
  async tail(session: string): Promise<string[]> {
    const env = { HANDFAST_TOKEN: 'token-of-ann-in-this-test' };
    return (await this.user.run(['tail', session, '--json'], { env })).stdout.trimEnd().split('\n');
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

  /** Returns the reply to the handshake of a principal that names a session; the link is closed again. */
  async resume(id: string, name: 'ann' | 'bob' = 'ann') {
    const socket = new WebSocket(this.addresses().webSocket as string);
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

  /** Creates a session with one call, whose agent was cut off with its host; returns its id. */
  async leftBehind(): Promise<string> {
    const host = await this.up();
    const agent = await this.agent(this.addresses().tcp as string);
    await agent.tools.call<{ n: number }>('echo', { n: 1 });
    await delay(WRITTEN_MS);
    await this.kill(host);
    const id = agent.sessionId;
    await agent.close();
    return id;
  }
}

/** Returns a module that sets the clock of a process: only the time of day that it reads. */
const clockAhead = (ms: number): string =>
  `data:text/javascript,${encodeURIComponent(`
    const RealDate = Date;
    globalThis.Date = class Date extends RealDate {
      static now() { return RealDate.now() + ${ms}; }
      constructor(...given) { given.length === 0 ? super(Date.now()) : super(...given); }
    };
  `)}`;

/** Returns a user for one test, without any started process. */
export async function storedHost(t: { after(close: () => unknown): void }): Promise<StoredHost> {
  const made = new StoredHost(await ownPort(), await ownPort());
  t.after(() => made.user.leave());
  return made;
}

export const failureOf = (call: Promise<unknown>): Promise<HandfastError> =>
  call.then(
    () => assert.fail('the call did not fail'),
    (error) => error as HandfastError,
  );

export async function until(done: () => boolean, what: string): Promise<void> {
  for (const late = performance.now() + 60_000; !done(); await delay(5)) {
    assert.ok(performance.now() < late, `waited too long until ${what}`);
  }
}
