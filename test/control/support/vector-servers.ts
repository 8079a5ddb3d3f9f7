/**
 * Servers for the conversations of the vectors, put together as for use: in this process over a link in memory, and as
 * `handfast rpc` in a separate process; with the services that the vectors require beside them.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { toolsPlugin } from '../../../src/capabilities/tools/plugin.ts';
import {
  type PlayOptions,
  play,
  type Vector,
  type VectorConnection,
  vectorsOf,
} from '../../../src/conformance/session-rpc/player.ts';
import { createHost } from '../../../src/host/host.ts';
import { type ModelServer, type ScriptedRound, startModelServer } from '../../../src/testing/model-server.ts';
import type { Message } from '../../../src/transport/link.ts';
import { listenTcp } from '../../../src/transport/socket.ts';
import { within } from '../../contract/recorder.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { root } from '../../rules/scan.ts';
import { bash, composed, modelEnvironment, SCRIPTED_MODEL } from './composed-control.ts';
import { startLoginService } from './login-service.ts';
import { startProviderCatalogue } from './provider-catalogue.ts';
import { publishedProblem } from './published-schema.ts';

/** Environment and services of a server. */
interface ProcessContext {
  readonly env: Readonly<Record<string, string>>;
  readonly fixtures: NonNullable<PlayOptions['fixtures']>;
  readonly model?: ModelServer;
  /** Resolves when a message may be sent. */
  readonly mayBeSent: (text: string) => Promise<unknown>;
  /** Hears every line of the server before the player does. */
  readonly onLine: (line: string) => void;
}

/** Starts a fresh server. */
export type OpenServer = (t: TestContext, surroundings: ProcessContext) => Promise<VectorConnection>;

/**
 * Plays a conversation word for word and asserts that every vector passed, but those `skip` gives a reason for, and that every
 * result and event fits the published schema.
 */
export async function holds(
  t: TestContext,
  conversation: string,
  open: OpenServer,
  skip?: PlayOptions['skip'],
): Promise<void> {
  const vectors = vectorsOf(conversation);
  const around = await surroundings(t, vectors);
  const { fixtures } = around;
  const options: PlayOptions = { level: 'verbatim', fixtures, skip, check: publishedProblem };
  const outcomes = await play(vectors, await open(t, around), options);
  const left = vectors.filter((vector) => skip?.(vector) !== undefined).map(({ name }) => name);
  assert.deepEqual(
    outcomes.filter(({ name, outcome }) => outcome !== 'passed' && !left.includes(name)),
    [],
  );
  assert.ok(left.length < vectors.length, 'some vectors were played');
}

/** Starts the services that the vectors of a conversation require. */
async function surroundings(t: TestContext, vectors: readonly Vector[]): Promise<ProcessContext> {
  const required = new Set(vectors.map(({ requires }) => requires));
  if (required.has('scripted-model')) return scripted(t);
  if (required.has('provider-catalogue')) return providers(t);
  return { env: {}, fixtures: {}, mayBeSent: async () => {}, onLine: () => {} };
}

/** Starts a model that answers with the rounds of the newest vector; rounds that an interrupted turn left are dropped. */
async function scripted(t: TestContext): Promise<ProcessContext> {
  let rounds: ScriptedRound[] = [];
  let before = 0;
  const model = await startModelServer({ models: [SCRIPTED_MODEL.model_id], otherwise: () => rounds.shift() });
  t.after(() => model[Symbol.asyncDispose]());
  return {
    env: modelEnvironment(model),
    model,
    fixtures: {
      'scripted-model'(script) {
        rounds = script.map((round) => ({ ...round }));
        if (rounds.length > 0) before = model.requests.length;
      },
    },
    // The vectors mean an interrupt while the model is asked. That is reported a moment before it is asked.
    mayBeSent: async (text) => text.includes('"session.interrupt"') && model.request(before),
    onLine: () => {},
  };
}

/** Starts a catalogue, and a sign-in service whose user follows the address of the browser sign-in once that is required. */
async function providers(t: TestContext): Promise<ProcessContext> {
  const catalogue = await startProviderCatalogue();
  const service = await startLoginService();
  t.after(() => Promise.all([catalogue[Symbol.asyncDispose](), service[Symbol.asyncDispose]()]));
  let follows = false;
  return {
    env: { ...catalogue.env, ...service.env },
    fixtures: {
      'provider-catalogue': () => {},
      'login-service': () => {},
      'browser-callback': () => {
        follows = true;
      },
    },
    mayBeSent: async () => {},
    onLine(line) {
      const { type, payload } = JSON.parse(line).params ?? {};
      if (follows && type === 'auth.flow.url') void service.browse(payload.url);
    },
  };
}

