/**
 * Subagents as tools of a session's model: one call makes a subagent, gives it a task and waits, or leaves it to work behind
 * the turn.
 *
 * They are subagents of the session's own A2E session (`session-work.ts`): they may do what its principal delegates, within the
 * limits of the host, and end with the session. @see docs/models.md#subagents-and-chains
 */
import type { AgentSession } from '../../agent/agent.ts';
import { MultiAgentClient, type SubagentNotice, type SubagentOutcome } from '../../capabilities/multi_agent/client.ts';
import type { SessionWork } from '../../control/contract/session-log.ts';
import type { WorkEnd, WorkFacts, WorkKeeper } from '../../control/rounds/work.ts';
import { fail } from '../../wire/errors.ts';
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

/** Open subagents of one session. */
const MAX_OPEN = 8;
const DEFAULT_SECONDS = 1_800;
const MAX_SECONDS = 6 * 3_600;
const MAX_TOKENS = 1_000_000_000;
/** Messages of one subagent that are stored until the model asks. */
const MAX_MESSAGES = 20;
/** Messages of a channel in one reply. */
const MAX_HISTORY = 200;
const DEFAULT_HISTORY = 50;
/** Time to read a result that was delivered before, in milliseconds. */
const AGAIN_MS = 5_000;

const AGENT = { agent_id: text('Id of the subagent, as agent_run gave it.') };
const CHANNEL = { channel: text('Name of the channel.') };

/** The tools, all found by search. */
export const agentOffers = [
  foundOffer(
    'subagent',
    'agent_run',
    'Delegates a task to a subagent: another agent that works by itself and reports a result. Makes (spawns) the subagent, gives it the ' +
      'task and waits for the result. With wait_seconds 0 it works in the background: call this several times for several subagents ' +
      'at once, then agent_result. A result that comes after your turn is given to you with the next prompt.',
    [],
    {
      task: text('The whole task: the subagent knows nothing of this conversation.'),
      kind: text('The kind of subagent, as agent_list has them. Left out: the first.'),
      name: text('A short name, for the user.'),
      role: text('Its role, in a few words.'),
      criteria: texts('When the task is done.'),
      agent_id: text('A subagent that was kept: it gets this task too. No new one is made.'),
      keep: flag('True: it stays for further tasks, until agent_stop. Default false: it ends with its task.'),
      wait_seconds: waitSeconds,
      max_seconds: whole(`Longest task. Default ${DEFAULT_SECONDS}.`, 1, MAX_SECONDS),
      max_tokens: whole('Tokens that it may use.', 1, MAX_TOKENS),
      stop_with_turn: flag(
        'True: the task is cancelled when the user interrupts this turn. Default false: it continues.',
      ),
    },
    ['task'],
  ),
  foundOffer(
    'subagent',
    'agent_result',
    'Waits (awaits) for the tasks of subagents and gives their results, and what they said meanwhile, to you and in channels.',
    ['reads'],
    {
      agent_ids: texts('Ids of subagents. Left out: all of this session that have a task or an unread result.'),
      wait_seconds: waitSeconds,
    },
  ),
  foundOffer(
    'subagent',
    'agent_list',
    'Lists the kinds of subagents that can be made, and the subagents of this session with their states.',
    ['reads'],
    {},
  ),
  foundOffer(
    'subagent',
    'agent_message',
    'Sends a message to a subagent while it works.',
    [],
    { ...AGENT, message: text('The message to it.') },
    ['agent_id', 'message'],
  ),
  foundOffer(
    'subagent',
    'agent_channel',
    'Makes a channel for group talk of some subagents of this session, changes who is in it, or closes it: what you or one of them says ' +
      'there (agent_say) reaches all others in it, in one order, and stays readable (agent_history). Tell them its name with their tasks.',
    ['reads'],
    {
      ...CHANNEL,
      agent_ids: texts('Ids of the subagents that are in it from now on. Left out: who is in it does not change.'),
      close: flag('True: ends the channel. Default false.'),
    },
    ['channel'],
  ),
  foundOffer(
    'subagent',
    'agent_say',
    'Says something to all in a channel: one that you made, or one that you are in as a subagent.',
    [],
    { ...CHANNEL, message: text('The message to them.') },
    ['channel', 'message'],
  ),
  foundOffer(
    'subagent',
    'agent_history',
    'Reads what was said in a channel, in its order, also before you were in it.',
    ['reads'],
    {
      ...CHANNEL,
      after: whole('Only what comes after the message with this seq. Default 0.', 0, Number.MAX_SAFE_INTEGER),
      limit: whole(`At most this many messages. Default ${DEFAULT_HISTORY}.`, 1, MAX_HISTORY),
    },
    ['channel'],
  ),
  foundOffer(
    'subagent',
    'agent_stop',
    'Cancels the task of a subagent and ends (terminates) the subagent.',
    ['reads'],
    { ...AGENT, keep: flag('True: only its task is cancelled. Default false.') },
    ['agent_id'],
  ),
] as const;

