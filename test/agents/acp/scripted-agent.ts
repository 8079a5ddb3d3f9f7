/**
 * Runs the scripted agent of `fixtures/` behind a real `acp` backend, over real processes.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AcpAgent, acpBackend } from '../../../src/control/backends/acp/acp.ts';
import type { Backend } from '../../../src/control/contract/backend.ts';
import { spawnLink } from '../../../src/transport/subprocess.ts';

/** A step of the agent in a turn. */
export type AgentStep =
  | { readonly update: Readonly<Record<string, unknown>> }
  | { readonly permission: Readonly<Record<string, unknown>> }
  | { readonly elicit: Readonly<Record<string, unknown>> }
  /** A request for files or terminals; `terminalId: 'last'` is the terminal made last. Its answer is recorded. */
  | { readonly request: string; readonly params: Readonly<Record<string, unknown>> }
  /** A line on stdout, past the SDK. */
  | { readonly raw: string }
  | { readonly untilCancelled: true }
  | { readonly hang: true }
  | { readonly exit: number; readonly stderr?: string }
  | { readonly fail: { readonly code: number; readonly message: string; readonly data?: unknown } }
  | { readonly stop: string; readonly usage?: Readonly<Record<string, number>> };

export interface AgentScript {
  readonly capabilities?: Readonly<Record<string, unknown>>;
  readonly protocolVersion?: number;
  readonly authMethods?: { readonly id: string; readonly name: string; readonly description?: string }[];
  /** Members of the answers to `session/new`, `session/load` and `session/resume`. */
  readonly session?: Readonly<Record<string, unknown>>;
  /** Updates `session/load` replays. */
  readonly replay?: readonly Readonly<Record<string, unknown>>[];
  readonly optionsAfter?: readonly Readonly<Record<string, unknown>>[];
  readonly refuseNew?: { readonly code: number; readonly message: string };
  readonly refuseLoad?: boolean;
  readonly hangAtNew?: boolean;
  readonly exitAtStart?: number;
  readonly stderr?: string;
  /** Printed on stdout before anything else. */
  readonly noise?: string;
  /** By prompt, counted over all processes. */
  readonly prompts?: readonly (readonly AgentStep[])[];
}

/** A request to the agent, or the reply to one of its requests. */
export interface Recorded {
  readonly method: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into requests of many shapes
  readonly params: any;
  readonly pid: number;
}

export interface ScriptedAgent extends AsyncDisposable {
  readonly backend: Backend;
  /** Returns all requests so far, of all its processes. */
  requests(): Recorded[];
  /** Returns the parameters of the requests with this method. */
  told(method: string): Recorded['params'][];
  /** Returns a second backend over the same agent, as after a restart of the server. */
  again(changes?: Partial<AgentScript>): Backend;
}

/** The command line of an agent that follows a script, and its record. */
export interface ScriptFolder extends Disposable {
  readonly folder: string;
  /** Arguments of this program that run the agent with a script, from now on. */
  args(script: AgentScript): readonly string[];
  requests(): Recorded[];
  told(method: string): Recorded['params'][];
}

export function scriptFolder(): ScriptFolder {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-acp-'));
  const file = join(folder, 'script.json');
  const fixture = join(import.meta.dirname, 'fixtures', 'scripted-agent.ts');
  const requests = (): Recorded[] =>
    existsSync(`${file}.requests`)
      ? readFileSync(`${file}.requests`, 'utf8')
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as Recorded)
      : [];
  return {
    folder,
    args(script) {
      writeFileSync(file, JSON.stringify(script));
      return [fixture, file];
    },
    requests,
    told: (method) => requests().flatMap((one) => (one.method === method ? [one.params] : [])),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Makes a backend of an agent that follows a script. */
export function scriptedAgent(script: AgentScript, options: Partial<AcpAgent> = {}): ScriptedAgent {
  const files = scriptFolder();
  const backends: Backend[] = [];
  const make = (given: AgentScript): Backend => {
    const { folder: cwd } = files;
    const program = { name: 'scripted', command: process.execPath, args: files.args(given), cwd };
    // An agent that must stop has the time that a busy machine takes for it.
    const agent = { ...program, cancelTimeoutMs: 60_000, ...options };
    const backend = acpBackend({ agent, start: spawnLink, version: '0.0.0' });
    backends.push(backend);
    return backend;
  };
  return {
    backend: make(script),
    requests: files.requests,
    told: files.told,
    again: (changes = {}) => make({ ...script, ...changes }),
    async [Symbol.asyncDispose]() {
      await Promise.all(backends.map((backend) => backend.stop?.()));
      files[Symbol.dispose]();
    },
  };
}

/** Returns a chunk of the agent's answer, or of its thoughts. */
export const says = (text: string, sessionUpdate = 'agent_message_chunk'): AgentStep => ({
  update: { sessionUpdate, content: { type: 'text', text } },
});

/** Returns a request for files or terminals. */
export const asks = (request: string, params: Readonly<Record<string, unknown>>): AgentStep => ({ request, params });

/** Returns a tool call, or an update of one. */
export const calls = (sessionUpdate: 'tool_call' | 'tool_call_update', fields: Record<string, unknown>): AgentStep => ({
  update: { sessionUpdate, toolCallId: 'call-1', ...fields },
});

/** The options agents usually offer. */
export const OPTIONS = [
  { optionId: 'once', name: 'Allow once', kind: 'allow_once' },
  { optionId: 'always', name: 'Allow always', kind: 'allow_always' },
  { optionId: 'no', name: 'Reject', kind: 'reject_once' },
];

/** Returns true while a process exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
