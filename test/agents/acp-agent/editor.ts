/**
 * An editor for tests: the official SDK's client side, in front of a server in this process or over the pipes of a real
 * `handfast acp`. It records received updates and requests, and replies as the test scripts.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import type { TestContext } from 'node:test';
import {
  type ClientCapabilities,
  type ClientConnection,
  type ClientContext,
  type ContentBlock,
  type CreateElicitationRequest,
  type CreateElicitationResponse,
  client,
  ndJsonStream,
  type PromptResponse,
  RequestError,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionUpdate,
  type Stream,
} from '@agentclientprotocol/sdk';
import { linkStream } from '../../../src/acp/link-stream.ts';
import { silentLog } from '../../../src/base/log.ts';
import { serveAcp } from '../../../src/bridge/acp-agent.ts';
import type { ControlServer } from '../../../src/control/control-server.ts';
import { connect as connectControl } from '../../../src/control-client/connect.ts';
import type { ControlClient } from '../../../src/control-client/control.ts';
import { assembleControl } from '../../../src/server/control/control-assembly.ts';
import { defaultConfig } from '../../../src/server/default-config.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { plainEnvironment } from '../../cli/command.ts';

const main = join(import.meta.dirname, '..', '..', '..', 'src', 'cli', 'main.ts');

/** Longest any wait of these tests takes. */
const WAIT_MS = 60_000;

/** A home folder, and a project folder with `notes.txt` of two lines. */
export interface Desktop {
  readonly home: string;
  readonly project: string;
}

/** Makes the folders, which are removed after the test. */
export function desktop(t: TestContext): Desktop {
  const top = realpathSync(mkdtempSync(join(tmpdir(), 'handfast-editor-')));
  t.after(() => rmSync(top, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  const home = join(top, 'home');
  const project = join(top, 'project');
  mkdirSync(home);
  mkdirSync(project);
  writeFileSync(join(project, 'notes.txt'), 'one\ntwo\n');
  return { home, project };
}

type Permit = (request: RequestPermissionRequest) => RequestPermissionResponse | Promise<RequestPermissionResponse>;

/** The replies of an editor to requests. */
export interface EditorAnswers {
  /** Default: it waits for ever. */
  readonly permission?: Permit;
  /** Fills in a form; undefined = the editor has no forms. */
  readonly form?: (request: CreateElicitationRequest) => CreateElicitationResponse | Promise<CreateElicitationResponse>;
  readonly capabilities?: ClientCapabilities;
  /** Its buffers by absolute path; undefined = it lends no files. */
  readonly buffers?: Map<string, string>;
  /** Serves the requests for files and terminals instead, by method; a promise that never settles is silence. */
  readonly serve?: Readonly<Record<string, (params: Record<string, unknown>) => unknown>>;
}

/** Returns the reply that takes an option. */
export const choose = (optionId: string): RequestPermissionResponse => ({ outcome: { outcome: 'selected', optionId } });

/** Returns terminals as an editor has them: programs whose output it collects. Ends with the test. */
export function terminals(t: TestContext) {
  interface Terminal {
    readonly child: ChildProcess;
    readonly exit: Promise<{ exitCode: number | null; signal: string | null }>;
    output: string;
  }
  const all = new Map<string, Terminal>();
  const released: string[] = [];
  /** Ends everything that it started, as closing a terminal does. */
  const end = ({ child }: Terminal): void => {
    try {
      process.kill(-(child.pid as number), 'SIGKILL');
    } catch {
      // The program has ended.
    }
  };
  const get = ({ terminalId }: Record<string, unknown>): Terminal => {
    const terminal = all.get(String(terminalId));
    if (terminal === undefined) throw RequestError.invalidParams({ terminalId });
    return terminal;
  };
  t.after(() => {
    for (const terminal of all.values()) end(terminal);
  });
  const serve: NonNullable<EditorAnswers['serve']> = {
    'terminal/create': ({ command, args, cwd, env }) => {
      const added = Object.fromEntries(
        (env as { name: string; value: string }[]).map(({ name, value }) => [name, value]),
      );
      const child = spawn(String(command), args as string[], {
        cwd: String(cwd),
        env: { ...process.env, ...added },
        detached: true,
      });
      const exit = new Promise<{ exitCode: number | null; signal: string | null }>((resolve) => {
        child.once('close', (exitCode, signal) => resolve({ exitCode, signal }));
      });
      const terminal: Terminal = { child, exit, output: '' };
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (text) => {
          terminal.output += text;
        });
      }
      const terminalId = `terminal-${all.size + 1}`;
      all.set(terminalId, terminal);
      return { terminalId };
    },
    'terminal/output': (params) => ({ output: get(params).output, truncated: false }),
    'terminal/wait_for_exit': (params) => get(params).exit,
    'terminal/kill': (params) => {
      end(get(params));
      return {};
    },
    'terminal/release': (params) => {
      end(get(params));
      released.push(String(params.terminalId));
      return {};
    },
  };
  return { serve, all, released };
}

