/**
 * The model of the rehearsal backend: carries out the plan of the prompt, round by round, and reports from the results.
 *
 * It has no state between rounds. Its progress is read from the history, so a turn continues after a restart, and equal
 * conversations always lead to equal answers.
 */
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { NO_USAGE, type Usage } from '../../../protocol/session-types.ts';
import { isAudio } from '../../../protocol/session-words.ts';
import { fail } from '../../../wire/errors.ts';
import type { HistoryItem } from '../../contract/session-log.ts';
import { askUser } from '../../rounds/questions.ts';
import type { ModelPart, RoundModel, RoundRequest } from '../../rounds/round-model.ts';
import type { ToolOffer } from '../../rounds/toolbox.ts';
import { type TalkDirective, type ToolDirective, UNDERSTOOD } from './directives.ts';
import { planOf, type Step } from './plan.ts';
import { reportOf } from './reports.ts';

/** The first line of the first answer of a conversation. */
export const REHEARSAL_BANNER =
  'Rehearsal backend: no model is configured; I follow simple directives. Token counts are estimates (4 characters each).';

export interface RehearsalOptions {
  /** Pause between two pieces of an answer, in milliseconds. Default 0: as fast as they are taken. */
  readonly pieceDelayMs?: number;
}

/** A streamed piece: about 24 characters; words are cut only when they are longer. */
const PIECE = /[\s\S]{1,24}(?:\s|$)|\S{24}|[\s\S]/gu;
/** Length of a token where nothing counts tokens. */
const CHARACTERS_PER_TOKEN = 4;

type AssistantItem = Extract<HistoryItem, { role: 'assistant' }>;
type ToolItem = Extract<HistoryItem, { role: 'tool' }>;

/** Makes the model. One serves every session. */
export function rehearsalModel({ pieceDelayMs = 0 }: RehearsalOptions = {}): RoundModel {
  return {
    async *stream(request) {
      const round = roundOf(request);
      let output = 0;
      for (const part of round.parts) {
        if (part.type === 'answer' || part.type === 'thought') {
          output += part.text.length;
          for (const text of piecesOf(part.text)) {
            yield { ...part, text };
            if (pieceDelayMs > 0) await delay(pieceDelayMs, undefined, { signal: request.signal });
            else await setImmediate(undefined, { signal: request.signal });
          }
        } else if (part.type === 'wait') await delay(part.ms, undefined, { signal: request.signal });
        else if (part.type === 'fail') throw fail('provider_error', part.text);
        else {
          output += JSON.stringify(part.input).length;
          yield part;
        }
      }
      yield { type: 'usage', usage: estimatedUsage(request.history, output) };
      yield { type: 'finish', reason: round.calls ? 'tool_calls' : 'stop' };
    },
  };
}

/** The parts of a round, in order. */
type RoundPart =
  | Extract<ModelPart, { type: 'thought' | 'answer' | 'call' }>
  | { readonly type: 'wait'; readonly ms: number }
  | { readonly type: 'fail'; readonly text: string };

function roundOf({ history, turnId, tools }: RoundRequest): { parts: readonly RoundPart[]; calls: boolean } {
  const items = history.filter(({ turn }) => turn === turnId);
  const { steps, notes } = stepsOf(items);
  const rounds = items.filter((item): item is AssistantItem => item.role === 'assistant' && item.calls !== undefined);
  const groups = steps.flatMap((step, at) => (step.kind === 'calls' ? [{ at, step }] : []));
  const finished = groups[rounds.length - 1];
  const lines: string[] = [];
  if (!history.some(({ role }) => role === 'assistant')) lines.push(REHEARSAL_BANNER);
  if (rounds.length === 0) lines.push(...notes);
  if (finished !== undefined) lines.push(...reports(finished.step.directives, rounds.at(-1) as AssistantItem, items));

  const parts: RoundPart[] = [];
  // Every line but the first of the whole answer starts on a new line.
  let started = items.some((item) => item.role === 'assistant' && item.text !== '');
  const emit = (text: string): void => {
    parts.push({ type: 'answer', text: started ? `\n${text}` : text });
    started = true;
  };
  for (const line of lines) emit(line);
  for (const step of steps.slice(finished === undefined ? 0 : finished.at + 1)) {
    if (step.kind === 'calls') {
      const round = rounds.length + 1;
      parts.push(...step.directives.map((directive, at) => callOf(directive, tools, `rehearsal_${round}_${at + 1}`)));
      return { parts, calls: true };
    }
    const done = carryOut(step.directive, emit);
    if (done !== undefined) parts.push(done);
  }
  return { parts, calls: false };
}

