/**
 * The kill table of docs/mcp.md: the host, the server and the agent are killed at every step of the story of an MCP server.
 * Requests settle with the right code, no process stays, health describes the loss, the server is restarted, and no tool is
 * called a second time.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect } from '../../../src/connect.ts';
import { McpAuthorization } from '../../../src/mcp/authorization.ts';
import { signIn } from '../../../src/mcp/sign-in.ts';
import { SignInFile } from '../../../src/mcp/sign-in-file.ts';
import { type Command, User } from '../../cli/command.ts';
import { type Step, tell } from '../../support/mcp-story.ts';
import { ownPort } from '../../support/own-port.ts';
import { type Service, signInService, visit } from '../../support/sign-in-service.ts';
import { errorOf, isAlive, PATIENCE_MS, until } from './support.ts';

const program = fileURLToPath(new URL('../../support/mcp-steps.mjs', import.meta.url));
const storyFile = fileURLToPath(new URL('../../support/mcp-story.ts', import.meta.url));

type Killed = 'server' | 'agent' | 'host';
type Transport = 'stdio' | 'http';

/** The ends of requests when the server, and when the host is killed. A killed agent makes no more requests. */
const ENDS: Readonly<Record<Step, Readonly<Record<'server' | 'host', string>>>> = {
  register: { server: 'mcp_server_unavailable retryable', host: 'connection_lost may_have_run' },
  starting: { server: 'mcp_server_unavailable retryable', host: 'connection_lost may_have_run' },
  listing: { server: 'mcp_server_unavailable retryable', host: 'connection_lost may_have_run' },
  call: { server: 'mcp_transport_error may_have_run', host: 'connection_lost may_have_run' },
  safe: { server: 'mcp_transport_error may_have_run retryable', host: 'connection_lost may_have_run' },
  sampling: { server: 'mcp_transport_error may_have_run', host: 'connection_lost may_have_run' },
  elicitation: { server: 'mcp_transport_error may_have_run', host: 'connection_lost may_have_run' },
  subscribed: { server: 'ok', host: 'ok' },
  renewal: { server: 'mcp_server_unavailable retryable', host: 'connection_lost may_have_run' },
  unregister: { server: 'ok', host: 'connection_lost may_have_run' },
};

/** Over HTTP a server is registered as one on stdio is; only HTTP has a sign-in. */
const STEPS: Readonly<Record<Transport, readonly Step[]>> = {
  stdio: ['register', 'starting', 'listing', 'call', 'safe', 'sampling', 'elicitation', 'subscribed', 'unregister'],
  http: ['starting', 'listing', 'call', 'safe', 'sampling', 'elicitation', 'subscribed', 'renewal'],
};

/** The request that the server never replies to. */
const STALLS: Partial<Record<Step, string>> = {
  register: 'initialize',
  starting: 'initialize',
  listing: 'list',
  call: 'call-once',
  safe: 'call-safe',
};

/** A host with the server, in separate processes. */
class Scene {
  readonly user = new User();
  readonly step: Step;
  readonly transport: Transport;
  readonly reports: string[] = [];
  readonly #log: string;
  #host: Command | undefined;
  #port = 0;
  #web: ChildProcess | undefined;
  #service: Service | undefined;
  #isRenewing = false;
  url = '';
  token = '';

  constructor(step: Step, transport: Transport) {
    this.step = step;
    this.transport = transport;
    this.#log = this.user.write('steps', '');
  }