export class Editor {
  /** Everything it received, in order. */
  readonly updates: { readonly sessionId: string; readonly update: SessionUpdate }[] = [];
  readonly permissions: RequestPermissionRequest[] = [];
  readonly forms: CreateElicitationRequest[] = [];
  /** The requests for files and terminals it got, in order. */
  readonly lent: { readonly method: string; readonly params: Record<string, unknown> }[] = [];
  /** Resolved for each permission request the agent took back, by its place. */
  readonly takenBack: Promise<void>[] = [];
  readonly connection: ClientConnection;
  readonly #answers: EditorAnswers;
  readonly #lookers = new Set<() => void>();

  constructor(stream: Stream, answers: EditorAnswers) {
    this.#answers = answers;
    const { permission, form } = answers;
    const lend = (method: string) => (params: unknown) => {
      this.lent.push({ method, params: params as Record<string, unknown> });
      this.#looked();
      const serve = answers.serve?.[method] ?? this.#ofBuffers(method);
      if (serve === undefined) throw RequestError.methodNotFound(method);
      return serve(params as Record<string, unknown>) as never;
    };
    this.connection = client({ name: 'test-editor' })
      .onNotification('session/update', ({ params }) => {
        this.updates.push(params);
        this.#looked();
      })
      .onRequest('session/request_permission', ({ params, signal }) => {
        const back = Promise.withResolvers<void>();
        signal.addEventListener('abort', () => back.resolve());
        this.takenBack.push(back.promise);
        this.permissions.push(params);
        this.#looked();
        const cancelled = back.promise.then((): RequestPermissionResponse => ({ outcome: { outcome: 'cancelled' } }));
        return permission === undefined ? cancelled : permission(params);
      })
      .onRequest('elicitation/create', ({ params }) => {
        this.forms.push(params);
        this.#looked();
        return form?.(params) ?? { action: 'cancel' };
      })
      .onRequest('fs/read_text_file', ({ params }) => lend('fs/read_text_file')(params))
      .onRequest('fs/write_text_file', ({ params }) => lend('fs/write_text_file')(params))
      .onRequest('terminal/create', ({ params }) => lend('terminal/create')(params))
      .onRequest('terminal/output', ({ params }) => lend('terminal/output')(params))
      .onRequest('terminal/wait_for_exit', ({ params }) => lend('terminal/wait_for_exit')(params))
      .onRequest('terminal/kill', ({ params }) => lend('terminal/kill')(params))
      .onRequest('terminal/release', ({ params }) => lend('terminal/release')(params))
      .connect(stream);
  }

  #ofBuffers(method: string): ((params: Record<string, unknown>) => unknown) | undefined {
    const { buffers } = this.#answers;
    if (buffers === undefined) return undefined;
    if (method === 'fs/write_text_file') {
      return ({ path, content }) => {
        buffers.set(String(path), String(content));
        return {};
      };
    }
    if (method !== 'fs/read_text_file') return undefined;
    return ({ path }) => {
      const content = buffers.get(String(path));
      if (content === undefined) throw RequestError.resourceNotFound(String(path));
      return { content };
    };
  }

  get agent(): ClientContext {
    return this.connection.agent;
  }

  initialize() {
    const { form, capabilities, buffers } = this.#answers;
    const clientCapabilities: ClientCapabilities = {
      ...(buffers !== undefined && { fs: { readTextFile: true, writeTextFile: true } }),
      ...capabilities,
      ...(form !== undefined && { elicitation: { form: {} } }),
    };
    return within(this.agent.request('initialize', { protocolVersion: 1, clientCapabilities }), 'the handshake');
  }

  /** Opens a new session; resolves with its id. */
  async open(cwd: string): Promise<string> {
    return (await this.agent.request('session/new', { cwd, mcpServers: [] })).sessionId;
  }

  /** Sends a prompt; resolves when its turn has ended. */
  prompt(sessionId: string, prompt: string | ContentBlock[]): Promise<PromptResponse> {
    const blocks: ContentBlock[] = typeof prompt === 'string' ? [{ type: 'text', text: prompt }] : prompt;
    return within(this.agent.request('session/prompt', { sessionId, prompt: blocks }), 'the end of a turn');
  }

  /** Returns all text of one kind in a session. */
  said(sessionId: string, kind: SessionUpdate['sessionUpdate'] = 'agent_message_chunk'): string {
    return this.updates
      .filter((one) => one.sessionId === sessionId && one.update.sessionUpdate === kind)
      .map(({ update }) => String((update as { content?: { text?: unknown } }).content?.text ?? ''))
      .join('');
  }

  /** Returns the updates of one kind. */
  told<Kind extends SessionUpdate['sessionUpdate']>(kind: Kind): Extract<SessionUpdate, { sessionUpdate: Kind }>[] {
    return this.updates.flatMap(({ update }) => (update.sessionUpdate === kind ? [update as never] : []));
  }

  /** Resolves once `look` returns true, for past updates or later ones. */
  until(look: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const check = (): void => {
      if (look()) resolve();
    };
    this.#lookers.add(check);
    check();
    return within(promise, `what the test waits for: ${look}`).finally(() => this.#lookers.delete(check));
  }

  #looked(): void {
    for (const look of this.#lookers) look();
  }
}

