/**
 * The adapter of the `claude` command line (`claude -p`, stream-json). The id of a conversation is derived from the context id,
 * so it can be found without a stored one. A stored id shows that the conversation was started.
 * @see docs/fleet-executors.md
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { ProgramEnd } from '../../../base/program.ts';
import { canonicalName } from '../../messages/names.ts';
import type { ClaudeConfig } from '../config.ts';
import type { ExecutorEnvironment } from '../executor.ts';
import { ClaudeMeter } from '../usage.ts';
import { type Cli, type CliReply, ENVIRONMENT_TOKEN, noteOf, summaryOfStderr } from './cli.ts';
import type { OwnedFlags } from './flags.ts';
import { type Frame, frameOf, objectOf, textOf } from './frame.ts';
import { FrameReader } from './frame-reader.ts';
import { killAfter } from './timers.ts';

const OWNED: OwnedFlags = {
  '-p': false,
  '--print': false,
  '-c': false,
  '--continue': false,
  '-r': true,
  '--resume': true,
  '--session-id': true,
  '--fork-session': false,
  '--no-session-persistence': false,
  '--from-pr': true,
  '--output-format': true,
  '--input-format': true,
  '--include-partial-messages': false,
  '--replay-user-messages': false,
  '--json-schema': true,
  '--verbose': false,
  '--permission-mode': true,
  '--permission-prompt-tool': true,
  '--dangerously-skip-permissions': false,
  '--allow-dangerously-skip-permissions': false,
  '--model': true,
  '--setting-sources': true,
  '--append-system-prompt': true,
  '--mcp-config': true,
  '--bare': false,
  '-w': true,
  '--worktree': true,
};

const ROLE =
  'You work on a task that a program handed over. No person is there to answer questions: decide yourself, do the work, and say at the end what you did.';

/** The program does not know the conversation. */
const NOT_FOUND = [
  'no conversation found',
  'session not found',
  'no session found',
  'could not find session',
  'no such session',
];
/** The conversation exists, although no id of it is stored here. */
const IN_USE = ['is already in use'];

/** RFC 4122, the namespace of URLs. */
const URL_NAMESPACE = '6ba7b8119dad11d180b400c04fd430c8';

/** The program's status of an MCP server → health. */
const HEALTH: Readonly<Record<string, string>> = {
  connected: 'ok',
  failed: 'error',
  'needs-auth': 'auth_required',
  needs_auth: 'auth_required',
  pending: 'starting',
  disabled: 'disabled',
};