/** Returns the plans of the prompt and of its steers, in order. */
function stepsOf(items: readonly HistoryItem[]): { steps: Step[]; notes: string[] } {
  const prompts = items.filter((item) => item.role === 'user');
  const given = prompts.flatMap((item) => item.images ?? []);
  const images = given.filter(({ mimeType }) => !isAudio(mimeType)).length;
  const notes = [
    ...(images === 0 ? [] : [`I was given ${images === 1 ? 'an image' : `${images} images`} and cannot see images.`]),
    ...(images === given.length ? [] : ['I was given audio and cannot hear.']),
  ];
  const steps = prompts.flatMap(({ text }) => planOf(text.replace(/\[(?:Image|Audio) \d+\]/gi, ' ').trim()));
  return { steps, notes };
}

function reports(directives: readonly ToolDirective[], round: AssistantItem, items: readonly HistoryItem[]): string[] {
  const after = items.slice(items.indexOf(round) + 1);
  return directives.flatMap((directive, at) => {
    const callId = round.calls?.[at]?.callId;
    const result = after.find((item): item is ToolItem => item.role === 'tool' && item.callId === callId);
    return result === undefined ? [] : [reportOf(directive, result)];
  });
}

function carryOut(directive: TalkDirective, emit: (text: string) => void): RoundPart | undefined {
  switch (directive.kind) {
    case 'say':
      emit(directive.text);
      return undefined;
    case 'unknown':
      emit(`I do not understand "${directive.text}". I am no model; I understand:\n- ${UNDERSTOOD.join('\n- ')}`);
      return undefined;
    case 'think':
      return { type: 'thought', text: directive.text };
    case 'wait':
      return { type: 'wait', ms: directive.ms };
    case 'fail':
      return { type: 'fail', text: directive.text };
  }
}

/** Returns the tool call of a directive, in the words of the built-in tools. */
function callOf(directive: ToolDirective, tools: readonly ToolOffer[], callId: string): RoundPart {
  const call = (name: string, input: Readonly<Record<string, unknown>>): RoundPart => ({
    type: 'call',
    callId,
    name,
    input,
  });
  switch (directive.kind) {
    case 'read':
      return call('read_file', { path: directive.path });
    case 'list':
      return call('list_dir', { path: directive.path });
    case 'find':
      return call('glob', {
        patterns: directive.patterns,
        ...(directive.path !== undefined && { path: directive.path }),
      });
    case 'grep':
      return call('grep', { pattern: directive.text, literal: true, ...whereOf(directive.where) });
    case 'write':
      return call('write_file', { path: directive.path, content: directive.text, create_dirs: true });
    case 'edit':
      return call('edit_file', {
        path: directive.path,
        edits: [{ old_text: directive.from, new_text: directive.to }],
      });
    case 'run':
      return call(shellOf(tools), { command: directive.command });
    case 'fetch':
      return call('http_get', { url: directive.url });
    case 'ask':
      return call(askUser.name, {
        question: directive.question,
        ...(directive.choices.length > 0 && { choices: directive.choices }),
      });
    case 'call':
      return call(directive.tool, directive.input);
  }
}

/** Returns the place of a search: a pattern selects files; anything else is the file or folder itself. */
function whereOf(where: string | undefined): Readonly<Record<string, unknown>> {
  if (where === undefined) return {};
  return /[*?{[]/.test(where) ? { globs: [where] } : { path: where };
}

/** Hosts name their shell tool one or the other; both take a `command`. */
const shellOf = (tools: readonly ToolOffer[]): string =>
  tools.find(({ name }) => name === 'shell' || name === 'bash')?.name ?? 'shell';

/** Cuts a text in small pieces that end behind a space. */
const piecesOf = (text: string): readonly string[] => text.match(PIECE) ?? [];

function estimatedUsage(history: readonly HistoryItem[], outputCharacters: number): Usage {
  const input = tokens(history.reduce((sum, item) => sum + charactersOf(item), 0));
  const output = tokens(outputCharacters);
  return { ...NO_USAGE, input_tokens: input, output_tokens: output, total_tokens: input + output };
}

const tokens = (characters: number): number => Math.ceil(characters / CHARACTERS_PER_TOKEN);

function charactersOf(item: HistoryItem): number {
  if (item.role === 'user') return item.text.length;
  if (item.role === 'tool') return (JSON.stringify(item.result) ?? '').length;
  return item.text.length + (item.calls === undefined ? 0 : JSON.stringify(item.calls).length);
}
