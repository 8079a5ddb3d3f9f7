/**
 * Requests that a provider refuses because of a part of them. The provider would refuse the request each time, so this request
 * and later ones leave out the part that the refusal names: a tool, attachments, data of the provider, at last the prompt
 * itself. The user gets a line about each, and the next prompt of the session works.
 *
 * Tools are left out while the session is open here; parts of the history for good (`left-out.ts`).
 * @see docs/decisions/0062-requests-that-providers-take.md and 0068-refusals-without-a-name.md
 */
import { HandfastError } from '../../../wire/errors.ts';
import type { Turn } from '../../contract/backend.ts';
import type { ModelChoice } from '../../contract/providers.ts';

import type { LeavesOut } from '../../contract/session-log.ts';
import { notedOnce } from '../../rounds/noted-once.ts';

import type { ToolOffer } from '../../rounds/toolbox.ts';
import { imagesOf } from './conversation.ts';
import { isMark, leftOutItem, withoutLeftOut } from './left-out.ts';
import type { PromptMessage } from './provider-model.ts';
import type { RoundInput } from './provider-rounds.ts';
import { strangersLast } from './tool-names.ts';

type RefusedTurn = Pick<Turn, 'id' | 'log'>;

/** A refused request, and the tools of its round. */
export interface RefusedRequest {
  readonly input: RoundInput;
  readonly tools: readonly ToolOffer[];
  /** True when it was refused so often before that one attempt is left. */
  readonly isLast: boolean;
}