/** Returns the session id of a context: UUID version 5 of `a2a:<context id>`. */
export function claudeSession(contextId: string): string {
  const hash = createHash('sha1').update(Buffer.from(URL_NAMESPACE, 'hex')).update(`a2a:${contextId}`).digest();
  hash[6] = ((hash[6] as number) & 0x0f) | 0x50;
  hash[8] = ((hash[8] as number) & 0x3f) | 0x80;
  const hex = hash.toString('hex').slice(0, 32);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/** Makes the adapter. */
export function claudeCli({ model, role = ROLE, mcpConfig, timeoutMs }: ClaudeConfig): Cli {
  return {
    kind: 'claude',
    program: 'claude',
    owned: OWNED,
    signIn: 'run `claude` once and sign in',
    version: ['--version'],
    killMs: killAfter(timeoutMs),
    async authenticated(run, env) {
      if (env.ANTHROPIC_API_KEY || env.ANTHROPIC_AUTH_TOKEN || env.CLAUDE_CODE_OAUTH_TOKEN) return true;
      const status = frameOf(((await run('auth', 'status'))?.stdout ?? '').replace(/\n/g, ' '));
      return typeof status?.loggedIn === 'boolean' ? status.loggedIn : undefined;
    },
    argv: ({ prompt, cwd, conversation: stored, task, extra, usesFolder, environment }) => {
      const file = mcpConfig ?? join(cwd, '.mcp.json');
      const servers = [
        ...(mcpConfig !== undefined || (usesFolder && existsSync(file)) ? [file] : []),
        ...(environment === undefined ? [] : [serversWith(environment)]),
      ];
      return [
        ...['-p', prompt, '--output-format', 'stream-json', '--verbose'],
        ...['--permission-mode', 'bypassPermissions', '--setting-sources', usesFolder ? 'user,project,local' : 'user'],
        ...(model === undefined ? [] : ['--model', model]),
        ...['--append-system-prompt', role],
        ...(servers.length === 0 ? [] : ['--mcp-config', ...servers]),
        ...extra,
        ...(stored === undefined ? ['--session-id', claudeSession(task.contextId)] : ['--resume', stored.session]),
      ];
    },
    read: (turn, events) => new ClaudeReader(turn, events),
  };
}

/** Returns a configuration with the environment as its MCP server. The program puts the variable with the token in itself. */
function serversWith({ name, url }: ExecutorEnvironment): string {
  const headers = { Authorization: `Bearer \${${ENVIRONMENT_TOKEN}}` };
  return JSON.stringify({ mcpServers: { [name]: { type: 'http', url, headers } } });
}

class ClaudeReader extends FrameReader {
  readonly #meter = new ClaudeMeter();
  /** The latest text of the model. */
  #text = '';
  #result: Frame | undefined;
  #cwd: string | undefined;

  protected read(frame: Frame): void {
    this.#meter.add(frame);
    switch (frame.type) {
      case 'system':
        if (frame.subtype === 'init') this.#started(frame);
        return;
      case 'assistant':
        this.#assistant(frame);
        return;
      case 'user':
        this.events.progress('running');
        return;
      case 'result':
        this.#result = frame;
        this.events.usage(this.#meter.soFar());
    }
  }

  retry(end: ProgramEnd): 'start' | 'resume' | undefined {
    const { conversation: stored, task } = this.turn;
    if (end.code === 0 && this.#result?.is_error !== true) return undefined;
    const reported = `${textOf(this.#result?.result)}\n${errorsIn(this.#result)}`;
    if (stored !== undefined) return this.refused(end, NOT_FOUND, reported) ? 'start' : undefined;
    if (!this.refused(end, IN_USE, reported)) return undefined;
    this.session = claudeSession(task.contextId);
    return 'resume';
  }

  finish(end: ProgramEnd, stopped: boolean): CliReply {
    const session = this.session ?? this.turn.conversation?.session;
    const result = this.#result;
    const final = textOf(result?.result);
    // A stopped turn leaves no final record.
    const cut = result === undefined && (stopped || end.killedBy !== null);
    const reply = {
      text: final.trim() === '' ? this.#text : final,
      usage: cut ? this.#meter.soFar() : this.#meter.total(),
      ...(session !== undefined && (this.started || result !== undefined) && { conversation: { session } }),
      ...(this.#cwd !== undefined && this.#cwd !== this.turn.cwd && { facts: { cwd: this.#cwd } }),
    };
    if (result === undefined || (result.is_error !== true && result.subtype === 'success')) return reply;
    if (result.subtype === 'error_max_turns' || result.subtype === 'error_max_budget_usd') {
      return { ...reply, text: this.#text, ending: 'limit' };
    }
    const reported = noteOf(final) ?? noteOf(errorsIn(result));
    const reason = reported ?? (summaryOfStderr(end.stderr) || textOf(result.subtype) || 'the turn failed');
    return { ...reply, failure: `claude: ${reason}` };
  }

  #started(frame: Frame): void {
    if (typeof frame.session_id === 'string') this.session = frame.session_id;
    if (typeof frame.cwd === 'string') this.#cwd = frame.cwd;
    if (Array.isArray(frame.mcp_servers)) {
      const found = new Map<string, string>();
      for (const value of frame.mcp_servers) {
        const server = objectOf(value);
        if (typeof server?.name !== 'string') continue;
        const status = textOf(server.status);
        found.set(canonicalName(server.name), Object.hasOwn(HEALTH, status) ? (HEALTH[status] as string) : 'unknown');
      }
      this.events.mcpHealth(found);
    }
    this.events.progress('running', typeof frame.model === 'string' ? `model ${frame.model}` : undefined);
  }

  #assistant({ message: value, parent_tool_use_id: parent }: Frame): void {
    this.started = true;
    const message = objectOf(value);
    const parts = (Array.isArray(message?.content) ? message.content : []).map(objectOf);
    const text = parts
      .flatMap((part) => (part?.type === 'text' && typeof part.text === 'string' ? part.text : []))
      .join('');
    // The text of a sub-agent is addressed to its parent agent and is not part of the reply.
    if (text.trim() !== '' && typeof parent !== 'string') this.#text = text;
    const call = parts.find((part) => part?.type === 'tool_use');
    this.events.progress('running', call === undefined ? noteOf(text) : callNote(call));
    const used = this.#meter.soFar();
    if (used.source !== 'unknown') this.events.usage(used);
  }
}

/** Returns the errors in a result. */
const errorsIn = (result: Frame | undefined): string =>
  (Array.isArray(result?.errors) ? result.errors : []).filter((one) => typeof one === 'string').join('; ');

/** Returns a tool call in a line: its name and its main argument. */
function callNote({ name, input }: Frame): string | undefined {
  const given = objectOf(input) ?? {};
  const about = [given.file_path, given.command, given.pattern, given.path, given.description, given.url].find(
    (one) => typeof one === 'string',
  );
  return noteOf(`${textOf(name)} ${textOf(about)}`);
}
