/**
 * Makes the calls of a chain's nodes: to other capabilities of the host, under the rights of the caller that runs the chain,
 * and within its deadline and audit.
 */
import type { CallContext } from '../../host/context.ts';
import { fail } from '../../wire/errors.ts';
import { memoryForget, memoryInit, memoryRetrieve, memoryStore } from '../memory/messages.ts';
import { procKill, procRead, procSpawn, procStatus } from '../proc/messages.ts';
import { skillCall } from '../skill/messages.ts';
import { toolCall, toolList } from '../tools/messages.ts';
import type { ChainNode } from './chains.schema.ts';
import { isMemoryOperation } from './definition/kinds.ts';
import { type ProgramInput, programInput } from './definition/program-input.ts';
import type { NodeCall } from './engine/contract.ts';
import { failure } from './errors.ts';
import { runSubagent } from './subagent-calls.ts';

type Input = Readonly<Record<string, unknown>>;
type Context = Pick<CallContext, 'call'>;

/** Characters at the end of each output of a program that a node returns. */
const MAX_PRINTED = 65_536;

/** Maximum number of entries whose errors one error names. */
const MAX_ERRORS = 20;

/** Runs a node that is a call. Rejects with the error of the capability, and with `chains.unsupported`. */
export async function callNode(context: Context, node: ChainNode, input: Input, call: NodeCall): Promise<unknown> {
  const { kind, name = '' } = node;
  const { signal } = call;
  switch (kind) {
    case 'tool':
    case 'mcp': {
      const body = { tool_name: name, arguments: input, timeout: 0 };
      const { data } = await context.call(toolCall, body, { signal });
      return data.data ?? null;
    }
    case 'skill': {
      const { data, error } = await context.call(skillCall, { name, arguments: input, timeout: 0 }, { signal });
      if (!data?.success)
        throw fail('runtime_error', String((error as { message?: unknown })?.message ?? 'the skill failed'));
      return data.data ?? null;
    }
    case 'proc':
      return runProgram(context, name, programInput(input, call.resumed), signal);
    case 'memory':
      return useMemory(context, name, input, signal);
    case 'agent':
    case 'task':
      return runSubagent(context, { ...node, kind }, input, call);
    default:
      throw failure('unsupported', `this host runs no nodes of the kind ${kind} here`, { kind });
  }
}

/** Returns the names of the tools that declare that repeating a call does no more than one call. */
export async function idempotentTools(context: Context): Promise<ReadonlySet<string>> {
  const { tools = [] } = await context.call(toolList, { include_deferred: true });
  return new Set(tools.flatMap(({ name, idempotent }) => (idempotent === true ? [name] : [])));
}

/** Characters at the end of each output of a program that an error has. */
const MAX_SHOWN = 2_000;

function unexpectedExit(code: number | null, status: string, { stdout, stderr }: Readonly<Record<string, string>>) {
  const how = code === null ? `was ended (${status})` : `ended with the code ${code}`;
  return fail('tool_error', `the program ${how}`, {
    exit_code: code,
    status,
    stdout: stdout?.slice(-MAX_SHOWN),
    stderr: stderr?.slice(-MAX_SHOWN),
  });
}

/** Starts a program, and waits until it has ended. Rejects with `tool_error` for another exit code than those of the input. */
async function runProgram(context: Context, name: string, input: ProgramInput, signal: AbortSignal) {
  const { command, cmd: words, timeout, cwd, env, exit_codes: codes } = input;
  const given = command ?? words ?? name;
  const cmd = Array.isArray(given) ? given.map(String) : String(given).split(/\s+/).filter(Boolean);
  const spawned = await context.call(
    procSpawn,
    {
      cmd,
      stream: false,
      stdin_mode: 'null',
      ...(timeout !== undefined && { timeout }),
      ...(cwd !== undefined && { cwd }),
      ...(env !== undefined && { env }),
    },
    { signal },
  );
  const { proc_id } = spawned;
  if (!spawned.ok || !proc_id) throw fail('runtime_error', spawned.error || 'the program was not started');
  const printed = { stdout: '', stderr: '' };
  const cut = new Set<string>();
  const ended = Promise.withResolvers<void>();
  const stopped = (): void => ended.reject(signal.reason);
  signal.addEventListener('abort', stopped, { once: true });
  const reading = new AbortController();
  try {
    await context.call(
      procRead,
      { proc_id },
      {
        signal: reading.signal,
        onEvent: ({ data, fields }) => {
          const stream =
            (fields as { stream_type?: unknown } | undefined)?.stream_type === 'stderr' ? 'stderr' : 'stdout';
          if (typeof data.text === 'string') {
            const all = printed[stream] + data.text;
            if (all.length > MAX_PRINTED) cut.add(stream);
            printed[stream] = all.slice(-MAX_PRINTED).replace(/^[\udc00-\udfff]/, '');
          }
          if (data.code !== undefined) ended.resolve();
        },
      },
    );
    if (signal.aborted) stopped();
    await ended.promise;
    const { status, procs = [] } = await context.call(procStatus, { proc_id });
    const code = procs[0]?.exit_code ?? null;
    if (codes !== undefined && !(codes as readonly unknown[]).includes(code))
      throw unexpectedExit(code, String(status), printed);
    // Programs report at their end.
    return { proc_id, status, exit_code: code, ...printed, ...(cut.size > 0 && { cut: [...cut] }) };
  } catch (thrown) {
    await context.call(procKill, { proc_id }, { outlives: true }).catch(() => {});
    throw thrown;
  } finally {
    ended.promise.catch(() => {});
    signal.removeEventListener('abort', stopped);
    reading.abort();
  }
}

const MEMORY_METHODS = { store: memoryStore, retrieve: memoryRetrieve, forget: memoryForget };

async function useMemory(context: Context, name: string, input: Input, signal: AbortSignal): Promise<unknown> {
  const { namespace, ...body } = input;
  if (!isMemoryOperation(name)) {
    throw fail('usage', `a memory node does store, retrieve or forget, got ${JSON.stringify(name.slice(0, 64))}`);
  }
  const operation = MEMORY_METHODS[name];
  const opened = { ...(typeof namespace === 'string' && { namespace }) };
  const memory_id =
    typeof body.memory_id === 'string'
      ? body.memory_id
      : (await context.call(memoryInit, opened, { signal })).memory_id;
  const reply = await context.call(operation as typeof memoryRetrieve, { ...body, memory_id }, { signal });
  const { errors = [] } = reply as { readonly errors?: readonly string[] };
  if (errors.length === 0) return reply;
  throw fail('schema_violation', `not all entries were stored: ${errors[0]}`, { errors: errors.slice(0, MAX_ERRORS) });
}