async function within<T>(wait: Promise<T>, what: string): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`${what} took too long`)), WAIT_MS);
  try {
    return await Promise.race([wait, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** A whole server in this process, rehearsing. */
export interface Served extends Desktop {
  readonly server: ControlServer;
  /** Returns an editor with its own client of the server. */
  editor(answers?: EditorAnswers): Promise<LocalEditor>;
}

export interface LocalEditor extends Editor {
  readonly control: ControlClient;
  /** Lines that the bridge printed. */
  readonly notes: string[];
  /** Closes its end and waits until the bridge has ended. */
  leave(): Promise<void>;
}

/** Starts the server; it ends with the test. */
export async function served(t: TestContext): Promise<Served> {
  const folders = desktop(t);
  const config = defaultConfig({ env: { HANDFAST_HOME: folders.home }, cwd: folders.project });
  const server = await assembleControl(config, { log: silentLog, version: () => '0.0.0', backend: 'rehearsal' });
  t.after(() => server.rpc.stop('shutdown'));
  return {
    ...folders,
    server,
    async editor(answers = {}) {
      const control = await connectControl(server.rpc, { clientName: 'test-bridge' });
      const [ours, theirs] = memoryPair();
      const notes: string[] = [];
      const end = serveAcp({ control, link: theirs, version: '1.2.3', note: (line) => notes.push(line) });
      const editor = new Editor(linkStream(ours).stream, answers);
      const leave = async (): Promise<void> => {
        await ours.close();
        await within(end, 'the end of the bridge');
        await control.close();
      };
      t.after(leave);
      await editor.initialize();
      return Object.assign(editor, { control, notes, leave });
    },
  };
}

export interface ProcessEditor extends Editor {
  readonly child: ChildProcess;
  readonly stderr: () => string;
  /** Closes the pipes and waits for the exit code. */
  quit(): Promise<number | null>;
}

/** Starts `handfast acp` in the project and performs the handshake. It ends after the test. */
export async function startEditor(
  t: TestContext,
  { home, project }: Desktop,
  {
    args = ['--backend', 'rehearsal'],
    env = {},
    ...answers
  }: EditorAnswers & { readonly args?: readonly string[]; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<ProcessEditor> {
  const child = spawn(process.execPath, ['-C', 'handfast-source', main, 'acp', ...args], {
    cwd: project,
    env: plainEnvironment({ HANDFAST_HOME: home, HOME: home, HANDFAST_KEYRING: 'off', ...env }),
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const editor = new Editor(
    ndJsonStream(
      Writable.toWeb(child.stdin) as WritableStream<Uint8Array>,
      Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>,
    ),
    answers,
  );
  t.after(async () => {
    if (child.exitCode === null) child.kill('SIGKILL');
    editor.connection.close();
    await exited;
  });
  await editor.initialize().catch((error) => {
    throw new Error(`no handshake: ${error.message}; stderr: ${stderr}`);
  });
  return Object.assign(editor, {
    child,
    stderr: () => stderr,
    async quit() {
      editor.connection.close();
      child.stdin.end();
      return within(exited, 'the end of the process');
    },
  });
}