/** Statuses of requests that are refused for their content; 500 with the words of a refusal alone (`failures.ts`). */
const REFUSED: ReadonlySet<unknown> = new Set([400, 413, 415, 422, 500]);
/** Words about settings and accounts: nothing of the conversation is at fault. */
const SETTINGS =
  /max(?:_output|_completion)?_tokens|temperature|top_p|reasoning[._ ]?effort|budget_tokens|stream_options|api[- ]?version|(?:unsupported|unknown|unrecognized) (?:parameter|request argument|name "(?!tools|contents))|\bmodel\b[^.]{0,60}(?:not found|not exist|unknown|invalid|deprecated|retired|access)|organization|must be verified|location is not supported|country|region/i;
const UNSUPPORTED =
  /(?:not|n't|no endpoints?[^.]{0,40}) support|unsupported|text[- ]only|not (?:a )?multimodal|tool.choice requires/i;
const ATTACHMENT = /image|picture|vision|media.?type|mime|audio|multimodal|inline_?data|base64/i;
/** Words about definitions of tools, and about calls and results that are in the conversation. */
const TOOLS_AT_ALL = /\btools?\b|function.?call|tool.?(?:use|choice)/i;
const DEFINITIONS = /\btools?\b|tool.?choice|\bfunctions?\b|grammar|schema/i;
const CALLS =
  /\bmessages?\b|\bcontents?\b|tool.?call(?!.?pars)|tool.?(?:use|result)|tool.?id|\brole\b|function.?(?:call|response)/i;
const PROVIDER_DATA = /reasoning|thinking|signature|encrypted|thought|\b(?:rs|fc|msg)_/i;
/** Characters of a reason that goes into the conversation. */
const MAX_REASON = 200;
const NAMES_SHOWN = 10;
/** Tools of one server that are refused before all of them are left out. */
const MAX_OF_SERVER = 3;

/** Possible faults where two prompts were refused, the least loss first. */
const SUSPECTS = ['foreign tools', 'earlier', 'all tools'] as const;

interface Trials {
  readonly turn: string;
  /** The next of `SUSPECTS`. */
  next: number;
  /** Tools that the last request was sent without. */
  without: readonly string[];
}

export class Refusals {
  /** Reasons by session, and by model and tool. */
  readonly #tools = new Map<string, Map<string, Map<string, string>>>();
  /** Parts that requests of a turn left out on trial, by session, where the refusal names no fault. */
  readonly #trials = new Map<string, Trials>();

  /** Returns tools that a model of a session is not given, by name. */
  toolsOf(sessionId: string, choice: ModelChoice): ReadonlyMap<string, string> {
    return this.#tools.get(sessionId)?.get(modelOf(choice)) ?? new Map();
  }

  forget(sessionId: string): void {
    this.#tools.delete(sessionId);
    this.#trials.delete(sessionId);
  }

  /** Leaves out the part that made a provider refuse a request; false: no part can be left out. */
  leaveOut(turn: RefusedTurn, choice: ModelChoice, error: HandfastError, request: RefusedRequest): boolean {
    this.#giveBack(turn, choice);
    const known = this.#known(turn, choice);
    const reason = reasonOf(error, choice);
    const named = refusedTools(error, request, known);
    for (const name of named) known.set(name, reason);
    if (named.length > 0) return true;
    const part = refusedPart(error, request.input.messages, turn);
    if (part !== undefined) return this.#leaveOutPart(turn, part, reason);
    return isRefusal(error) && wasRefusedBefore(turn) && this.#leaveOutNext(turn, choice, error, request);
  }

  /**
   * Leaves out the possible causes, one after the other, when two prompts were refused for something that is in both requests.
   */
  #leaveOutNext(turn: RefusedTurn, choice: ModelChoice, error: HandfastError, { tools }: RefusedRequest): boolean {
    const trials = this.#trialsOf(turn);
    const known = this.#known(turn, choice);
    const reason = reasonOf(error, choice);
    for (const suspect of SUSPECTS.slice(trials.next)) {
      trials.next += 1;
      if (suspect === 'earlier') {
        if (hasEarlier(turn)) return this.#leaveOutPart(turn, suspect, reason);
        continue;
      }
      // A filter reads the conversation.
      if (error.detail.reason !== 'rejected') continue;
      trials.without = namesOf(tools, known, suspect);
      for (const name of trials.without) known.set(name, `perhaps the reason why ${reason}`);
      if (trials.without.length > 0) return true;
    }
    return false;
  }

  /** Notes that the provider took a request: the tools that it was tried without stay left out. */
  taken({ log }: RefusedTurn): void {
    this.#trials.delete(log.record.id);
  }

  /** Gives back the tools that a request was tried without, in vain. */
  #giveBack(turn: RefusedTurn, choice: ModelChoice): void {
    const trials = this.#trialsOf(turn);
    for (const name of trials.without) this.#known(turn, choice).delete(name);
    trials.without = [];
  }

  #leaveOutPart(turn: RefusedTurn, part: LeavesOut['part'], reason: string): boolean {
    turn.log.remember([leftOutItem(turn.id, part, reason)]);
    notedOnce(turn, `${PARTS[part]} left out from now on: ${reason}`);
    return true;
  }

  #known({ log }: RefusedTurn, choice: ModelChoice): Map<string, string> {
    const models = this.#tools.get(log.record.id) ?? new Map<string, Map<string, string>>();
    this.#tools.set(log.record.id, models);
    const known = models.get(modelOf(choice)) ?? new Map<string, string>();
    models.set(modelOf(choice), known);
    return known;
  }

  #trialsOf({ id, log }: RefusedTurn): Trials {
    const there = this.#trials.get(log.record.id);
    if (there?.turn === id) return there;
    const trials: Trials = { turn: id, next: 0, without: [] };
    this.#trials.set(log.record.id, trials);
    return trials;
  }

  /** Returns the error of a turn. If the provider refused the content, later requests leave out the prompt of the turn. */
  ended(turn: RefusedTurn, choice: ModelChoice, error: HandfastError): HandfastError {
    if (!isRefusal(error)) return error;
    this.#giveBack(turn, choice);
    turn.log.remember([leftOutItem(turn.id, 'turn', reasonOf(error, choice))]);
    const { code, detail, retryable, message } = error;
    return new HandfastError(code, `${message}; ${WAYS_OUT}`, { detail, retryable });
  }

  /**
   * Notes that the model, or a filter, refused to answer a prompt: with it in the conversation, it would refuse the next one as
   * well.
   */
  unanswered(turn: RefusedTurn, choice: ModelChoice): void {
    const { history } = turn.log.record;
    const said = history.some(({ role, turn: of, ...item }) => of === turn.id && role === 'assistant' && isSaid(item));
    if (said && choice.provider !== 'anthropic') return;
    const reason = `${choice.provider} refused to answer it`;
    turn.log.remember([leftOutItem(turn.id, 'turn', reason)]);
    notedOnce(turn, `${reason}; ${WAYS_OUT}`);
  }
}

