/**
 * The adapter of the `codex` command line (`codex exec --json`). Its thread has a separate id, reported at the start, and its
 * token counters continue from turn to turn: both are stored.
 * @see docs/fleet-executors.md
 */

import { join } from 'node:path';
import type { ProgramEnd } from '../../../base/program.ts';
import { readRegularSync } from '../../../base/regular-file.ts';
import type { CodexConfig } from '../config.ts';
import type { ExecutorEnvironment, ExecutorEvents } from '../executor.ts';
import { CodexMeter } from '../usage.ts';
import { type Cli, type CliReply, type CliTurn, ENVIRONMENT_TOKEN, noteOf } from './cli.ts';
import type { OwnedFlags } from './flags.ts';
import { type Frame, objectOf, textOf } from './frame.ts';
import { FrameReader } from './frame-reader.ts';
import { killAfter } from './timers.ts';

const OWNED: OwnedFlags = {
  '--json': false,
  '--experimental-json': false,
  '-s': true,
  '--sandbox': true,
  '--full-auto': false,
  '--dangerously-bypass-approvals-and-sandbox': false,
  '--yolo': false,
  '--skip-git-repo-check': false,
  '-m': true,
  '--model': true,
  '-C': true,
  '--cd': true,
  '--ephemeral': false,
  '--worktree': false,
  '--color': true,
  '--last': false,
  '--all': false,
  '-o': true,
  '--output-last-message': true,
  '--output-schema': true,
};

const NOT_FOUND = ['no rollout found for thread id'];

/** Makes the adapter. */
export function codexCli({ model, sandbox = 'workspace-write', args = [], timeoutMs }: CodexConfig): Cli {
  return {
    kind: 'codex',
    program: 'codex',
    owned: OWNED,
    signIn: 'run `codex login`',
    version: ['--version'],
    killMs: killAfter(timeoutMs),
    async authenticated(run, env) {
      if ((env.CODEX_API_KEY ?? '') !== '') return true;
      const end = await run('login', 'status');
      if (end?.code === 0) return true;
      // Another model provider uses its own key and needs no sign-in.
      if (end === undefined || !/not logged in/i.test(end.stdout + end.stderr) || ownProvider(args, env))
        return undefined;
      return false;
    },
    argv({ prompt, conversation: stored, extra: given, environment }) {
      const extra = [...given, ...environmentArgs(environment)];
      const common = ['--json', '--skip-git-repo-check', ...(model === undefined ? [] : ['-m', model])];
      if (stored === undefined) return ['exec', prompt, '-s', sandbox, ...common, ...extra];
      // `resume` does not accept -s, and without a sandbox mode it may only read. Most flags must precede it.
      const again = ['-c', `sandbox_mode="${sandbox}"`, 'resume', stored.session, prompt];
      return ['exec', ...extra, ...again, ...common];
    },
    read: (turn, events) => new CodexReader(turn, events),
  };
}

/** Returns arguments with the environment as one of its MCP servers. The token is in a variable that the argument names. */
function environmentArgs(environment: ExecutorEnvironment | undefined): string[] {
  if (environment === undefined) return [];
  const { name, url } = environment;
  const settings = { url, bearer_token_env_var: ENVIRONMENT_TOKEN };
  return Object.entries(settings).flatMap(([key, value]) => [
    '-c',
    `mcp_servers.${name}.${key}=${JSON.stringify(value)}`,
  ]);
}

/** True when the operator chose another model provider, by argument or in the program's configuration. */
function ownProvider(args: readonly string[], env: Readonly<Record<string, string>>): boolean {
  if (args.some((arg) => /(?:^|=)model_provider\b/.test(arg) || ['--oss', '-p', '--profile'].includes(arg)))
    return true;
  try {
    const file = join(env.CODEX_HOME ?? join(env.HOME ?? '/', '.codex'), 'config.toml');
    return /^\s*model_provider\s*=/m.test(readRegularSync(file).toString());
  } catch {
    return false;
  }
}

class CodexReader extends FrameReader {
  #meter: CodexMeter;
  /** The latest message of the agent. */
  #text = '';
  #failure: string | undefined;
  #error = '';

  constructor(turn: CliTurn, events: ExecutorEvents) {
    super(turn, events);
    this.#meter = new CodexMeter(turn.conversation?.counters ?? null);
  }

  protected read(frame: Frame): void {
    this.#meter.add(frame);
    switch (frame.type) {
      case 'thread.started':
        if (typeof frame.thread_id !== 'string') return;
        this.session = frame.thread_id;
        // The counters belong to the thread: a new one starts at zero.
        if (frame.thread_id !== this.turn.conversation?.session) this.#meter = new CodexMeter(null);
        return;
      case 'turn.started':
        this.started = true;
        this.events.progress('running');
        return;
      case 'item.started':
      case 'item.updated':
      case 'item.completed':
        this.#item(frame.type, objectOf(frame.item));
        return;
      case 'turn.completed':
        this.events.usage(this.#meter.total());
        return;
      case 'turn.failed':
        this.#failure = noteOf(objectOf(frame.error)?.message) ?? 'the turn failed';
        return;
      case 'error':
        // Not final: also reported for a connection that is restored later.
        this.#error = noteOf(frame.message) ?? '';
        this.events.progress('running', this.#error);
    }
  }

  retry(end: ProgramEnd): 'start' | undefined {
    if (this.turn.conversation === undefined || end.code === 0) return undefined;
    return this.refused(end, NOT_FOUND, this.#error) ? 'start' : undefined;
  }

  finish(): CliReply {
    const { conversation: stored } = this.turn;
    const session = this.session ?? stored?.session;
    const same = session === stored?.session;
    const counters = this.#meter.counters ?? (same ? stored?.counters : undefined);
    const finished = this.#meter.counters !== undefined;
    const warnings = [
      ...(finished && same && stored?.unfinished === true
        ? ['an earlier turn was interrupted; its tokens may be counted in this turn']
        : []),
      ...(this.#meter.restarted
        ? ['its token counters are lower than after the previous turn; the usage is not exact']
        : []),
    ];
    const failure = this.#failure ?? (this.#text === '' && this.#error !== '' ? this.#error : undefined);
    return {
      text: this.#text,
      usage: this.#meter.total(),
      ...(failure !== undefined && { failure: `codex: ${failure}` }),
      ...(warnings.length > 0 && { warnings }),
      ...(session !== undefined &&
        (this.started || stored !== undefined) && {
          conversation: {
            session,
            ...(counters !== undefined && { counters }),
            ...(!finished && { unfinished: true }),
          },
        }),
    };
  }

  #item(event: string, item: Frame | undefined): void {
    if (item === undefined) return;
    if (item.type === 'agent_message' && event === 'item.completed' && typeof item.text === 'string')
      this.#text = item.text;
    this.events.progress('running', itemNote(item));
  }
}

/** Returns an item in a line. */
function itemNote(item: Frame): string | undefined {
  switch (item.type) {
    case 'command_execution':
      return noteOf(`$ ${textOf(item.command)}`);
    case 'mcp_tool_call':
      return noteOf(`${textOf(item.server)}.${textOf(item.tool)}`);
    case 'file_change': {
      const changes = Array.isArray(item.changes) ? item.changes.map(objectOf) : [];
      return noteOf(`changes ${changes.map((change) => textOf(change?.path)).join(', ')}`);
    }
    case 'web_search':
      return noteOf(`searches ${textOf(item.query)}`);
    default:
      return noteOf(item.text ?? item.message);
  }
}