  get #isOwn(): boolean {
    return this.step === 'register' || this.step === 'unregister';
  }

  get #env(): Record<string, string> {
    const stall = STALLS[this.step];
    return { STEPS: this.#log, ...(stall && { STALL: stall }), ...(this.step === 'unregister' && { SLOW_END: '1' }) };
  }

  /** If a start never gets a reply, the next one must not wait long for it; elsewhere a busy machine may take longer. */
  get #startTimeoutS(): number {
    return this.step === 'starting' || this.step === 'listing' ? 10 : 60;
  }

  /** The configuration that the agent registers. */
  get config(): { server_id: string; cmd: string[]; env: Record<string, string> } {
    return { server_id: 'mine', cmd: [process.execPath, program], env: this.#env };
  }

  get server(): string {
    return this.step === 'renewal' ? 'guarded' : 'steps';
  }

  async start(t: TestContext): Promise<void> {
    t.after(() => this.leave());
    if (this.step === 'renewal') await this.#signIn(t);
    else if (this.transport === 'http') await this.startWeb();
    const stdio = { command: process.execPath, args: [program], env: this.#env };
    const address = this.transport === 'stdio' ? stdio : { url: `http://127.0.0.1:${this.#port}/mcp` };
    const settings =
      this.#service === undefined
        ? { name: 'steps', ...address, start_timeout_s: this.#startTimeoutS, may_ask: ['sampling', 'elicitation'] }
        : { name: 'guarded', url: this.#service.url };
    const options = { servers: [settings], register: [`${process.execPath} ${program}`] };
    this.user.write(
      'handfast.yaml',
      `plugins: ${JSON.stringify(['tools', { use: 'mcp', options }])}\nlimits: { resume_window_ms: 300 }\n`,
    );
    await this.up();
  }

  async up(): Promise<void> {
    const { command, ready } = await this.user.up(['--config', 'handfast.yaml']);
    this.#host = command;
    // A killed agent is noticed at once.
    this.url = `${ready.url.replace('http', 'ws')}/ws`;
    this.token = readFileSync(ready.token_file as string, 'utf8').trim();
  }

  /** Starts the server over HTTP, always on one port. */
  async startWeb(): Promise<void> {
    if (this.#port === 0) this.#port = await ownPort();
    const env = { ...process.env, ...this.#env, PORT: String(this.#port) };
    const before = this.count('started');
    this.#web = spawn(process.execPath, [program], { env, stdio: ['ignore', 'ignore', 'inherit'] });
    await until(() => this.count('started') > before, 'the server');
  }

  async #signIn(t: TestContext): Promise<void> {
    const service = await signInService(t, {
      beforeTokens: async (grant) => {
        if (grant !== 'refresh_token') return;
        this.#isRenewing = true;
        // Longer than the test.
        await new Promise((resolve) => setTimeout(resolve, PATIENCE_MS).unref());
      },
    });
    this.#service = service;
    const { url } = service;
    const authorization = new McpAuthorization({ name: 'guarded', url, file: this.#file });
    const probe = { signal: AbortSignal.timeout(PATIENCE_MS), show: (address: string) => void visit(address) };
    await signIn(authorization, probe);
    service.expire();
  }

  get #file(): SignInFile {
    return new SignInFile(join(this.user.home, 'mcp'), 'guarded', this.#service?.url ?? '');
  }

  async agent() {
    const { token } = this;
    return connect(this.url, { capabilities: ['mcp', 'tools'], token, timeoutMs: 0, reconnect: { maxMs: 300 } });
  }

  /** Returns the process ids of a step, in order. */
  pids(step: string): number[] {
    const lines = readFileSync(this.#log, 'utf8').split('\n');
    return lines.flatMap((line) => (line.endsWith(` ${step}`) ? [Number(line.split(' ')[0])] : []));
  }

  count(step: string): number {
    return this.pids(step).length;
  }

  /** Resolves when the story has reached its step. */
  async arrived(): Promise<void> {
    const { step, reports } = this;
    const isThere: Record<Step, () => boolean> = {
      register: () => this.count('initialize') === 1,
      starting: () => this.count('initialize') === 1,
      listing: () => this.count('list') === 1,
      call: () => reports.includes('progress'),
      safe: () => reports.includes('progress'),
      sampling: () => reports.includes('asked'),
      elicitation: () => reports.includes('asked'),
      subscribed: () => reports.includes('subscribed'),
      renewal: () => this.#isRenewing,
      unregister: () => this.count('ending') === 1,
    };
    await until(isThere[step], `the step ${step}`);
  }

  killServer(): void {
    if (this.#service !== undefined) this.#service.close();
    else if (this.transport === 'http') this.#web?.kill('SIGKILL');
    else process.kill(this.pids('started').at(-1) as number, 'SIGKILL');
  }

  async killHost(): Promise<void> {
    this.#host?.child.kill('SIGKILL');
    await this.#host?.ended();
  }

  /** Checks that no program of a server on stdio runs, nor any that it started. */
  async isClean(): Promise<void> {
    if (this.transport === 'http') return;
    await until(() => ![...this.pids('started'), ...this.pids('child')].some(isAlive), 'the end of all programs');
  }

  /** Checks the server afterwards: it is used again, and only this use is another call. */
  async isUsable(killed: Killed): Promise<void> {
    const agent = await this.agent();
    try {
      if (this.#service !== undefined) return await this.#signInRemains();
      const calls = this.count('call-once');
      let isDone = false;
      await until(async () => {
        isDone ||= await agent.mcp.call(this.server, 'once').then(
          () => true,
          (error) => {
            assert.match(
              String(error.code),
              /^(?:mcp_server_unavailable|timeout)$/,
              'what could not be called says so',
            );
            return false;
          },
        );
        return isDone;
      }, 'a call');
      assert.equal(this.count('call-once'), calls + 1, `${killed}: called once, after ${calls}`);
      assert.ok(calls <= (this.step === 'call' ? 1 : 0), 'nothing was called twice');
      const info = (await agent.mcp.servers()).find(({ server_id }) => server_id === this.server);
      assert.equal(info?.health, 'ready');
    } finally {
      await agent.close();
    }
  }

  async #signInRemains(): Promise<void> {
    const { tokens } = await this.#file.read();
    assert.ok(tokens?.refresh_token, 'the sign-in remains');
  }

  async leave(): Promise<void> {
    this.#web?.kill('SIGKILL');
    await this.user.leave();
  }

  async stop(): Promise<void> {
    this.#host?.child.kill('SIGTERM');
    await this.#host?.ended();
  }

  /** Checks that health reports the loss of the server and its reason. */
  async isReported(): Promise<void> {
    if (this.#isOwn) return;
    const agent = await this.agent();
    try {
      await until(async () => {
        const info = (await agent.mcp.servers()).find(({ server_id }) => server_id === this.server);
        // A server with a subscription restarts by itself.
        if (this.step === 'subscribed') return (info?.failures ?? 0) > 0 || info?.health === 'ready';
        return info?.health === 'failed' && info.failures === 1 && info.error !== '';
      }, 'health');
    } finally {
      await agent.close();
    }
  }
}

async function withServerKilled(scene: Scene): Promise<void> {
  const agent = await scene.agent();
  const told = tell(agent, scene.step, scene.server, scene.config, (what) => void scene.reports.push(what));
  await scene.arrived();
  scene.killServer();
  await told;
  assert.equal(scene.reports.at(-1), ENDS[scene.step].server);
  if (scene.step === 'sampling' || scene.step === 'elicitation') await until(() => scene.reports.includes('withdrawn'));
  await scene.isReported();
  if (scene.transport === 'http' && scene.step !== 'renewal') await scene.startWeb();
  // It restarts by itself, and is subscribed to again.
  if (scene.step === 'subscribed') await until(() => scene.count('subscribe') === 2);
  await agent.close();
}

async function withAgentKilled(scene: Scene): Promise<void> {
  const { step, server, config } = scene;
  const words = ['-C', 'handfast-source', storyFile, scene.url, step, server, JSON.stringify(config), scene.token];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout.setEncoding('utf8').on('data', (text: string) => void scene.reports.push(...text.trim().split('\n')));
  await scene.arrived();
  child.kill('SIGKILL');
  await once(child, 'exit');
  if (['call', 'safe', 'sampling', 'elicitation'].includes(step)) await until(() => scene.count('cancelled') === 1);
  if (step === 'subscribed') await until(() => scene.count('unsubscribe') === 1);
  if (step === 'register' || step === 'unregister') await scene.isClean();
}

async function withHostKilled(scene: Scene): Promise<void> {
  const agent = await scene.agent();
  const told = tell(agent, scene.step, scene.server, scene.config, (what) => void scene.reports.push(what));
  await scene.arrived();
  await scene.killHost();
  await told;
  assert.equal(scene.reports.at(-1), ENDS[scene.step].host);
  assert.equal((await errorOf(agent.mcp.servers())).code, 'connection_lost');
  await scene.isClean();
  await agent.close();
  await scene.up();
}

const KILLS = { server: withServerKilled, agent: withAgentKilled, host: withHostKilled } as const;

for (const transport of ['stdio', 'http'] as const) {
  for (const killed of ['server', 'agent', 'host'] as const) {
    test(`${killed} killed at each step, the server on ${transport}`, { concurrency: 2 }, async (t) => {
      const cases = STEPS[transport].map((step) =>
        t.test(step, async (each) => {
          const scene = new Scene(step, transport);
          await scene.start(each);
          await KILLS[killed](scene);
          await scene.isUsable(killed);
          await scene.stop();
          await scene.isClean();
        }),
      );
      await Promise.all(cases);
    });
  }
}