const WAYS_OUT =
  'the prompt is left out of later requests: send it in other words, choose another model (handfast model use ID), or begin a new session';

const PARTS: Readonly<Record<LeavesOut['part'], string>> = {
  turn: 'the prompt is',
  earlier: 'the conversation before this prompt is',
  attachments: 'the attachments of this turn are',
  all_attachments: 'the attachments of this conversation are',
  provider_data: 'the reasoning of earlier answers is',
};

const isSaid = (item: object): boolean => 'text' in item && String(item.text).trim() !== '';

const modelOf = ({ provider, model }: ModelChoice): string => `${provider}/${model}`;

const reasonOf = ({ message }: HandfastError, { provider }: ModelChoice): string => {
  const line = message.length > MAX_REASON ? `${message.slice(0, MAX_REASON)}…` : message;
  return `${provider} refused it (${line.toWellFormed()})`;
};

/** True where a provider refused a request for the content of the conversation. */
function isRefusal({ code, detail, message }: HandfastError): boolean {
  if (code !== 'provider_error') return false;
  if (detail.reason === 'refused') return true;
  return detail.reason === 'rejected' && REFUSED.has(detail.status) && !SETTINGS.test(message);
}

/** Returns the tools that a refusal is about, by name. */
function refusedTools(
  error: HandfastError,
  { input, tools, isLast }: RefusedRequest,
  known: ReadonlyMap<string, string>,
): readonly string[] {
  const { code, detail, message } = error;
  const { names } = input;
  if (code !== 'provider_error' || names.tools.length === 0) return [];
  if (detail.reason !== 'rejected' && detail.reason !== 'not_found') return [];
  const item = `${typeof detail.item === 'string' ? detail.item : ''} ${message}`;
  const all = names.tools.map(({ name }) => names.fromProvider(name));
  if (UNSUPPORTED.test(message) && TOOLS_AT_ALL.test(message) && !/schema/i.test(message)) return all;
  const foreign = namesOf(tools, known, 'foreign tools');
  const most = Number(
    /\btools\b.{0,80}?(?:maximum|at most|limit|no more than)\D{0,30}(\d+)/i.exec(message)?.[1] ?? Infinity,
  );
  const ordered = strangersLast(tools.filter(({ name }) => all.includes(name)));
  if (most < ordered.length) return ordered.slice(most).map(({ name }) => name);
  const at = /function_?declarations\[(\d+)\]/i.exec(item)?.[1] ?? /\btools[.[](\d+)/.exec(item)?.[1];
  const indexed = at === undefined ? undefined : names.tools[Number(at)]?.name;
  const quoted = [...item.matchAll(/["'`]([\w.-]{1,64})["'`]/g)].map(([, name]) => name as string);
  const given = names.tools.find(({ name }) => quoted.includes(name))?.name ?? indexed;
  if (/\btools\b|tool\b|function|schema|parameters/i.test(item) && given !== undefined) {
    const found = names.fromProvider(given);
    if (!foreign.includes(found)) return [found];
    if (isLast) return foreign;
    const server = serverOf(tools, found);
    const ofServer = tools.filter((tool) => serverOf(tools, tool.name) === server).map(({ name }) => name);
    const refused = ofServer.filter((name) => known.has(name)).length + 1;
    return refused < MAX_OF_SERVER ? [found] : ofServer.filter((name) => !known.has(name));
  }
  const isAboutSchemas = /schema|parameters/i.test(item) && /tool|function/i.test(item);
  if (!isAboutSchemas && !(isRefusal(error) && DEFINITIONS.test(item) && !CALLS.test(item))) return [];
  // Strangers' definitions are the likely ones where none is named.
  return foreign.length > 0 ? foreign : all;
}

/** Returns the names of tools that are given to the model, of strangers alone or all. */
const namesOf = (
  tools: readonly ToolOffer[],
  known: ReadonlyMap<string, string>,
  which: 'foreign tools' | 'all tools',
): readonly string[] =>
  tools
    .filter(({ name, kind }) => !known.has(name) && (which === 'all tools' || kind === 'mcp'))
    .map(({ name }) => name);

/** Returns the MCP server of a tool, the second of its tags; undefined for another tool. */
const serverOf = (tools: readonly ToolOffer[], name: string): string | undefined => {
  const tool = tools.find((each) => each.name === name);
  return tool?.kind === 'mcp' ? (tool.tags?.[1] ?? '') : undefined;
};

/** Returns the part of the history to leave out; undefined: none. */
function refusedPart(
  error: HandfastError,
  messages: readonly PromptMessage[],
  { id, log }: RefusedTurn,
): LeavesOut['part'] | undefined {
  const { detail, message } = error;
  const inTurn = withoutLeftOut(log.record.history).filter(({ turn }) => turn === id);
  const hasAttachments = messages.some(hasFile);
  const own = inTurn.some((item) => imagesOf(item).length > 0) ? 'attachments' : 'all_attachments';
  if (hasAttachments && (detail.status === 413 || (ATTACHMENT.test(message) && detail.reason !== 'auth'))) {
    return UNSUPPORTED.test(message) ? 'all_attachments' : own;
  }
  if (!isRefusal(error)) return undefined;
  const hasData = messages.some(hasProviderData);
  if (hasData && detail.reason === 'rejected') return 'provider_data';
  if (hasAttachments && detail.reason === 'rejected') return own;
  return hasData && PROVIDER_DATA.test(message) ? 'provider_data' : undefined;
}

const hasFile = (message: PromptMessage): boolean =>
  (message.role === 'user' && message.content.some(({ type }) => type === 'file')) ||
  (message.role === 'tool' &&
    message.content.some(
      ({ output }) => output.type === 'content' && output.value.some(({ type }) => type === 'file'),
    ));

const hasProviderData = (message: PromptMessage): boolean =>
  message.role === 'assistant' &&
  (message.providerOptions !== undefined ||
    message.content.some((part) => part.type === 'reasoning' || part.providerOptions !== undefined));

/** True when the turn before was left out. */
function wasRefusedBefore({ id, log }: RefusedTurn): boolean {
  const before = log.record.history.filter(({ turn }) => turn !== id);
  const last = before.at(-1);
  return before.some((item) => isMark(item) && item.turn === last?.turn && item.leavesOut.part === 'turn');
}

/** True when the conversation has messages before this turn. */
function hasEarlier({ id, log }: RefusedTurn): boolean {
  return withoutLeftOut(log.record.history).some(({ turn, role }) => turn !== id && role !== 'user');
}

/** Returns a line about tools that a provider is not given. */
export function toolsNotice(
  provider: string,
  leftOut: readonly { readonly name: string; readonly reason: string }[],
): string {
  const shown = leftOut.slice(0, NAMES_SHOWN).map(({ name, reason }) => `${name} (${reason})`);
  const more = leftOut.length > NAMES_SHOWN ? `, and ${leftOut.length - NAMES_SHOWN} more` : '';
  return `${leftOut.length === 1 ? 'a tool is' : 'tools are'} left out for ${provider}: ${shown.join(', ')}${more}`;
}
