/**
 * A client of session RPC that needs only a child process and lines of JSON, as in any language: handshake, check the
 * methods of the server, open a session, send a prompt, follow its events to the end.
 *
 * The rehearsal backend runs the turn; it needs no model and no key. Run it with
 * `node -C handfast-source examples/session-rpc-client.ts`.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

/** Version this client was written for. */
const PROTOCOL = '1.0.0';
/** Methods that the client needs. */
const NEEDED = ['session.create', 'session.send'];

const project = dirname(import.meta.dirname);
// One server at a time has a data directory, so this one gets its own.
const home = await mkdtemp(join(tmpdir(), 'handfast-'));

// #region client
const command = [...process.execArgv, join(project, 'src/cli/main.ts'), 'rpc', '--backend', 'rehearsal'];
const server = spawn(process.execPath, command, {
  cwd: project,
  env: { ...process.env, HANDFAST_HOME: home },
  stdio: ['pipe', 'pipe', 'inherit'],
});

interface Answer {
  // biome-ignore lint/suspicious/noExplicitAny: each method has a result of its own
  readonly result?: any;
  readonly error?: { readonly code: number; readonly message: string };
}
const waiting = new Map<number, (answer: Answer) => void>();
const turn = Promise.withResolvers<string>();

// Replies are matched by their id and arrive in any order; a message with a method and no id is an event.
createInterface({ input: server.stdout }).on('line', (line) => {
  const { id, method, params, ...answer } = JSON.parse(line);
  if (method === 'event') {
    show(params.type, params.payload);
    return;
  }
  waiting.get(id)?.(answer);
  waiting.delete(id);
});
void once(server, 'close').then(([code]) => {
  const problem = new Error(`the server ended with code ${code}`);
  turn.reject(problem);
  for (const settle of waiting.values()) settle({ error: { code: 0, message: problem.message } });
});

let lastId = 0;
async function call(method: string, params: object = {}) {
  const id = ++lastId;
  const { promise, resolve } = Promise.withResolvers<Answer>();
  waiting.set(id, resolve);
  server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
  const { result, error } = await promise;
  if (error !== undefined) throw new Error(`${method}: ${error.message} (${error.code})`);
  return result;
}

/** Every turn ends with exactly one of three events. Types this client does not know are passed over. */
// biome-ignore lint/suspicious/noExplicitAny: each type of event has a payload of its own
function show(type: string, payload: any): void {
  if (type === 'session.message.appended') console.log(`${payload.message.kind}: ${payload.message.text}`);
  if (type === 'session.tool.call.started') console.log(`calls ${payload.data.call.name}`);
  if (type === 'session.completed') turn.resolve(payload.stop_reason);
  if (type === 'session.interrupted') turn.reject(new Error('interrupted'));
  if (type === 'session.error') turn.reject(new Error(payload.message));
}

const agreed = await call('rpc.handshake', { protocol_version: PROTOCOL, client_name: 'example' });
// Versions 1.x only ever add something.
assert.ok(agreed.protocol_version.startsWith('1.'), `the server speaks ${agreed.protocol_version}`);
for (const method of NEEDED) assert.ok(agreed.methods.includes(method), `the server cannot ${method}`);
console.log(`${agreed.server_name} speaks ${agreed.protocol_version}, ${agreed.methods.length} methods`);

const { session_id } = await call('session.create', { title: 'an example' });
const { accepted } = await call('session.send', { session_id, text: 'read LICENSE and count its words' });
assert.equal(accepted, true);
console.log(`the turn ended: ${await turn.promise}`);
// #endregion

// The end of its input is the end of the server.
server.stdin.end();
const [code] = await once(server, 'close');
assert.equal(code, 0);
await rm(home, { recursive: true });
