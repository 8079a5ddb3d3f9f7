/**
 * The adapter of the `opencode` command line (`opencode run --format json`). Every line of its output has the id of its
 * session, which is stored.
 * @see docs/fleet-executors.md
 */
import type { ProgramEnd } from '../../../base/program.ts';
import type { OpencodeConfig } from '../config.ts';
import type { ExecutorEnvironment } from '../executor.ts';
import { ReplyText } from '../reply-text.ts';
import { OpencodeMeter } from '../usage.ts';
import { type Cli, type CliReply, noteOf } from './cli.ts';
import type { OwnedFlags } from './flags.ts';
import { type Frame, frameOf, objectOf, textOf } from './frame.ts';
import { FrameReader } from './frame-reader.ts';
import { killAfter } from './timers.ts';

const OWNED: OwnedFlags = {
  '--format': true,
  '--dangerously-skip-permissions': false,
  '--auto': false,
  '--yolo': false,
  '-s': true,
  '--session': true,
  '-c': false,
  '--continue': false,
  '--fork': false,
  '-m': true,
  '--model': true,
  '--agent': true,
  '--attach': true,
  '--dir': true,
  '--command': true,
  '-i': false,
  '--interactive': false,
  '--mini': false,
};

const NOT_FOUND = ['error: session not found'];

/** Makes the adapter. */
export function opencodeCli({ agent, model, timeoutMs }: OpencodeConfig): Cli {
  return {
    kind: 'opencode',
    program: 'opencode',
    owned: OWNED,
    signIn: 'run `opencode auth login`, or configure a provider',
    version: ['--version'],
    killMs: killAfter(timeoutMs),
    argv: ({ prompt, conversation: stored, extra }) => [
      'run',
      ...(stored === undefined ? [] : ['--session', stored.session]),
      prompt,
      ...['--format', 'json', '--dangerously-skip-permissions'],
      ...(agent === undefined ? [] : ['--agent', agent]),
      ...(model === undefined ? [] : ['--model', model]),
      ...extra,
    ],
    env({ environment }, own): Readonly<Record<string, string>> {
      return environment === undefined ? {} : { [CONFIG]: withEnvironment(own[CONFIG], environment) };
    },
    read: (turn, events) => new OpencodeReader(turn, events),
  };
}

/** The variable with configuration that is merged into the configuration of its files. */
const CONFIG = 'OPENCODE_CONFIG_CONTENT';

/** Returns the configuration with the environment as one of its MCP servers. */
function withEnvironment(configured: string | undefined, { name, url, token }: ExecutorEnvironment): string {
  const headers = { Authorization: `Bearer ${token}` };
  const config = frameOf(configured ?? '') ?? {};
  // Signing in is for servers that refuse their token.
  const server = { type: 'remote', url, headers, oauth: false, enabled: true };
  return JSON.stringify({ ...config, mcp: { ...objectOf(config.mcp), [name]: server } });
}

class OpencodeReader extends FrameReader {
  readonly #meter = new OpencodeMeter();
  readonly #reply = new ReplyText();
  #failure: string | undefined;

  protected read(frame: Frame): void {
    if (typeof frame.sessionID === 'string' && frame.sessionID !== '') this.session = frame.sessionID;
    this.#meter.add(frame);
    const part = objectOf(frame.part);
    switch (frame.type) {
      case 'text':
        this.started = true;
        // A part may start with a fence, which must be on its own line.
        if (typeof part?.text === 'string') this.#reply.add(part.text, '\n');
        this.events.progress('running', noteOf(part?.text));
        return;
      case 'tool_use':
        this.started = true;
        this.events.progress('running', toolNote(part));
        return;
      case 'step_finish':
        this.started = true;
        this.events.usage(this.#meter.total());
        return;
      case 'step_start':
        // The error before it was temporary: the program compacts its conversation and continues.
        this.#failure = undefined;
        this.events.progress('running');
        return;
      case 'error':
        this.#failure = errorNote(objectOf(frame.error));
        return;
      default:
        this.events.progress('running');
    }
  }

  retry(end: ProgramEnd): 'start' | undefined {
    return this.turn.conversation !== undefined && this.refused(end, NOT_FOUND) ? 'start' : undefined;
  }

  finish(): CliReply {
    const session = this.session ?? this.turn.conversation?.session;
    return {
      text: this.#reply.text,
      usage: this.#meter.total(),
      ...(this.#failure !== undefined && { failure: `opencode: ${this.#failure}` }),
      ...(session !== undefined && { conversation: { session } }),
    };
  }
}

function toolNote(part: Frame | undefined): string | undefined {
  const state = objectOf(part?.state);
  return noteOf(`${textOf(part?.tool)} ${textOf(state?.title)}`);
}

function errorNote(error: Frame | undefined): string {
  return noteOf(objectOf(error?.data)?.message) ?? noteOf(error?.message) ?? noteOf(error?.name) ?? 'the turn failed';
}
