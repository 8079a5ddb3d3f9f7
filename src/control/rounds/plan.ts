/**
 * `update_plan`: the task list of a session. A model lists its next steps and the finished ones; clients show the list by the
 * event `session.plan`, editors by the plan updates of the Agent Client Protocol. Where the host of the session has planning,
 * the list is a plan there too, so that others see it on a board, and change it: then the list of the session changes too, and
 * the model reads that with the next prompt, or in the result of its next call.
 *
 * Backends that think in rounds wrap their toolbox in it. It changes nothing but the list, so it needs no approval.
 */
import type { ToolCall, ToolDone } from '../../protocol/session-types.ts';
import { asError } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';
import type { Turn } from '../contract/backend.ts';
import type { HistoryItem, PlanEntry } from '../contract/session-log.ts';
import { failedCall } from './failed-call.ts';
import type { Toolbox, ToolOffer } from './toolbox.ts';

const STATUSES = ['pending', 'in_progress', 'completed'] as const;
const PRIORITIES = ['high', 'medium', 'low'] as const;
const MAX_ENTRIES = 100;
const MAX_CHARACTERS = 500;

/** The tool as the model is offered it. */
export const updatePlan: ToolOffer = {
  name: 'update_plan',
  description:
    'Replaces your task list, which the user sees. Use it for work of several steps: all steps before you begin, exactly one of them ' +
    'in_progress while you work, each completed as soon as it is. The list you give is the whole list, in order.',
  inputSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['entries'],
    properties: {
      entries: {
        type: 'array',
        maxItems: MAX_ENTRIES,
        items: {
          type: 'object',
          additionalProperties: false,
          required: ['content', 'status'],
          properties: {
            content: {
              type: 'string',
              minLength: 1,
              maxLength: MAX_CHARACTERS,
              description: 'The step, in a few words.',
            },
            status: { enum: STATUSES },
            priority: { enum: PRIORITIES },
          },
        },
      },
    },
  },
  kind: 'plan',
  risks: [],
};

/** Stores the list beside the session; undefined where nothing does. */
export type PutPlan = (entries: readonly PlanEntry[], signal: AbortSignal) => Promise<void>;

/** Returns the toolbox with `update_plan`. A tool of that name in it cannot be reached any more. */
export function withPlan(toolbox: Toolbox, turn: Pick<Turn, 'id' | 'log' | 'debug'>, put: PutPlan): Toolbox {
  return {
    async list() {
      const others = (await toolbox.list()).filter(({ name }) => name !== updatePlan.name);
      return [...others, updatePlan].sort((one, other) => (one.name < other.name ? -1 : 1));
    },
    find: (name) => (name === updatePlan.name ? updatePlan : toolbox.find(name)),
    call: (call, signal, output) =>
      call.name === updatePlan.name ? update(call, turn, put, signal) : toolbox.call(call, signal, output),
  };
}

async function update(
  call: ToolCall,
  turn: Pick<Turn, 'id' | 'log' | 'debug'>,
  put: PutPlan,
  signal: AbortSignal,
): Promise<ToolDone> {
  const { id, log } = turn;
  const { name, input, callId } = call;
  const entries = entriesOf(input.entries);
  if (typeof entries === 'string') return failedCall(call, 'invalid_input', `invalid arguments: ${entries}`);
  const { plan } = log.record;
  const unseen = plan?.elsewhere === true && !knows(log.record.history, plan.entries) ? plan.entries : undefined;
  log.emit('session.plan', { entries }, id);
  const done = entries.filter(({ status }) => status === 'completed').length;
  // The model's new list may undo changes that it did not know of.
  const result = {
    done,
    open: entries.length - done,
    ...(unseen !== undefined && { replaced_changes_of_others: unseen }),
  };
  try {
    await put(entries, signal);
  } catch (error) {
    // The user sees the list; that it is on no board is no reason to stop the work.
    turn.debug('plan_not_stored', { error: asError(error).message });
    return { name, ok: true, input, result: { ...result, stored: false }, callId };
  }
  return { name, ok: true, input, result, callId };
}

/** Gives the model its list where others changed it since it was last asked. At the start of a turn. */
export function tellPlan({ id, log }: Pick<Turn, 'id' | 'log'>): void {
  const { plan, history } = log.record;
  if (plan?.elsewhere !== true || knows(history, plan.entries)) return;
  log.remember([{ role: 'user', turn: id, text: changedText(plan.entries) }]);
}

const changedText = (entries: readonly PlanEntry[]): string =>
  `[Your task list was changed by others, on a board. It is now: ${JSON.stringify(entries)}]`;

const knows = (history: readonly HistoryItem[], entries: readonly PlanEntry[]): boolean =>
  history.some((item) => item.role === 'user' && item.text === changedText(entries));

/** Returns the entries; else a text about the fault in them. */
function entriesOf(value: unknown): PlanEntry[] | string {
  if (!Array.isArray(value) || value.length > MAX_ENTRIES)
    return `entries must be a list of at most ${MAX_ENTRIES} tasks`;
  const entries: PlanEntry[] = [];
  for (const [at, entry] of value.entries()) {
    const { content, status, priority } = isObject(entry) ? entry : {};
    if (typeof content !== 'string' || content.trim() === '') return `entries/${at}/content must be a text`;
    if (content.length > MAX_CHARACTERS) return `entries/${at}/content has more than ${MAX_CHARACTERS} characters`;
    if (!isWord(status, STATUSES)) return `entries/${at}/status must be one of ${STATUSES.join(', ')}`;
    if (priority !== undefined && !isWord(priority, PRIORITIES)) {
      return `entries/${at}/priority must be one of ${PRIORITIES.join(', ')}`;
    }
    entries.push({ content: content.trim(), status, ...(priority !== undefined && { priority }) });
  }
  return entries;
}

const isWord = <const Word extends string>(value: unknown, words: readonly Word[]): value is Word =>
  words.includes(value as Word);
