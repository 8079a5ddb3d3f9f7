/**
 * The control edge as a whole, for tests: everything `createControlServer` joins, on a separate data directory and working
 * directory, with a tool `bash` that really runs, and clients over links in memory.
 *
 * Tests of single parts have smaller stands.
 */
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { ValidatorCache } from '../../../src/capabilities/tools/arguments.ts';
import { toolsPlugin } from '../../../src/capabilities/tools/plugin.ts';
import { type AnyTool, tool } from '../../../src/capabilities/tools/tool.ts';
import { connect } from '../../../src/connect.ts';
import {
  type ControlServer,
  type ControlServerOptions,
  createControlServer,
} from '../../../src/control/control-server.ts';
import { createHost } from '../../../src/host/host.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import type { ModelServer } from '../../../src/testing/model-server.ts';
import type { Link, Message } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { within } from '../../contract/recorder.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

export interface ComposedOptions extends Partial<Omit<ControlServerOptions, 'env'>> {
  /** Added to an environment without any credential. */
  readonly env?: Readonly<Record<string, string>>;
  /** Tools beside `bash`. */
  readonly tools?: readonly AnyTool[];
  /** The model of every session: enabled, and selected before anything else happens unless clients need tokens. */
  readonly model?: ModelServer;
}

export interface Composed {
  readonly server: ControlServer;
  readonly home: string;
  readonly cwd: string;
  client(): Client;
  /** Opens a link to the server, for a client of another kind. */
  link(): Link;
  /** Ends the server and closes its journal. */
  stop(): Promise<void>;
}

/** Starts a server; it ends with the test, if not before. */
export async function composed(t: TestContext, options: ComposedOptions = {}): Promise<Composed> {
  const { env = {}, tools = [], model, ...rest } = options;
  const folder = temporaryFolder(t);
  const { home = join(folder, 'home'), cwd = join(folder, 'work') } = options;
  mkdirSync(cwd, { recursive: true });
  const journal = options.journal ?? memoryJournal({ retention: { maxEntries: 1e6, maxBytes: 1e9 } });
  const checkers = new ValidatorCache();
  const server = await createControlServer({
    openEnvironment: async (place) => {
      const host = createHost({
        plugins: [toolsPlugin({ tools: [bash, ...tools], compile: 'first-call' })],
        workspace: place.cwd,
        auth: { hasTokens: false, authenticate: () => place.principal },
      });
      await host.start();
      return { connect: () => connect(host, { capabilities: ['tools'] }), stop: () => host.close(0) };
    },
    checkContent: async (schema, content) => (await checkers.compile(schema, 'answer'))(content),
    // As `handfast rpc` has it: without a model a turn says so.
    backend: 'model',
    approvals: ALLOW_ALL,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    ...rest,
    home,
    cwd,
    journal,
    env: { HOME: folder, ...(model !== undefined && modelEnvironment(model)), ...env },
    settings: { keyring: null, wait: async () => {}, ...options.settings },
  });
  const stop = async (): Promise<void> => {
    await server.rpc.stop('test');
    await journal.close();
  };
  t.after(stop);
  const link = (): Link => {
    const [near, far] = memoryPair();
    server.rpc.accept(far);
    return near;
  };
  const client = (): Client => new Client(link());
  if (model !== undefined && options.auth === undefined) {
    const chooser = client();
    await chooser.call('model.select', SCRIPTED_MODEL);
    await chooser.close();
  }
  return { server, home, cwd, link, client, stop };
}

// biome-ignore lint/suspicious/noThenProperty: the key of the configuration
const ALLOW_ALL: ControlServerOptions['approvals'] = { rules: [{ when: 'true', then: 'allow' }] };

/** Parameters of `model.select` for the scripted model: one that thinks, with a large window. */
export const SCRIPTED_MODEL = { model_id: 'gpt-5.2', provider: 'openai', thinking_level: 'HIGH' };

/** Returns the environment that gives a server the scripted model. */
export function modelEnvironment(model: ModelServer): Readonly<Record<string, string>> {
  return { OPENAI_BASE_URL: model.baseUrl('responses'), OPENAI_API_KEY: 'sk-test' };
}

