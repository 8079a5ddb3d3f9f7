/** `handfast proc …`: runs programs at a host, and lists, reads and ends running ones. */
import type { AgentSession } from '../../agent/agent.ts';
import { counted } from '../../base/counted.ts';
import type { CapabilityCommand, CommandTerminal } from '../../packages/capability.ts';
import { lastOrByPrefix, type Sought } from '../../packages/named-id.ts';
import { asError, fail, HandfastError } from '../../wire/errors.ts';
import { attach, isAtTerminal, redraw, terminalSize } from './attach.ts';
import { type OutputPiece, ProcClient, type ProcessExit, type RemoteProcess } from './client.ts';
import { failure } from './errors.ts';

type Context = Parameters<CapabilityCommand['run']>[0];

const SOUGHT: Sought = {
  noun: 'process',
  missing: (message) => failure('unknown', message),
  see: 'handfast proc ls',
};

/** Returns the process that an argument names: an id, the beginning of one, or `last`. */
async function named({ agent, args: [given], signal }: Context): Promise<RemoteProcess> {
  const client = new ProcClient(agent as AgentSession);
  const oldestFirst = await client.list({ all: true }, { signal });
  const { proc_id } = lastOrByPrefix(String(given ?? ''), oldestFirst.toReversed(), (one) => one.proc_id, SOUGHT);
  return client.find(proc_id, { signal });
}

/** Prints output as it arrives; resolves with the end of the process, if it was read. */
async function print(
  output: AsyncGenerator<OutputPiece, ProcessExit | undefined>,
  terminal: CommandTerminal,
): Promise<ProcessExit | undefined> {
  for (;;) {
    const { done, value } = await output.next();
    if (done) return value;
    if (terminal.json) {
      terminal.document(value);
      continue;
    }
    if (value.missed !== undefined)
      terminal.note(`${counted(value.missed, 'piece of output is', 'pieces of output are')} no longer stored`);
    if (value.stream === 'stdout') terminal.exact(value.text);
    else terminal.exactError(value.text);
  }
}

/** Returns the exit code as a shell has it. */
const exitCodeOf = ({ code }: ProcessExit): number => (code < 0 ? 128 - code : code);

function environmentOf(pairs: unknown): Record<string, string> {
  return Object.fromEntries(
    ((pairs as string[] | undefined) ?? []).map((pair) => {
      const at = pair.indexOf('=');
      if (at > 0) return [pair.slice(0, at), pair.slice(at + 1)];
      throw fail('usage', `--env needs NAME=value, got ${JSON.stringify(pair)}`);
    }),
  );
}

function secondsOf(value: unknown): number {
  const seconds = Number(value);
  if (seconds > 0 && Number.isFinite(seconds)) return seconds;
  throw fail('usage', `--timeout needs seconds, got ${JSON.stringify(value)}`);
}

const lost = ({ id }: RemoteProcess) => failure('dead', 'the process was ended with its session', { proc_id: id });

/** Adds the next step to the error of a process that is not found again. */
function withNextStep(thrown: unknown, { id }: RemoteProcess): HandfastError {
  const { code, message, detail, retryable, capability } = asError(thrown);
  const next =
    capability === 'proc'
      ? '"handfast proc ls" lists those that run'
      : `where its host runs, "handfast proc attach ${id.slice(0, 12)}" continues; where it does not, the process has ended with it`;
  return new HandfastError(code, `${message}; ${next}`, { detail, retryable, capability, cause: thrown });
}

/** Adds the allowed programs to the error for one that is not allowed. */
function withPrograms(thrown: unknown): never {
  const { code, message, detail } = asError(thrown);
  if (code !== 'proc.denied' || !Array.isArray(detail.allowed)) throw thrown;
  throw failure('denied', `${message}; programs that may run: ${detail.allowed.join(', ') || 'none'}`, detail, thrown);
}

/** Passes the standard input on, until it ends. Reads nothing from a terminal: the program would wait for a person forever. */
async function feed(child: RemoteProcess): Promise<void> {
  if (process.stdin.isTTY) return child.eof();
  for await (const text of process.stdin.setEncoding('utf8')) await child.write(text as string);
  await child.eof();
}