/** Sends in order, each message when it may be. */
function inOrder(mayBeSent: ProcessContext['mayBeSent'], send: (text: string) => void): (text: string) => void {
  let last: Promise<unknown> = Promise.resolve();
  return (text) => {
    last = last.then(() => mayBeSent(text)).then(() => send(text));
  };
}

/** A server in this process. Takes no text that is not JSON: a link in memory carries objects. */
export const inMemory: OpenServer = async (t, { env, model, mayBeSent, onLine }) => {
  const { server, link } = await composed(t, { env, model });
  const near = link();
  const gone = Promise.withResolvers<void>();
  return {
    write: inOrder(mayBeSent, (text) => near.send(JSON.parse(text) as Message)),
    listen(tell) {
      near.open({
        message(message) {
          const line = JSON.stringify(message);
          onLine(line);
          tell(line);
        },
        malformed: () => {},
        ended: () => void near.close(),
        closed: () => gone.resolve(),
      });
    },
    async close() {
      await near.close();
      await within(gone.promise, 'the link to end');
      await server.rpc.stop('test');
    },
  };
};

/** `handfast rpc`, which must end in good order with the conversation and say nothing but the protocol. */
export const asProcess: OpenServer = async (t, { env, model, mayBeSent, onLine }) => {
  const folder = temporaryFolder(t);
  const cwd = join(folder, 'work');
  const home = join(folder, 'home');
  mkdirSync(cwd);
  const options = ['--server-name', 'loaf'];
  if (model !== undefined) options.push('--config', configWithBash(folder, await hostWithBash(t)));
  const child = spawn(process.execPath, [join(root, 'src/cli/main.ts'), 'rpc', ...options], {
    cwd,
    env: { PATH: process.env.PATH, HOME: folder, HANDFAST_HOME: home, HANDFAST_KEYRING: 'off', ...env },
  });
  t.after(() => child.kill('SIGKILL'));
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin.on('error', () => {});
  const exit = new Promise<number | null>((resolve) => child.once('close', resolve));
  const lines = linesOf(child);
  if (model !== undefined) {
    const ended = exit.then((code) => `the server ended with ${code}: ${stderr}`);
    await select(child, lines, ended);
  }
  return {
    write: inOrder(mayBeSent, (text) => void child.stdin.write(`${text}\n`)),
    listen: (tell) =>
      lines.listen((line) => {
        onLine(line);
        tell(line);
      }),
    async close() {
      child.stdin.end();
      assert.equal(await within(exit, 'the process to exit'), 0);
      assert.equal(stderr, '');
    },
  };
};

type Lines = ReturnType<typeof linesOf>;

/** Reads the lines a child writes, each passed to the current listener. */
function linesOf(child: ChildProcess) {
  let hear: (line: string) => void = () => {};
  let partial = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    const lines = (partial + text).split('\n');
    partial = lines.pop() as string;
    for (const line of lines) hear(line);
  });
  return {
    listen(onLine: (line: string) => void) {
      hear = onLine;
    },
  };
}

/** Selects the scripted model before the conversation begins. */
async function select(child: ChildProcess, lines: Lines, ended: Promise<string>): Promise<void> {
  const answered = Promise.withResolvers<string>();
  lines.listen((line) => {
    if (JSON.parse(line).id === 'select') answered.resolve(line);
  });
  const request = { jsonrpc: '2.0', id: 'select', method: 'model.select', params: SCRIPTED_MODEL };
  child.stdin?.write(`${JSON.stringify(request)}\n`);
  const answer = await within(Promise.race([answered.promise, ended]), 'the model to be selected');
  assert.match(answer, /"result":/);
}

/** Starts a separate host, whose one tool is `bash`. */
async function hostWithBash(t: TestContext): Promise<string> {
  const host = createHost({ plugins: [toolsPlugin({ tools: [bash] })] });
  await host.start();
  const listener = await listenTcp({ port: 0 }, (link) => host.accept(link));
  t.after(async () => {
    await listener.close();
    await host.close(0);
  });
  return listener.address;
}

function configWithBash(folder: string, address: string): string {
  const file = join(folder, 'handfast.yaml');
  const approvals = 'approvals: { rules: [{ when: \'tool.name == "bash"\', then: allow }] }';
  writeFileSync(file, `control:\n  host: ${address}\n  ${approvals}\n`);
  return file;
}
