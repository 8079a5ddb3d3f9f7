/**
 * The `rehearsal` executor works without a model. It follows simple directives of the brief, really reads, writes and runs, and
 * counts the tokens a model would have used (four characters each). A fleet, its policies and its budgets can be tried with it
 * in a real repository at no cost. The same brief always has the same effect.
 *
 * `rehearsal-plan.ts` lists the directives.
 */
import { setTimeout as delay, setImmediate as turnOfLoop } from 'node:timers/promises';
import type { Log } from '../../../base/log.ts';
import type { Usage } from '../../../protocol/fleet.ts';
import { asError } from '../../../wire/errors.ts';
import { askWhileRunning } from '../ask.ts';
import { ContextMap } from '../context-map.ts';
import type { Execution, Executor, ExecutorContext, ExecutorOutcome, ExecutorTask } from '../executor.ts';
import { RunningTurns } from '../running-turns.ts';
import { appendText, type Deeds, readText, runCommand, writeText } from './rehearsal-deeds.ts';
import { type Directive, directivesOf, UNDERSTOOD } from './rehearsal-plan.ts';
import { resultOf, type TurnSummary } from './rehearsal-result.ts';

/** The first line of every reply, which distinguishes it from the reply of a model. */
export const REHEARSAL_BANNER =
  'Rehearsal executor: no model; I follow simple directives. Tokens are counted at 4 characters each.';

export interface RehearsalOptions {
  /** File that stores its conversations; undefined: in memory. */
  readonly contextFile?: string;
  readonly log?: Pick<Log, 'warn'>;
}

/** Data of a conversation, stored between its turns. */
interface StoredTurn {
  /** Characters sent and received in it. */
  readonly characters: number;
  /** Outcome of its last turn, repeated when a repair requests only the result block. */
  readonly last: TurnSummary;
}

/** Characters that count as one token. */
const CHARACTERS_PER_TOKEN = 4;
/** Number of steps in which tokens are spent, so that a budget can stop the turn in between. */
const SPENDING_STEPS = 20;

const tokensOf = (characters: number): number => Math.ceil(characters / CHARACTERS_PER_TOKEN);

/** Makes the executor. */
export function rehearsalExecutor({ contextFile, log }: RehearsalOptions = {}): Executor {
  const contexts = new ContextMap<StoredTurn>({
    file: contextFile,
    read: readStored,
    damaged: (movedTo) => log?.warn('quarantined the damaged conversations of the rehearsal', { movedTo }),
  });
  const turns = new RunningTurns();
  return {
    kind: 'rehearsal',
    canSteer: true,
    canAsk: true,
    probe: async () => ({ present: true, authenticated: true, detail: 'follows directives without a model' }),
    hasConversation: (contextId) => contexts.has(contextId),
    start(task, context): Execution {
      const turn = new RehearsalTurn(task, turns.inside(context), contexts);
      return { outcome: turns.add(turn.run()), steer: async (text) => turn.steer(text) };
    },
    measureOverhead: async () => tokensOf(REHEARSAL_BANNER.length),
    stop: () => turns.stop(),
  };
}

function readStored(value: Readonly<Record<string, unknown>>): StoredTurn | undefined {
  const { characters, last } = value;
  return typeof characters === 'number' && typeof last === 'object' && last !== null ? (value as never) : undefined;
}

class RehearsalTurn {
  readonly #task: ExecutorTask;
  readonly #context: ExecutorContext;
  readonly #contexts: ContextMap<StoredTurn>;
  readonly #pending: Directive[];
  readonly #before: StoredTurn | undefined;
  readonly #lines: string[] = [REHEARSAL_BANNER];
  readonly #changed = new Set<string>();
  readonly #deeds: Deeds;
  #input: number;
  #output = REHEARSAL_BANNER.length;
  #spent = 0;
  #done = 0;
  #answer: unknown;
  #withoutResult: 'no' | 'now' | 'ever' = 'no';
  #ended = false;