export const commands: readonly CapabilityCommand[] = [
  {
    usage: 'run <program> [arguments...]',
    about: 'run a program at the host to its end; its exit code is that of the command',
    options: [
      ['--cwd <folder>', 'where it runs (default: the workspace)'],
      ['--env <NAME=value...>', 'variables for it'],
      ['--timeout <seconds>', 'ends it after this time'],
      ['--pty', 'at a terminal: this one, where there is one; every key goes to the program'],
    ],
    help: 'Write -- before the program when it has options of its own. Ctrl-C ends it, with --pty it is a key.',
    async run({ agent, args, options, terminal, signal }) {
      const cmd = args.flatMap((arg) => arg ?? []);
      const { cwd, env, timeout, pty } = options;
      const child = await new ProcClient(agent as AgentSession)
        .spawn(cmd, {
          signal,
          // One message per line suits programs, and is slow for a process that prints millions of lines.
          chunks: !terminal.json,
          env: { ...(pty === true && process.env.TERM && { TERM: process.env.TERM }), ...environmentOf(env) },
          ...(pty === true && { pty: terminalSize() }),
          ...(cwd !== undefined && { cwd: cwd as string }),
          ...(timeout !== undefined && { timeoutMs: secondsOf(timeout) * 1000 }),
        })
        .catch(withPrograms);
      if (pty === true && isAtTerminal() && !terminal.json) {
        const again = (): Promise<RemoteProcess> => Promise.reject(lost(child));
        const isLost = (): boolean => agent.state === 'lost';
        const end = await attach(child, { from: 0, detaches: false, again, isLost, signal });
        if (end === undefined || end === 'detached') throw lost(child);
        return exitCodeOf(end);
      }
      // A program that ends before it has read everything is no failure.
      feed(child).catch(() => {});
      // An open input would hold the command open.
      const exit = await print(child.output(), terminal).finally(() => process.stdin.destroy());
      if (exit === undefined) throw lost(child);
      if (terminal.json) terminal.document(exit);
      else if (exit.reason === 'timedout') terminal.note('ended: its time was over');
      else if (exit.reason === 'limit') terminal.note('ended: it wrote more than it may');
      return exitCodeOf(exit);
    },
  },
  {
    usage: 'ls',
    about: 'list the processes: those of every agent that this user reaches',
    async run({ agent, terminal, signal }) {
      const procs = await new ProcClient(agent as AgentSession).list({ all: true }, { signal });
      if (terminal.json) terminal.document(procs);
      else if (procs.length === 0) terminal.note('no processes');
      else {
        const rows = procs.map(({ proc_id, state, exit_code, pid, agent_id, cmd }) => [
          proc_id.slice(0, 12),
          exit_code === null ? state : `${state} ${exit_code}`,
          String(pid),
          agent_id,
          cmd,
        ]);
        terminal.table(['PROC', 'STATE', 'PID', 'AGENT', 'COMMAND'], rows);
      }
      return undefined;
    },
  },
  {
    usage: 'attach <proc>',
    about: 'be at the terminal of a process; its exit code is that of the command',
    options: [['--history', 'first what it has shown before, as far as that is stored']],
    help: 'Ctrl-P Ctrl-Q leaves it running. Without a terminal, here or there, its output is printed as it comes.',
    async run(context) {
      const { options, terminal, signal, openAgent } = context;
      const child = await named(context);
      const { output, pty } = await child.info({ signal });
      const from = options.history === true ? 0 : output.next;
      if (pty === undefined || !isAtTerminal() || terminal.json) {
        const exit = await print(child.output({ from, signal }), terminal);
        if (exit === undefined) throw lost(child);
        if (terminal.json) terminal.document(exit);
        return exitCodeOf(exit);
      }
      const opened: AgentSession[] = [];
      const again = async (): Promise<RemoteProcess> => {
        try {
          const other = await openAgent();
          opened.push(other);
          return await new ProcClient(other).find(child.id, { signal });
        } catch (thrown) {
          throw withNextStep(thrown, child);
        }
      };
      const isLost = (): boolean => (opened.at(-1) ?? context.agent).state === 'lost';
      try {
        // The process may have ended since.
        await redraw(child).catch(() => {});
        const end = await attach(child, { from, detaches: true, again, isLost, signal });
        if (end === undefined) throw lost(child);
        if (end !== 'detached') return exitCodeOf(end);
        terminal.note(`\nleft running: handfast proc attach ${child.id.slice(0, 12)}`);
        return undefined;
      } finally {
        for (const each of opened) await each.close();
      }
    },
  },
  {
    usage: 'logs <proc>',
    about: 'print the output of a process that is stored',
    options: [['--follow', 'and what follows, until it has ended']],
    async run(context) {
      const { options, terminal, signal } = context;
      const child = await named(context);
      await print(child.output({ follow: options.follow === true, signal }), terminal);
      return undefined;
    },
  },
  {
    usage: 'kill <proc>',
    about: 'send a signal to a process and all it has started',
    options: [['--signal <name>', 'default: SIGTERM']],
    async run(context) {
      const { options, terminal, signal } = context;
      const child = await named(context);
      const state = await child.kill((options.signal as string | undefined) ?? 'SIGTERM', { signal });
      if (terminal.json) terminal.document({ proc_id: child.id, state });
      else terminal.line(state);
      return undefined;
    },
  },
];
