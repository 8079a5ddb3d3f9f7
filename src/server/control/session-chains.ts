/**
 * Stored chains as tools of a session's model: it lists them, runs one with an input, waits for the result or reads it later.
 *
 * They run in the session's own A2E session (`session-work.ts`), so that a run outlives the turn that began it. The calls of
 * its nodes are put before the approval rules of the session with the call that starts it; questions of a run (wait nodes with
 * an approval) are put to the user of the session, never to the model. @see docs/models.md#subagents-and-chains
 */
import { randomUUID } from 'node:crypto';
import type { AgentSession } from '../../agent/agent.ts';
import type { ChainNode } from '../../capabilities/chains/chains.schema.ts';
import { type ChainResult, ChainsClient } from '../../capabilities/chains/client.ts';
import { ToolsClient } from '../../capabilities/tools/client.ts';
import type { CallEvent } from '../../connection/call.ts';
import type { IncludedCall } from '../../control/contract/approver.ts';
import type { SessionWork } from '../../control/contract/session-log.ts';
import type { Foreseen } from '../../control/rounds/toolbox.ts';
import type { WorkEnd, WorkFacts, WorkKeeper } from '../../control/rounds/work.ts';
import { skillToolName } from '../../mcp-endpoint/skills.ts';
import { asError, fail } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';
import {
  flag,
  foundOffer,
  given,
  type Input,
  optionalText,
  optionalTexts,
  text,
  textIn,
  texts,
  waitMsOf,
  waitSeconds,
  whole,
  wholeIn,
} from './tool-parts.ts';

/** Chains of a list at most. */
const MAX_LISTED = 100;
const MAX_VERSION = Number.MAX_SAFE_INTEGER;
const ACTIONS = ['pause', 'resume', 'cancel'] as const;
/** Time for an answer to a run's question, in milliseconds: a run waits as long as it may by itself. */
const ANSWER_MS = 24 * 3_600_000;

/** Codes of a run whose request ended with its session, or with the right to it: the host has its outcome. */
const LOST = new Set([
  'connection_lost',
  'session_expired',
  'interrupted',
  'superseded',
  'reply_lost',
  'cancelled',
  'capability_missing',
]);

/** The tools, all found by search. */
export const chainOffers = [
  foundOffer(
    'chain',
    'chain_list',
    'Lists the stored chains (workflows of several steps) that can be run, and the runs of this session; with a name the steps of one chain.',
    ['reads'],
    { name: text('One chain. Left out: all.') },
  ),
  foundOffer(
    'chain',
    'chain_run',
    'Runs a stored chain (a workflow of several steps) with an input and waits for the result. With wait_seconds 0 it runs in the ' +
      'background; read it with chain_result. A result that comes after your turn is given to you with the next prompt.',
    [],
    {
      name: text('The chain, as chain_list has it.'),
      version: whole('Left out: the newest.', 1, MAX_VERSION),
      input: { type: 'object', description: 'The input of its steps, as $.name.' },
      wait_seconds: waitSeconds,
      stop_with_turn: flag(
        'True: the run is cancelled when the user interrupts this turn. Default false: it continues.',
      ),
    },
    ['name'],
  ),
  foundOffer(
    'chain',
    'chain_result',
    'Waits (awaits) for a run of a chain and gives its result. Questions of the run are put to the user.',
    ['reads'],
    { chain_id: text('The run, as chain_run gave it.'), wait_seconds: waitSeconds },
    ['chain_id'],
  ),
  foundOffer(
    'chain',
    'chain_control',
    'Pauses, resumes or cancels a run of a chain.',
    [],
    {
      chain_id: text('The run, as chain_run gave it.'),
      action: { enum: ACTIONS },
      rerun: texts('With resume: steps that may have run and are run again.'),
      skip: texts('With resume: steps that may have run and are not.'),
    },
    ['chain_id', 'action'],
  ),
] as const;

/** The runs of one session. */
export class SessionChains {
  readonly #client: ChainsClient;
  readonly #tools: ToolsClient;
  readonly #keeper: WorkKeeper;
  /** Questions that were put to the user, by run and node; aborted when they are not needed any more. */
  readonly #asked = new Map<string, Map<string, AbortController>>();

