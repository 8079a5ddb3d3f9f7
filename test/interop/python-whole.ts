/**
 * A run of `python-whole.py`: every call of the client of the A2E Python SDK against a host of this project that has
 * every capability. For its test, and for the program that writes the results into the documentation.
 */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { User } from '../cli/command.ts';
import { commandOf, start } from './python-sdk.ts';

/** The transports of the SDK. `direct` is its link in process, whose other end in Python passes messages to a child. */
export const TRANSPORTS = ['stdio', 'http', 'direct'] as const;
export type Transport = (typeof TRANSPORTS)[number];

/** Settings for the Python program. */
interface Settings {
  readonly transport: Transport;
  /** The child for pipes. */
  readonly command: readonly string[];
  readonly url: string;
  readonly token: string;
  /** A folder for separate children. */
  readonly folder: string;
  /** A host over pipes that others reach over HTTP, and the file with its address. */
  readonly both: readonly string[];
  readonly address: string;
  /** A server of the Model Context Protocol. */
  readonly mcp: readonly string[];
}

/** One check: a call of the SDK, its arguments, and its outcome. */
export interface Row {
  readonly call: string;
  readonly what: string;
  readonly outcome: 'ok' | 'failed';
  /** The fault of the SDK that prevents the unchanged call from working; empty when it works unchanged. */
  readonly fault: string;
  /** Reason of the failure. */
  readonly note: string;
}

/** A fault of the SDK, as the run met it. */
export interface SdkFault {
  readonly reason: string;
  /** The smallest change to the SDK that lets its calls through. */
  readonly remedy: string;
  readonly calls: readonly string[];
  /** The error and the file of the SDK that raises it; empty when the call gives a wrong value. */
  readonly error: string;
  /** Types of the messages that were sent, and received, before it failed. */
  readonly sent: readonly string[];
  readonly received: readonly string[];
}

export interface Report {
  /** Every public call of the SDK, with its parameters. */
  readonly calls: Readonly<Record<string, readonly string[]>>;
  /** Every type of request that the SDK has a model for, and whether one of its calls sends it. */
  readonly requests: Readonly<Record<string, boolean>>;
  readonly checks: readonly Row[];
  readonly faults: Readonly<Record<string, SdkFault>>;
  /** Calls that were made, with the parameters that were given. */
  readonly made: Readonly<Record<string, readonly string[]>>;
  /** Types of messages that were sent, with the calls that sent them. */
  readonly sent: Readonly<Record<string, readonly string[]>>;
}

const TOKEN = 'interop-secret-of-a-test';

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));

const FILES: Readonly<Record<string, string>> = {
  'skills/count/SKILL.md': `---
name: count
description: Counts words
version: "1.2.0"
entry: main.js
allowed-tools: read_file
tags: [text]
parameters: { type: object, properties: { path: { type: string } }, required: [path] }
---
Counts.
`,
  'skills/count/main.js': `export default async ({ path }, skill) => {
  await skill.progress(50, 'read');
  const { content } = await skill.tool('read_file', { path });
  return { words: content.trim().split(/\\s+/).length };
};`,
  'skills/throws/SKILL.md': '---\nname: throws\ndescription: Fails\nentry: main.js\n---\nFails.\n',
  'skills/throws/main.js': `export default () => { throw new Error('on purpose'); };`,
  'poem.txt': 'one two three\n',
  'sub/note.txt': 'a note\n',
};

/** Returns the configuration of the host: all eleven capabilities, in a separate workspace. */
function configuration(folder: string, mcp: readonly string[]): string {
  for (const [name, text] of Object.entries(FILES)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true, mode: 0o755 });
    writeFileSync(join(folder, name), text, { mode: 0o644 });
  }
  return JSON.stringify({
    workspace: folder,
    listen: ['http://127.0.0.1:0'],
    auth: { tokens: [{ name: 'python', token: [TOKEN], admin: true }] },
    plugins: [
      ...['tools', 'toolkits', 'memory', 'learning', 'chains', 'planning', path('whole-tools.ts')],
      { use: 'env', options: { durability: 'none' } },
      { use: 'skill', options: { roots: [join(folder, 'skills')] } },
      { use: 'proc', options: { programs: ['cat', 'sh', 'sleep'] } },
      { use: 'mcp', options: { register: [mcp.join(' ')] } },
      {
        use: 'multi_agent',
        options: { kinds: [{ name: 'echo', command: [process.execPath, path('../support/echo-subagent.mjs')] }] },
      },
    ],
  });
}

/** Runs every call over one transport against a fresh host. */
export async function everyCall(transport: Transport): Promise<Report> {
  const user = new User();
  const inherited = process.env.HANDFAST_HOME;
  try {
    const everything = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));
    const mcp = [process.execPath, everything, 'stdio'];
    const config = user.write('handfast.yaml', configuration(user.cwd, mcp));
    const url = transport === 'http' ? (await user.up(['--config', config])).ready.url : '';
    const settings: Settings = {
      transport,
      url,
      token: TOKEN,
      mcp,
      command: user.line(['stdio', '--config', config]),
      folder: user.folder,
      both: [process.execPath, '-C', 'handfast-source', path('env-two-links.ts'), TOKEN, join(user.folder, 'address')],
      address: join(user.folder, 'address'),
    };
    process.env.HANDFAST_HOME = user.home;
    const program = start(commandOf('python-whole.py', JSON.stringify(settings)), user.cwd, 240_000);
    const lines = await program.rest();
    assert.equal(program.child.exitCode, 0, program.stderr());
    return JSON.parse(lines.at(-1) as string) as Report;
  } finally {
    if (inherited === undefined) delete process.env.HANDFAST_HOME;
    else process.env.HANDFAST_HOME = inherited;
    await user.leave();
  }
}

/** Calls and parameters of the SDK that a run did not make, without those of transports that were not its own. */
export function notMade({ calls, made }: Report, transport: Transport): string[] {
  const others = Object.entries(TRANSPORT_CLASSES).flatMap(([name, owner]) => (name === transport ? [] : [owner]));
  return Object.entries(calls)
    .filter(([call]) => !others.some((owner) => call.startsWith(`${owner}.`)))
    .flatMap(([call, parameters]) => {
      const given = made[call];
      if (given === undefined) return [call];
      return parameters.filter((name) => !given.includes(name)).map((name) => `${call}(${name})`);
    });
}

const TRANSPORT_CLASSES: Readonly<Record<Transport, string>> = {
  stdio: 'SubprocessTransport',
  http: 'HTTPTransport',
  direct: 'DirectTransport',
};