/** The subagents of one session. */
export class SessionAgents {
  readonly #client: MultiAgentClient;
  readonly #keeper: WorkKeeper;
  /** The task that each subagent has, by its id. */
  readonly #tasks = new Map<string, WorkFacts>();
  readonly #messages = new Map<string, unknown[]>();
  /** Ids of the subagents that have not ended. */
  readonly #own = new Set<string>();
  /** Channels that were made and not closed. */
  readonly #channels = new Set<string>();

  constructor(agent: AgentSession, keeper: WorkKeeper) {
    this.#client = new MultiAgentClient(agent);
    this.#keeper = keeper;
    this.#client.onEvent((notice) => this.#happened(notice));
    this.#client.onMessage((from, { type, content }) => this.#said(from, { type, content }));
    this.#client.onSaid((channel, { seq, from, message: { type, content } }) => {
      // A channel that this session is in as a subagent steers its turns; its own words are known.
      if (this.#own.has(from)) this.#said(from, { channel, seq, type, content });
    });
  }

  readonly calls: Readonly<Record<string, (input: Input, signal: AbortSignal) => Promise<unknown>>> = {
    agent_run: (input, signal) => this.#run(input, signal),
    agent_result: (input, signal) => this.#results(input, signal),
    agent_list: (_input, signal) => this.#list(signal),
    agent_message: async ({ agent_id, message }, signal) => {
      const said = { type: 'message', content: textIn(message, 'message') };
      return { delivered: await this.#client.send(textIn(agent_id, 'agent_id'), said, { signal }) };
    },
    agent_channel: async ({ channel: name, agent_ids, close = false }, signal) => {
      const channel = textIn(name, 'channel');
      if (close === true) {
        await this.#client.closeChannel(channel, { signal });
        this.#channels.delete(channel);
        return { channel, closed: true };
      }
      const { members, lastSeq } = await this.#client.channel(channel, optionalTexts(agent_ids, 'agent_ids'), {
        signal,
      });
      this.#channels.add(channel);
      return { channel, agent_ids: members, last_seq: lastSeq };
    },
    agent_say: async ({ channel, message }, signal) => {
      const said = { type: 'message', content: textIn(message, 'message') };
      return { seq: await this.#client.say(textIn(channel, 'channel'), said, { signal }) };
    },
    agent_history: (input, signal) => this.#history(input, signal),
    agent_stop: async ({ agent_id, keep = false }, signal) => {
      const subagent = this.#client.subagent(textIn(agent_id, 'agent_id'));
      return keep === true
        ? { cancelled: await subagent.cancel({ signal }) }
        : { terminated: await subagent.terminate({ signal }) };
    },
  };

  /** True while it has subagents, channels, or messages that the model has not read. */
  get holds(): boolean {
    return this.#own.size > 0 || this.#channels.size > 0 || this.#messages.size > 0;
  }

  /** Waits for the end of a task that an earlier process began. */
  async follow({ id, subagent_id = '' }: SessionWork): Promise<WorkEnd> {
    const end = endOf(await this.#client.subagent(subagent_id).result({ taskId: id }));
    // Its end came with the end of the session that it was begun in.
    return end.state === 'cancelled' ? { ...end, state: 'interrupted' } : end;
  }

  async #run(input: Input, signal: AbortSignal): Promise<unknown> {
    const task = textIn(input.task, 'task');
    const timeoutSeconds = wholeIn(input.max_seconds, 'max_seconds', 1, MAX_SECONDS) ?? DEFAULT_SECONDS;
    const criteria = optionalTexts(input.criteria, 'criteria');
    const waitMs = waitMsOf(input.wait_seconds);
    const known = optionalText(input.agent_id, 'agent_id');
    const subagent =
      known === undefined ? await this.#spawn(input, timeoutSeconds, signal) : this.#client.subagent(known);
    const isKept = input.keep === true || (known !== undefined && input.keep === undefined);
    const name = await this.#nameOf(subagent.id, signal);
    let id: string;
    try {
      id = await subagent.delegate(task, given({ timeoutSeconds, criteria, signal }));
    } catch (error) {
      if (known === undefined) await subagent.terminate().catch(() => {});
      throw error;
    }
    const facts: WorkFacts = { id, kind: 'subagent', name, about: task.slice(0, 160), subagent_id: subagent.id };
    this.#tasks.set(subagent.id, facts);
    const ended = subagent.result({ taskId: id }).then(async (outcome) => {
      this.#tasks.delete(subagent.id);
      if (!isKept) await subagent.terminate().catch(() => {});
      return endOf(outcome);
    });
    this.#keeper.begin(facts, ended);
    try {
      const end = await this.#keeper.wait(id, waitMs, signal);
      return { agent_id: subagent.id, ...this.#shown(subagent.id, end) };
    } catch (error) {
      if (input.stop_with_turn === true) await subagent.cancel().catch(() => {});
      throw error;
    }
  }

  async #spawn(input: Input, timeoutSeconds: number, signal: AbortSignal) {
    const open = (await this.#client.list({ signal })).filter((one) => one.open === true);
    if (open.length >= MAX_OPEN) {
      throw fail(
        'over_capacity',
        `this session has ${MAX_OPEN} subagents; end one with agent_stop, or give one a task`,
      );
    }
    const kind = optionalText(input.kind, 'kind');
    const name = optionalText(input.name, 'name') ?? kind ?? 'subagent';
    const tokens = wholeIn(input.max_tokens, 'max_tokens', 1, MAX_TOKENS);
    const role = optionalText(input.role, 'role');
    const budget = tokens === undefined ? undefined : { tokens };
    const subagent = await this.#client.spawn(name, given({ kind, role, timeoutSeconds, budget, signal }));
    this.#own.add(subagent.id);
    return subagent;
  }

  async #nameOf(id: string, signal: AbortSignal): Promise<string> {
    const { name = id } = (await this.#client.list({ signal })).find((one) => one.subagent_id === id) ?? {};
    return name;
  }

  async #results({ agent_ids, wait_seconds }: Input, signal: AbortSignal): Promise<unknown> {
    const own = this.#keeper.work.filter(({ kind }) => kind === 'subagent');
    const wanted = optionalTexts(agent_ids, 'agent_ids') ?? own.map(({ subagent_id = '' }) => subagent_id);
    const waitMs = waitMsOf(wait_seconds);
    const results = await Promise.all(
      [...new Set(wanted)].map(async (agent_id) => {
        const work = own.findLast(({ subagent_id }) => subagent_id === agent_id);
        const end = work === undefined ? await this.#again(agent_id) : await this.#keeper.wait(work.id, waitMs, signal);
        return { agent_id, ...(work !== undefined && { name: work.name }), ...this.#shown(agent_id, end) };
      }),
    );
    return { results };
  }

  /** Returns a result that was delivered before. */
  async #again(id: string): Promise<WorkEnd | undefined> {
    const ended = this.#client.subagent(id).result({ timeoutMs: AGAIN_MS }).then(endOf);
    return ended;
  }

  #shown(agentId: string, end: WorkEnd | undefined) {
    const messages = this.#messages.get(agentId) ?? [];
    this.#messages.delete(agentId);
    return {
      ...(end === undefined ? { state: 'running' } : { state: end.state, result: end.result }),
      ...(messages.length > 0 && { messages }),
    };
  }

  async #list(signal: AbortSignal): Promise<unknown> {
    const [kinds, subagents] = await Promise.all([this.#client.kinds({ signal }), this.#client.list({ signal })]);
    return {
      kinds: kinds.map(({ kind, about }) => ({ kind, about })),
      subagents: subagents.map(({ subagent_id: agent_id, name, kind, status, task, usage }) =>
        given({ agent_id, name, kind, status, task, usage }),
      ),
    };
  }

  async #history({ channel, after, limit }: Input, signal: AbortSignal): Promise<unknown> {
    const messages = await this.#client.history(
      textIn(channel, 'channel'),
      given({
        after: wholeIn(after, 'after', 0, Number.MAX_SAFE_INTEGER),
        limit: wholeIn(limit, 'limit', 1, MAX_HISTORY) ?? DEFAULT_HISTORY,
        signal,
      }),
    );
    return {
      messages: messages.map(({ seq, from, message: { type, content } }) => ({
        seq,
        from: from === '' ? 'the agent that made the channel' : from,
        type,
        content,
      })),
    };
  }

  #said(
    from: string,
    message: { readonly channel?: string; readonly content: unknown; readonly [more: string]: unknown },
  ) {
    this.#messages.set(from, [...(this.#messages.get(from) ?? []), message].slice(-MAX_MESSAGES));
    const facts = this.#tasks.get(from);
    const { channel, content } = message;
    const where = channel === undefined ? '' : `in ${channel}: `;
    if (facts !== undefined) this.#keeper.note(facts, 'message', where + shownText(content));
  }

  /**
   * Takes a notice of the host about a subagent, or about one below it. Begin and end of the tasks of this session are known
   * otherwise.
   */
  #happened({ subagentId, event, content }: SubagentNotice): void {
    const own = this.#tasks.get(subagentId);
    if (event === 'terminated') this.#own.delete(subagentId);
    const { message, pct, depth = 1 } = content;
    const said = [typeof pct === 'number' ? `${Math.round(pct)} %` : '', shownText(message)];
    const line = said.filter((part) => part !== '').join(' ');
    if (own !== undefined) {
      if (event === 'progress') this.#keeper.note(own, event, line);
      return;
    }
    if (typeof depth !== 'number' || depth < 2) return;
    const below: WorkFacts = { id: subagentId, kind: 'subagent', name: subagentId, about: '', subagent_id: subagentId };
    this.#keeper.note(below, event === 'started' || event === 'completed' ? `below: ${event}` : event, line);
  }
}

const shownText = (value: unknown): string =>
  value === undefined ? '' : typeof value === 'string' ? value : (JSON.stringify(value) ?? '');

/** States by the codes of failures; any other is a failure. */
const STATES: Readonly<Record<string, string>> = {
  'multi_agent.cancelled': 'cancelled',
  'multi_agent.terminated': 'cancelled',
  'multi_agent.interrupted': 'interrupted',
};

function endOf({ status, result, error, code, score, verified }: SubagentOutcome): WorkEnd {
  if (status === 'COMPLETED') {
    return {
      state: 'completed',
      result: score === undefined && verified === undefined ? result : given({ result, score, verified }),
    };
  }
  return { state: STATES[code] ?? 'failed', result: { error: error ?? '', code } };
}