  constructor(agent: AgentSession, keeper: WorkKeeper) {
    this.#client = new ChainsClient(agent);
    this.#tools = new ToolsClient(agent);
    this.#keeper = keeper;
  }

  readonly calls: Readonly<Record<string, (input: Input, signal: AbortSignal) => Promise<unknown>>> = {
    chain_list: (input, signal) => this.#list(input, signal),
    chain_run: (input, signal) => this.#run(input, signal),
    chain_result: (input, signal) => this.#result(input, signal),
    chain_control: (input, signal) => this.#control(input, signal),
  };

  /** Returns the calls that a run will make; undefined for tools whose offer says all. The version is fixed. */
  async foresee(name: string, input: Input, signal: AbortSignal): Promise<Foreseen | undefined> {
    if (name === 'chain_run') {
      const version = wholeIn(input.version, 'version', 1, MAX_VERSION);
      const stored = await this.#client.get(textIn(input.name, 'name'), given({ version, signal }));
      const foreseen = await this.#foreseen(stored.nodes ?? [], signal);
      return { ...foreseen, input: { ...input, version: stored.version } };
    }
    if (name !== 'chain_control' || input.action !== 'resume') return undefined;
    const { definition = [] } = await this.#client.status(textIn(input.chain_id, 'chain_id'), {
      definition: true,
      signal,
    });
    return { ...(await this.#foreseen(definition, signal)), input };
  }

  /** Waits for the end of a run that an earlier process began, or says how it stands. */
  async follow({ id }: SessionWork): Promise<WorkEnd> {
    const { run, outputs = {} } = await this.#client.status(id, { outputs: true });
    if (run.state === 'running' || run.state === 'waiting') return endOf(await this.#client.watch(id));
    if (run.state === 'interrupted') {
      const how = 'it stopped before its end; chain_control with the action resume continues it';
      return { state: run.state, result: { chain_id: id, outputs, note: how } };
    }
    const state = run.state === 'done' ? 'completed' : run.state;
    return { state, result: { chain_id: id, outputs, ...(run.error !== null && { error: run.error }) } };
  }

  async #foreseen(nodes: readonly ChainNode[], signal: AbortSignal): Promise<Omit<Foreseen, 'input'>> {
    const tools = await this.#tools.list({ includeDeferred: true }, { signal });
    const includes = nodes.flatMap((node) => includedCall(node, tools) ?? []);
    return { includes, risks: risksOf(includes) };
  }

  async #list({ name }: Input, signal: AbortSignal): Promise<unknown> {
    const wanted = optionalText(name, 'name');
    if (wanted !== undefined) {
      const {
        nodes = [],
        versions: _,
        created_at: __,
        digest: ___,
        ...chain
      } = await this.#client.get(wanted, { signal });
      const steps = nodes.map(({ node_id, kind, name: called, after }) =>
        given({ node_id, kind, name: called, after }),
      );
      return { ...chain, steps };
    }
    const chains = await this.#client.list({ limit: MAX_LISTED }, { signal });
    return {
      chains: chains.map(({ name: called, version, description }) => ({ name: called, version, description })),
      runs: this.#keeper.work
        .filter(({ kind }) => kind === 'chain')
        .map(({ id, name: called, state }) => ({ chain_id: id, name: called, state })),
    };
  }

  async #run(input: Input, signal: AbortSignal): Promise<unknown> {
    const name = textIn(input.name, 'name');
    const version = wholeIn(input.version, 'version', 1, MAX_VERSION);
    const waitMs = waitMsOf(input.wait_seconds);
    if (input.input !== undefined && !isObject(input.input)) throw fail('schema_violation', '/input must be an object');
    const facts = { id: randomUUID(), kind: 'chain', name, about: shortened(input.input) } as const;
    // Not the signal of the turn: the run is of the session.
    const chain = { name, ...(version !== undefined && { version }) };
    const onEvent = (event: CallEvent): void => this.#happened(facts, event);
    const run = this.#client.run({ chain }, input.input ?? {}, { chainId: facts.id, onEvent });
    return this.#waited(facts, run, { waitMs, signal, stop: input.stop_with_turn === true });
  }

  /** Begins a run, or continues one, and waits for it. */
  async #waited(
    facts: WorkFacts,
    run: PromiseLike<ChainResult>,
    {
      waitMs,
      signal,
      stop = false,
    }: { readonly waitMs: number; readonly signal: AbortSignal; readonly stop?: boolean },
  ): Promise<unknown> {
    const ended = Promise.resolve(run)
      .then(endOf, failedEnd)
      .finally(() => this.#forget(facts.id));
    this.#keeper.begin(facts, ended);
    try {
      return await this.#shown(facts.id, await this.#keeper.wait(facts.id, waitMs, signal));
    } catch (error) {
      if (stop) await this.#client.cancel(facts.id, { reason: 'the turn was interrupted' }).then(undefined, () => {});
      throw error;
    }
  }

  async #result({ chain_id, wait_seconds }: Input, signal: AbortSignal): Promise<unknown> {
    const id = textIn(chain_id, 'chain_id');
    const waitMs = waitMsOf(wait_seconds);
    const work = this.#keeper.work.find((one) => one.id === id);
    if (work === undefined) {
      const { run, outputs } = await this.#client.status(id, { outputs: true, signal });
      return given({ chain_id: id, state: run.state, outputs, error: run.error ?? undefined });
    }
    // Its question may have come between turns, when the user could not be asked.
    await this.#askWaiting(work);
    return this.#shown(id, await this.#keeper.wait(id, waitMs, signal));
  }

  async #control({ chain_id, action, rerun, skip }: Input, signal: AbortSignal): Promise<unknown> {
    const id = textIn(chain_id, 'chain_id');
    if (action === 'cancel') return { chain_id: id, state: (await this.#client.cancel(id, { signal })).state };
    if (action === 'pause') return { chain_id: id, state: (await this.#client.pause(id, { signal })).state };
    if (action !== 'resume') throw fail('schema_violation', `/action must be one of ${ACTIONS.join(', ')}`);
    const { run } = await this.#client.status(id, { signal });
    const facts = { id, kind: 'chain', name: run.name, about: 'resumed' } as const;
    const decisions = given({ rerun: optionalTexts(rerun, 'rerun'), skip: optionalTexts(skip, 'skip') });
    const resumed = this.#client.resume(id, { ...decisions, onEvent: (event) => this.#happened(facts, event) });
    return this.#waited(facts, resumed, { waitMs: waitMsOf(undefined), signal });
  }

  async #shown(id: string, end: WorkEnd | undefined): Promise<unknown> {
    if (end !== undefined) return { chain_id: id, state: end.state, ...(end.result as object) };
    // A run that has just begun may not be known yet.
    const known = await this.#client.status(id).then(undefined, () => undefined);
    const waits = (known?.nodes ?? [])
      .filter(({ state }) => state === 'waiting')
      .map(({ node_id, waits_for }) => ({ node_id, waits_for }));
    const state = known?.run.state === 'waiting' ? 'waiting' : 'running';
    return { chain_id: id, state, ended_nodes: known?.run.nodes_ended ?? 0, ...(waits.length > 0 && { waits }) };
  }

  #happened(facts: WorkFacts, { fields = {}, data }: CallEvent): void {
    const { node_id = '', phase = '', error = '' } = fields as { node_id?: string; phase?: string; error?: string };
    if (node_id === '') return;
    this.#keeper.note(facts, phase, error === '' ? node_id : `${node_id}: ${error}`);
    const { approval } = (data.waits_for ?? {}) as { approval?: unknown };
    if (phase === 'wait' && typeof approval === 'string') void this.#ask(facts, node_id, approval);
    // It was answered elsewhere, or is not needed any more.
    else this.#asked.get(facts.id)?.get(node_id)?.abort(fail('cancelled', 'it was answered elsewhere'));
  }

  async #askWaiting(facts: WorkFacts): Promise<void> {
    const { nodes } = await this.#client.status(facts.id);
    for (const { node_id, state, waits_for } of nodes) {
      const { approval } = (waits_for ?? {}) as { approval?: unknown };
      if (state === 'waiting' && typeof approval === 'string') void this.#ask(facts, node_id, approval);
    }
  }

  /** Puts the question of a run to the user, while a turn runs in which the user can be asked. Never rejects. */
  async #ask({ id, name }: WorkFacts, node: string, question: string): Promise<void> {
    const asked = this.#asked.get(id) ?? new Map<string, AbortController>();
    if (asked.has(node)) return;
    this.#asked.set(id, asked);
    const withdrawn = new AbortController();
    asked.set(node, withdrawn);
    try {
      const approval = await this.#keeper.ask(
        {
          kind: 'question',
          title: `chain ${name}, step ${node}: ${question}`,
          risks: [],
          schema: {
            type: 'object',
            properties: { answer: { type: 'string', enum: ['yes', 'no'] } },
            required: ['answer'],
          },
          timeoutMs: ANSWER_MS,
        },
        withdrawn.signal,
      );
      // A no of the user is an answer; a question without an answer continues to wait.
      const isAnswered =
        approval?.state === 'allowed' || (approval?.state === 'denied' && approval.answer !== undefined);
      if (!isAnswered || withdrawn.signal.aborted) return;
      const agreed = approval.state === 'allowed' && approval.answer?.content?.answer === 'yes';
      await this.#client.approve(id, node, agreed);
    } catch {
      // The turn, or the run, has ended: it waits, and the next call of chain_result asks again.
    } finally {
      asked.delete(node);
    }
  }

  #forget(id: string): void {
    for (const question of this.#asked.get(id)?.values() ?? []) question.abort(fail('cancelled', 'the run has ended'));
    this.#asked.delete(id);
  }
}

