/**
 * The toolkit `process`: programs by the capability `proc` of the host, under its rules: no tool of this toolkit runs a program
 * that those rules do not allow. If the host or the principal has no `proc`, calls fail with `capability_missing`.
 */
import type { CallEvent } from '../../../connection/call.ts';
import type { CallContext } from '../../../host/context.ts';
import { HandfastError } from '../../../wire/errors.ts';
import { procKill, procRead, procSpawn, procStatus, procWrite } from '../../proc/messages.ts';
import { result, tool } from '../../tools/tool.ts';
import { defineToolkit } from '../toolkit.ts';

const MAX_CHARACTERS = 256 * 1024;

const id = { type: 'string', minLength: 1, maxLength: 64, description: 'The process, as process_start returned it.' };
const waitMs = {
  type: 'integer',
  minimum: 0,
  maximum: 60_000,
  default: 1_000,
  description: 'Milliseconds to wait for further output, or for its end.',
};

interface Refusable {
  readonly ok: boolean;
  readonly error?: string;
  readonly refusal?: { readonly code: string; readonly message: string; readonly detail?: object };
}

/** Returns the reply, or throws the error in it. */
function accepted<Reply extends Refusable>(reply: Reply): Reply {
  if (reply.ok) return reply;
  const { code, message, detail } = reply.refusal ?? { code: 'proc.denied', message: reply.error ?? 'refused' };
  throw new HandfastError(code, message, { detail: { ...detail }, capability: 'proc' });
}

interface Output {
  readonly output: string;
  /** Number to continue from. */
  readonly next: number;
  readonly exit_code: number | null;
  readonly truncated: boolean;
}

/** Returns the output of a process, from a number on, and its end, as far as they arrive within the wait. */
async function outputOf(context: CallContext, proc_id: string, from: number, wait: number): Promise<Output> {
  let output = '';
  let next = from;
  let code: number | null = null;
  let truncated = false;
  const stop = new AbortController();
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  const onEvent = ({ data }: CallEvent): void => {
    if (typeof data.code === 'number') {
      code = data.code;
      end();
    } else if (typeof data.text === 'string') {
      if (output.length + data.text.length > MAX_CHARACTERS) {
        truncated = true;
        end();
        return;
      }
      output += data.text;
      next = Number(data.seq ?? next) + 1;
    }
  };
  const signal = AbortSignal.any([context.signal, stop.signal]);
  const timer = setTimeout(end, wait);
  context.signal.addEventListener('abort', () => end(), { once: true });
  try {
    await context.call(procRead, { proc_id, from, follow: true }, { signal, onEvent });
    await ended;
    context.signal.throwIfAborted();
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
  return { output, next, exit_code: code, truncated };
}

const start = tool<{ argv: string[]; cwd: string; input?: string; timeout_seconds: number; wait_ms: number }>({
  name: 'process_start',
  description:
    'Starts a program that the host allows, without a shell, and returns its id, and what it printed within the time to wait. It continues ' +
    'to run behind the call; process_output reads on.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['argv'],
    properties: {
      argv: {
        type: 'array',
        minItems: 1,
        maxItems: 4096,
        items: { type: 'string' },
        description: 'Program and arguments.',
      },
      cwd: { type: 'string', default: '', description: 'Its folder in the workspace; empty: the workspace.' },
      input: {
        type: 'string',
        description: 'Text for its standard input, which is closed behind it. Left out: it stays open.',
      },
      timeout_seconds: {
        type: 'number',
        minimum: 0,
        maximum: 86_400,
        default: 300,
        description: 'Then it is ended; 0: never.',
      },
      wait_ms: waitMs,
    },
  },
  kind: 'process',
  tags: ['process', 'exec'],
  risks: ['exec'],
  async run({ argv, cwd, input, timeout_seconds, wait_ms }, context) {
    const body = { cmd: argv, cwd, timeout: timeout_seconds, stream: false, overflow: 'pause' as const };
    const { proc_id, pid } = accepted(await context.call(procSpawn, body));
    if (input !== undefined) accepted(await context.call(procWrite, { proc_id, data: input, eof: true }));
    const printed = await outputOf(context, proc_id, 0, wait_ms);
    const state = printed.exit_code === null ? 'runs' : `ended with ${printed.exit_code}`;
    return result(
      { process: proc_id, pid, ...printed },
      { summary: `${argv[0]} ${state}`, truncated: printed.truncated },
    );
  },
});

const output = tool<{ process: string; from: number; wait_ms: number }>({
  name: 'process_output',
  description: 'Reads what a process printed, from a number on, and how it ended.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['process'],
    properties: {
      process: id,
      from: { type: 'integer', minimum: 0, default: 0, description: 'The number in `next` of the last reading.' },
      wait_ms: waitMs,
    },
  },
  kind: 'process',
  tags: ['process', 'read'],
  risks: ['reads'],
  idempotent: true,
  run: ({ process, from, wait_ms }, context) => outputOf(context, process, from, wait_ms),
});

const write = tool<{ process: string; text: string; eof: boolean }>({
  name: 'process_write',
  description: 'Writes to the standard input of a process.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['process'],
    properties: {
      process: id,
      text: { type: 'string', default: '', description: 'The text to write.' },
      eof: { type: 'boolean', default: false, description: 'Close its input behind it.' },
    },
  },
  kind: 'process',
  tags: ['process', 'exec'],
  risks: ['exec'],
  async run({ process, text, eof }, context) {
    accepted(await context.call(procWrite, { proc_id: process, data: text, eof }));
    return { written: text.length };
  },
});

const list = tool({
  name: 'process_list',
  description: 'Lists the processes of this agent, with their state.',
  kind: 'process',
  tags: ['process', 'read'],
  risks: ['reads'],
  idempotent: true,
  async run(_, context) {
    const { procs = [] } = await context.call(procStatus, { proc_id: '' });
    return {
      processes: procs.map(({ proc_id, argv, state, exit_code, pid }) => ({
        process: proc_id,
        argv,
        state,
        exit_code,
        pid,
      })),
    };
  },
});

const kill = tool<{ process: string; signal: string }>({
  name: 'process_kill',
  description: 'Sends a signal to a process and all it has started.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['process'],
    properties: {
      process: id,
      signal: { type: 'string', pattern: '^SIG[A-Z0-9]+$', default: 'SIGTERM', description: 'The signal.' },
    },
  },
  kind: 'process',
  tags: ['process', 'exec'],
  risks: ['exec'],
  async run({ process, signal }, context) {
    const { state } = accepted(await context.call(procKill, { proc_id: process, signal }));
    return { state };
  },
});

export const processes = defineToolkit({
  name: 'process',
  description: 'Programs that the host allows: start, read, write, end',
  category: 'system',
  tags: ['process', 'exec'],
  tools: [start, output, write, list, kill],
});