  constructor(task: ExecutorTask, context: ExecutorContext, contexts: ContextMap<StoredTurn>) {
    this.#task = task;
    this.#context = context;
    this.#contexts = contexts;
    this.#before = contexts.get(task.contextId);
    this.#pending = [...directivesOf(task.prompt)];
    this.#input = task.prompt.length;
    this.#deeds = {
      cwd: context.cwd,
      readOnly: task.access === 'read',
      signal: context.signal,
      started: (pid) => context.events.started(pid),
    };
  }

  steer(text: string): 'injected' | 'rejected' {
    if (this.#ended) return 'rejected';
    this.#input += text.length;
    this.#pending.push(...directivesOf(text));
    return 'injected';
  }

  async run(): Promise<ExecutorOutcome> {
    const { signal } = this.#context;
    try {
      signal.throwIfAborted();
      return await this.#all();
    } catch (error) {
      this.#ended = true;
      const reply = { text: this.#lines.join('\n'), exitCode: null, usage: this.#usage() };
      // A stopped turn returns its partial reply.
      if (signal.aborted) return { ...reply, ending: 'stopped' };
      return { ...reply, ending: 'completed', failure: asError(error).message };
    }
  }

  async #all(): Promise<ExecutorOutcome> {
    const nothingToDo = this.#pending.length === 0;
    // A repair requests only the block: the turn before has done the work.
    const turn = nothingToDo && this.#before !== undefined ? this.#before.last : await this.#follow(nothingToDo);
    this.#ended = true;
    const text = this.#reply(turn);
    this.#output = text.length;
    const usage = this.#usage();
    this.#context.events.usage(usage);
    const characters = (this.#before?.characters ?? 0) + this.#input + this.#output;
    await this.#contexts.set(this.#task.contextId, { characters, last: turn });
    return { text, ending: 'completed', exitCode: null, usage };
  }

  /** Executes the directives up to the first that fails; steered ones come last. */
  async #follow(nothingToDo: boolean): Promise<TurnSummary> {
    let trouble: string | undefined;
    if (nothingToDo) {
      this.#addLine(
        `This brief has no directive. This executor has no model; it understands:\n- ${UNDERSTOOD.join('\n- ')}`,
      );
    }
    for (let next = this.#pending.shift(); next !== undefined; next = this.#pending.shift()) {
      this.#context.signal.throwIfAborted();
      const all = this.#done + this.#pending.length + 1;
      this.#context.events.progress('running', titleOf(next), Math.floor((100 * this.#done) / all));
      if (next.kind === 'fail') throw new Error(next.text);
      try {
        this.#addLine(await this.#execute(next));
      } catch (error) {
        if (this.#context.signal.aborted) throw error;
        trouble = `${titleOf(next)}: ${asError(error).message}`;
        this.#addLine(trouble);
        break;
      }
      this.#done += 1;
      this.#context.events.usage(this.#usage());
    }
    return {
      status: nothingToDo ? 'partial' : trouble === undefined ? 'done' : this.#done > 0 ? 'partial' : 'error',
      summary: nothingToDo ? 'the brief has no directive' : `${this.#done} directives carried out`,
      files: [...this.#changed],
      next: nothingToDo ? ['Write the brief as directives.'] : this.#left(trouble),
      ...(trouble !== undefined && { trouble }),
      ...(this.#answer !== undefined && { answer: this.#answer }),
      ...(this.#withoutResult === 'ever' && { never: true }),
    };
  }

  #left(trouble: string | undefined): string[] {
    return trouble === undefined ? [] : [trouble, ...this.#pending.map(titleOf)];
  }

  async #execute(directive: Directive): Promise<string> {
    switch (directive.kind) {
      case 'read': {
        const text = await readText(this.#deeds, directive.path);
        this.#input += text.length;
        return directive.count === undefined
          ? `${directive.path}:\n${text}`
          : `${directive.path} has ${counted(text, directive.count)} ${directive.count}.`;
      }
      case 'write':
      case 'append': {
        const { path, text } = directive;
        this.#changed.add(await (directive.kind === 'write' ? writeText : appendText)(this.#deeds, path, text));
        return `${directive.kind === 'write' ? 'Wrote' : 'Appended'} ${text.length} characters to ${path}.`;
      }
      case 'run': {
        const output = await runCommand(this.#deeds, directive.command);
        this.#input += output.length;
        return output === '' ? `Ran ${directive.command}.` : `Ran ${directive.command}:\n${output}`;
      }
      case 'wait':
        await delay(directive.ms, undefined, { signal: this.#context.signal });
        return `Waited ${directive.ms} ms.`;
      case 'spend':
        await this.#spend(directive.tokens);
        return `Spent ${directive.tokens} tokens.`;
      case 'ask':
        return this.#ask(directive.question, directive.choices);
      case 'answer':
        this.#answer = directive.value;
        return `The answer: ${JSON.stringify(directive.value)}`;
      case 'no_result':
        this.#withoutResult = directive.ever ? 'ever' : 'now';
        return 'Without a result block.';
      case 'unknown':
        return `Not understood: ${directive.text}`;
      case 'say':
      case 'fail':
        return directive.text;
    }
  }

  async #spend(tokens: number): Promise<void> {
    const before = this.#spent;
    for (let step = 1; step <= SPENDING_STEPS; step += 1) {
      this.#spent = before + Math.floor((tokens * step) / SPENDING_STEPS);
      this.#context.events.usage(this.#usage());
      await turnOfLoop();
      this.#context.signal.throwIfAborted();
    }
  }

  async #ask(question: string, choices: readonly string[]): Promise<string> {
    const answer = { type: 'string', ...(choices.length > 0 && { enum: choices }) };
    const schema = { type: 'object', properties: { answer }, required: ['answer'] };
    const { allowed, content, reason } = await askWhileRunning(this.#context, {
      kind: 'question',
      title: question,
      schema,
    });
    this.#context.signal.throwIfAborted();
    if (!allowed) return `"${question}" was not answered${reason === undefined ? '' : `: ${reason}`}.`;
    const answered = JSON.stringify(content?.answer ?? content ?? null);
    this.#input += answered.length;
    return `"${question}" was answered: ${answered}`;
  }

  #addLine(text: string): void {
    this.#lines.push(text);
    this.#output += text.length + 1;
  }

  #reply(turn: TurnSummary): string {
    const prose = this.#lines.join('\n');
    const { prompt, taskId } = this.#task;
    const wanted = prompt.includes('TASK_RESULT') && this.#withoutResult === 'no' && turn.never !== true;
    return wanted ? resultOf(taskId, turn, prose, prompt) : prose;
  }

  #usage(): Usage {
    return {
      source: 'measured',
      input: tokensOf(this.#input),
      output: tokensOf(this.#output) + this.#spent,
      reasoning: 0,
      // A provider would have the earlier conversation in its cache.
      cache_read: tokensOf(this.#before?.characters ?? 0),
      cache_write: 0,
    };
  }
}

function counted(text: string, unit: 'lines' | 'words' | 'characters'): number {
  if (unit === 'characters') return [...text].length;
  if (unit === 'words') return text.split(/\s+/).filter((word) => word !== '').length;
  // The last line counts with or without its line break.
  return text === '' ? 0 : text.replace(/\n$/, '').split('\n').length;
}

/** Returns a short title of a directive. */
function titleOf(directive: Directive): string {
  switch (directive.kind) {
    case 'read':
      return directive.count === undefined
        ? `read ${directive.path}`
        : `count the ${directive.count} of ${directive.path}`;
    case 'write':
    case 'append':
      return `${directive.kind} ${directive.path}`;
    case 'run':
      return `run ${directive.command.slice(0, 200)}`;
    case 'wait':
      return `wait ${directive.ms} ms`;
    case 'spend':
      return `spend ${directive.tokens} tokens`;
    case 'ask':
      return `ask ${directive.question.slice(0, 200)}`;
    case 'no_result':
      return 'say no result';
    case 'answer':
      return 'answer';
    default:
      return `${directive.kind} ${directive.text.slice(0, 200)}`;
  }
}