/** Returns the call of a node as the approval rules see it; undefined for nodes that call nothing. */
function includedCall(
  { kind, name = '', input = {}, input_map: map = {} }: ChainNode,
  tools: readonly { readonly name: string; readonly kind?: string; readonly risks?: readonly string[] }[],
): IncludedCall | undefined {
  const computed = Object.keys(map).length > 0;
  const call = (called: string, calledKind: string, risks: readonly string[], given_: Input = input): IncludedCall => ({
    name: called,
    kind: calledKind,
    input: computed ? {} : given_,
    risks,
    ...(computed && { computed }),
  });
  switch (kind) {
    case 'tool':
    case 'mcp': {
      const tool = tools.find((one) => one.name === name);
      return call(name, tool?.kind ?? '', tool?.risks ?? []);
    }
    case 'skill':
      return call(skillToolName(name), 'skill', []);
    case 'proc': {
      const words = input.command ?? input.cmd ?? name;
      const argv = Array.isArray(words) ? words.map(String) : String(words).split(/\s+/).filter(Boolean);
      // By the name of the tool that runs programs: rules about commands are about these too.
      return call('shell', 'proc', ['exec'], { argv, ...(typeof input.cwd === 'string' && { cwd: input.cwd }) });
    }
    case 'memory':
      return call(`memory_${name}`, 'memory', [name === 'retrieve' ? 'reads' : 'writes']);
    case 'agent':
    case 'task':
      return call(kind === 'agent' ? 'agent_run' : 'task', kind === 'agent' ? 'subagent' : 'task', []);
    default:
      return undefined;
  }
}

/**
 * Returns the risks of a chain for the decision about the call that runs it. With risks that are more than reading and not
 * running programs none is named: a remembered answer then covers this very call, and not every chain.
 */
function risksOf(includes: readonly IncludedCall[]): readonly string[] {
  const risks = [...new Set(includes.flatMap((call) => call.risks))];
  if (risks.every((risk) => risk === 'reads')) return ['reads'];
  return risks.includes('exec') ? risks : [];
}

function endOf({ chain_id, success, final_output, error, state = success ? 'done' : 'failed' }: ChainResult): WorkEnd {
  const result = { chain_id, final_output, ...(error !== null && { error }) };
  return { state: state === 'done' ? 'completed' : state, result };
}

/** @throws an error that tells of a lost session, not of a failed run */
function failedEnd(thrown: unknown): WorkEnd {
  const { code, message, detail } = asError(thrown);
  if (LOST.has(code)) throw thrown;
  return { state: 'failed', result: { error: { code, message, detail } } };
}

const shortened = (input: unknown): string => (input === undefined ? '' : JSON.stringify(input).slice(0, 160));
