/**
 * A backend whose model says the texts of the test, in the rounds of the vectors, and whose tool `bash` really runs. Rounds are
 * consumed in order by all turns.
 */
import { spawn } from 'node:child_process';
import type { ModelRound } from '../../../src/conformance/session-rpc/player.ts';
import type { Backend, Turn } from '../../../src/control/contract/backend.ts';
import type { ModelPart, RoundModel, RoundRequest } from '../../../src/control/rounds/round-model.ts';
import { runRounds } from '../../../src/control/rounds/rounds.ts';
import type { Toolbox, ToolOffer } from '../../../src/control/rounds/toolbox.ts';
import { withApprovals } from '../../../src/control/rounds/with-approvals.ts';
import type { Provider, SessionSettings, ToolDone } from '../../../src/protocol/session-types.ts';
import { fail } from '../../../src/wire/errors.ts';

/** A round of the vectors, with members that only these tests need. */
export interface ScriptedStep extends ModelRound {
  /** The pieces the text comes in; default: one. */
  readonly pieces?: readonly string[];
  /** The pieces the thought comes in; default: one. */
  readonly thoughts?: readonly string[];
  /** The round never ends, and does not hear that it should. */
  readonly deaf?: boolean;
  /** The provider says the context is too long. */
  readonly overflow?: boolean;
  /** The answer begins when this is resolved. */
  readonly after?: Promise<unknown>;
}

export interface ScriptedBackendOptions {
  readonly name?: string;
  /** False: `preflight` fails as a server without a model does. Default true. */
  readonly isConfigured?: () => boolean;
  readonly provider?: Provider | null;
  readonly continues?: boolean;
  /** Tools beside `bash`: their return value is the result, an error they throw fails the call. */
  readonly tools?: Readonly<Record<string, (input: Readonly<Record<string, unknown>>, signal: AbortSignal) => unknown>>;
  /** Calls go through the turn's approvals. Default false. */
  readonly asks?: boolean;
  readonly compact?: Backend['compact'];
}

export interface ScriptedBackend extends Backend {
  /** Adds rounds to the rest of the script. */
  script(...rounds: readonly ScriptedStep[]): void;
  /** Replaces the rest of the script by these rounds. */
  rescript(...rounds: readonly ScriptedStep[]): void;
  /** The requests to the model, with the history as it was then. */
  readonly requests: RoundRequest[];
  /** The turns that were run, in order. */
  readonly turns: Turn[];
  readonly released: string[];
}

export function scriptedBackend(options: ScriptedBackendOptions = {}): ScriptedBackend {
  const { name = 'scripted', provider = 'openai', isConfigured = () => true, continues = true, asks = false } = options;
  const rounds: ScriptedStep[] = [];
  const requests: RoundRequest[] = [];
  const turns: Turn[] = [];
  const released: string[] = [];
  const toolbox = toolboxOf(options.tools ?? {});
  const model: RoundModel = {
    async *stream(request) {
      requests.push({ ...request, history: [...request.history] });
      const round = rounds.shift();
      if (round === undefined) throw fail('provider_error', 'the script has no more rounds');
      yield* partsOf(round, request.signal);
    },
  };
  return {
    name,
    label: 'scripted, for tests',
    continues,
    requests,
    turns,
    released,
    script: (...more) => void rounds.push(...more),
    rescript: (...more) => void rounds.splice(0, rounds.length, ...more),
    preflight() {
      if (!isConfigured()) throw fail('not_configured', 'select a model from an enabled provider first');
    },
    ...(options.compact !== undefined && { compact: options.compact }),
    run(turn) {
      turns.push(turn);
      return runRounds(turn, model, asks ? withApprovals(toolbox, turn) : toolbox);
    },
    modelOf: (_settings: SessionSettings) =>
      provider === null || !isConfigured() ? null : { model: 'scripted-1', provider },
    release: (sessionId) => void released.push(sessionId),
  };
}

async function* partsOf(round: ScriptedStep, signal: AbortSignal): AsyncGenerator<ModelPart> {
  if (round.delay_ms !== undefined) await pause(round.delay_ms, signal);
  if (round.deaf === true) await new Promise(() => {});
  await round.after;
  if (round.error !== undefined) throw fail('provider_error', round.error);
  const { thoughts = round.thought === undefined ? [] : [round.thought] } = round;
  const { pieces = round.text === undefined ? [] : [round.text] } = round;
  for (const text of thoughts) yield { type: 'thought', text };
  for (const text of pieces) yield { type: 'answer', text };
  if (round.overflow === true) {
    throw fail('provider_error', 'the context is too long', { reason: 'context_overflow' });
  }
  for (const { id, name, input } of round.tool_calls ?? []) yield { type: 'call', callId: id, name, input };
  yield { type: 'finish', reason: (round.tool_calls ?? []).length > 0 ? 'tool_calls' : 'stop' };
}

/** Waits; ends early when the signal aborts, as a provider's client does. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => reject(new Error('Request was aborted.')), { once: true });
  return promise.finally(() => clearTimeout(timer));
}

function toolboxOf(tools: NonNullable<ScriptedBackendOptions['tools']>): Toolbox {
  const all = { bash: bash, ...tools };
  const offerOf = (name: string): ToolOffer => ({
    name,
    description: `the tool ${name}`,
    inputSchema: { type: 'object' },
    risks: ['executes'],
  });
  return {
    list: async () => Object.keys(all).sort().map(offerOf),
    find: (name) => (Object.hasOwn(all, name) ? offerOf(name) : undefined),
    async call({ name, input, callId }, signal): Promise<ToolDone> {
      try {
        return { name, ok: true, input, result: await all[name as keyof typeof all]!(input, signal), callId };
      } catch (error) {
        return { name, ok: false, input, result: null, error: (error as Error).message, callId };
      }
    },
  };
}

/** Runs the vectors' tool: it fails on a non-zero exit and stops when aborted. */
function bash({ command }: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = spawn('/bin/sh', ['-c', String(command)], { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  // Its children too: a shell that is killed leaves its `sleep` behind.
  const kill = () => process.kill(-(child.pid as number), 'SIGKILL');
  signal.addEventListener('abort', kill, { once: true });
  child.once('close', (code) => {
    signal.removeEventListener('abort', kill);
    if (code === 0) resolve(output);
    else reject(new Error(signal.aborted ? 'aborted' : `exit code ${code}`));
  });
  return promise;
}