/** One event as it came. */
export interface SeenEvent {
  readonly type: string;
  readonly seq: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into payloads of every type
  readonly payload: any;
}

/** An answer that is an error, as it stands on the wire. */
export interface WireError {
  readonly code: number;
  readonly message: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A client that keeps everything it hears. */
export class Client {
  readonly link: Link;
  readonly events: SeenEvent[] = [];
  readonly #answers = new Map<number, (message: Message) => void>();
  readonly #closed = Promise.withResolvers<void>();
  #waiting: (() => void)[] = [];
  #lastId = 0;

  constructor(link: Link) {
    this.link = link;
    link.open({
      message: (message) => this.#take(message as Message),
      malformed: () => {},
      ended: () => void link.close(),
      closed: () => this.#closed.resolve(),
    });
  }

  // biome-ignore lint/suspicious/noExplicitAny: results of every method
  async call(method: string, params: object = {}): Promise<any> {
    const answer = await this.request(method, params);
    if (answer.error !== undefined) throw new Error(`${method}: ${JSON.stringify(answer.error)}`);
    return answer.result;
  }

  /** Returns the error that answers a call. */
  async refusal(method: string, params: object = {}): Promise<WireError> {
    const answer = await this.request(method, params);
    if (answer.error === undefined) throw new Error(`${method} went well: ${JSON.stringify(answer.result)}`);
    return answer.error as WireError;
  }

  request(method: string, params: object = {}): Promise<Message> {
    const id = ++this.#lastId;
    const { promise, resolve } = Promise.withResolvers<Message>();
    this.#answers.set(id, resolve);
    this.link.send({ jsonrpc: '2.0', id, method, params });
    return within(promise, `the answer of ${method}`);
  }

  /** Sends a prompt and waits for the one event that ends its turn. */
  async turn(session_id: string, text: string): Promise<SeenEvent> {
    const { turn_id } = await this.call('session.send', { session_id, text });
    return this.ended(turn_id);
  }

  ended(turnId: string): Promise<SeenEvent> {
    return this.event((event) => isTerminal(event) && event.payload.turn_id === turnId, `the end of ${turnId}`);
  }

  /** Returns the first event that fits, past or to come. */
  async event(fits: (event: SeenEvent) => boolean, what = 'an event'): Promise<SeenEvent> {
    for (;;) {
      const found = this.events.find(fits);
      if (found !== undefined) return found;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.push(resolve);
      await within(promise, what);
    }
  }

  /** Resolves when the server has ended the link. */
  get closed(): Promise<void> {
    return within(this.#closed.promise, 'the end of the link');
  }

  async close(): Promise<void> {
    await this.link.close();
  }

  #take(message: Message): void {
    // An object passed by reference is copied: callers cannot change it afterwards.
    const copy = JSON.parse(JSON.stringify(message)) as Message;
    if (copy.method === 'event') {
      const { type, payload, seq } = copy.params as SeenEvent;
      this.events.push({ type, payload, seq });
    } else {
      this.#answers.get(copy.id as number)?.(copy);
      this.#answers.delete(copy.id as number);
    }
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

export const isTerminal = ({ type }: Pick<SeenEvent, 'type'>): boolean =>
  ['session.completed', 'session.interrupted', 'session.error'].includes(type);

/** The vectors' tool: fails on a non-zero exit, stops when aborted. */
export const bash = tool({
  name: 'bash',
  description: 'Runs a command',
  input: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] },
  risks: ['exec'],
  async run({ command }: { command: string }, { signal, workspace }) {
    const child = spawn('/bin/sh', ['-c', command], {
      cwd: workspace,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    child.stderr.resume();
    // Its children too: a shell that is killed leaves its `sleep` behind.
    const kill = () => process.kill(-(child.pid as number), 'SIGKILL');
    signal.addEventListener('abort', kill, { once: true });
    const code = await new Promise((resolve) => child.once('close', resolve));
    signal.removeEventListener('abort', kill);
    signal.throwIfAborted();
    if (code !== 0) throw new Error(`exit code ${code}`);
    return { output };
  },
});
