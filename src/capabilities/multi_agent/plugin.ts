/**
 * The multi_agent capability of a host: agents make subagents, give them tasks, wait for results and end them.
 *
 * Host builders call `multiAgentPlugin()`. Both forms of the requests, `multi_agent/*` and `SUBAGENT_*`, share the subagents.
 * @see docs/multi-agent.md
 */

import type { Log } from '../../base/log.ts';
import { orAborted } from '../../base/race.ts';
import { answerSchemaProblem } from '../../base/value-check.ts';
import type { CallContext } from '../../host/context.ts';
import { definePlugin, handle, type Plugin } from '../../host/plugin.ts';
import { waiting } from '../../host/waiting.ts';
import type { ToolRules } from '../../session/principal.ts';
import { fail, HandfastError } from '../../wire/errors.ts';
import { toolCall } from '../tools/messages.ts';
import type { SubagentBackend } from './backend.ts';
import { failure } from './errors.ts';
import { functionBackend, type SubagentFunction } from './functions.ts';
import { completed, type Ended, type Merged, merge, type Strategy } from './merge.ts';
import * as messages from './messages.ts';
import type * as schema from './multi_agent.schema.ts';
import { multiAgentOffer } from './offer.ts';
import { programBackend } from './programs.ts';
import type { Delegable } from './rights.ts';
import {
  objectOf,
  type Subagent,
  type SubagentReport,
  type SubagentSettings,
  type SubagentStatus,
} from './subagent.ts';
import { type Kind, Subagents } from './subagents.ts';
import { Talk } from './talk.ts';
import type { StoredTask, TaskSpec } from './task.ts';

/** A kind of subagent: a function, a program, or a backend. */
export interface SubagentKindOptions {
  /** The name by which agents spawn it. */
  readonly name: string;
  /** Its purpose, for agents. */
  readonly about?: string | undefined;
  /** A function of this process. */
  readonly run?: SubagentFunction | undefined;
  /** A program that speaks A2E as an agent over its pipes. */
  readonly command?: readonly string[] | undefined;
  readonly cwd?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | ReadonlyMap<string, string> | undefined;
  readonly passEnv?: readonly string[] | undefined;
  /** Any other backend. */
  readonly backend?: SubagentBackend | undefined;
  /**
   * An executor of the fleet, by its settings; made by `backendOf` of the options.
   * @internal
   */
  readonly executor?: { readonly kind: string } | undefined;
  /**
   * Tasks of the fleet of the server, by their settings; made by `backendOf` of the options.
   * @internal
   */
  readonly fleet?: object | undefined;
  /**
   * Sessions of the server, by their settings; made by `backendOf` of the options.
   * @internal
   */
  readonly session?: object | undefined;
  /** Maximum of its capabilities. Default: all that are delegated to it. */
  readonly capabilities?: readonly string[] | undefined;
  /** Maximum of its tools. */
  readonly tools?: ToolRules | undefined;
  /** Rights of its own subagents, within those that are delegated to it. Default: all rights of the subagent. */
  readonly delegate?: Delegable | undefined;
  /** Longest task. Default 3,600. */
  readonly maxSeconds?: number | undefined;
  /** Maximum number of concurrent subagents of this kind. Default: no limit for the kind. */
  readonly maxRunning?: number | undefined;
}

export interface MultiAgentPluginOptions {
  /** The first is the default. Default none: no subagent can be made. */
  readonly kinds?: readonly SubagentKindOptions[] | undefined;
  /**
   * Makes the backend of a kind with an executor, a fleet or a session; supplied by the assembly of the host.
   * @internal
   */
  readonly backendOf?:
    | ((kind: Pick<SubagentKindOptions, 'executor' | 'fleet' | 'session'>, log: Log) => Promise<SubagentBackend>)
    | undefined;
  /** Open subagents of one principal. Default 16. */
  readonly maxSubagents?: number | undefined;
  /** Maximum depth of subagents below subagents; 1 allows none. Default 3. */
  readonly maxDepth?: number | undefined;
  /** Ended subagents of one agent whose results stay. Default 100. */
  readonly maxEnded?: number | undefined;
  /** Characters of a result. Default 256 Ki. */
  readonly maxResultChars?: number | undefined;
}

const DEFAULT_TASK_MS = 3_600_000;

/** The contents of both forms of a spawn request. */
interface Asked {
  readonly name: string;
  readonly role: string;
  readonly model: string;
  readonly kind: string;
  readonly systemPrompt: string;
  readonly maxSteps: number;
  readonly timeoutSeconds: number | undefined;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly capabilities: readonly string[];
  readonly toolScope: SubagentSettings['toolScope'];
  readonly memoryScope: SubagentSettings['memoryScope'];
  readonly budget: schema.SubagentBudget;
}

export function multiAgentPlugin(options: MultiAgentPluginOptions = {}): Plugin {
  const kinds = (options.kinds ?? []).map((kind) => kindOf(kind, options.backendOf));
  const subagents = new Subagents({
    maxSubagents: options.maxSubagents ?? 16,
    maxDepth: options.maxDepth ?? 3,
    maxEnded: options.maxEnded ?? 100,
    maxResultChars: options.maxResultChars ?? 256 * 1024,
  });

  const talk = new Talk(subagents);

  const spawn = (asked: Asked, context: CallContext): Promise<Subagent> => {
    const kind = chosen(kinds, asked);
    const timeoutMs = kind.timeoutMs ?? DEFAULT_TASK_MS;
    if (!Number.isInteger(asked.maxSteps) || asked.maxSteps < 1) {
      throw failure('invalid', 'max_steps must be at least 1', { field: 'max_steps' });
    }
    const settings: SubagentSettings = {
      name: asked.name,
      role: asked.role,
      model: asked.model,
      systemPrompt: asked.systemPrompt,
      kind: kind.name,
      maxSteps: asked.maxSteps,
      timeoutMs: Math.min(timeoutMs, (asked.timeoutSeconds ?? Number.POSITIVE_INFINITY) * 1000),
      metadata: asked.metadata,
      asked: asked.capabilities,
      toolScope: asked.toolScope,
      memoryScope: asked.memoryScope,
      capabilities: kind.capabilities,
      tools: kind.tools,
      delegate: kind.delegate,
    };
    return subagents.spawn(kind, settings, asked.budget, context);
  };

  const delegate = async (id: string, spec: TaskSpec, context: CallContext) => {
    const subagent = subagents.find(id, context);
    // Checked before the task spends anything.
    const problem = spec.resultSchema === undefined ? null : await answerSchemaProblem(spec.resultSchema);
    if (problem !== null)
      throw failure('invalid', `result_schema cannot be used: ${problem}`, { field: 'result_schema' });
    try {
      const task = await subagent.delegate(spec);
      return { accepted: true, status: subagent.status, task_id: task.id };
    } catch (thrown) {
      if (!(thrown instanceof HandfastError)) throw thrown;
      const { code, message, detail } = thrown;
      return { accepted: false, status: subagent.status, refusal: { code, message, detail } };
    }
  };

  /** Waits until a task has ended, and its end is stored. */
  const ended = async (
    id: string,
    taskId: string | undefined,
    context: CallContext,
    follow: (task: string, report: SubagentReport) => void = () => {},
  ) => {
    const subagent = subagents.find(id, context);
    const { task } = subagent;
    const isOther = task === undefined || (taskId && taskId !== task.id);
    const unfollow = isOther ? () => {} : subagent.follow((report) => follow(task.id, report));
    const stored = await waiting(context, orAborted(subagent.ended(taskId), context.signal)).finally(unfollow);
    if (stored === undefined) throw failure('no_task', 'this subagent has no such task; delegate one first');
    const { result = null, error = null, state = 'FAILED', code, detail, score, verified } = stored.end ?? {};
    return {
      subagent_id: subagent.id,
      state,
      more: {
        result,
        error,
        task_id: stored.task_id,
        usage: stored.usage,
        ...(code !== undefined && { code }),
        ...(detail !== undefined && { detail }),
        ...(score !== undefined && { score }),
        ...(verified !== undefined && { verified }),
      },
    };
  };

  /** Ends a subagent. Resolves with false if it had ended already. */
  const ends = async (id: string, context: CallContext): Promise<boolean> => {
    const subagent = subagents.find(id, context);
    const wasOpen = subagent.isOpen;
    await subagent.end('TERMINATED', failure('terminated', 'the agent above ended the subagent'));
    // Rejects if the end of its last task could not be stored: then only this host has the result.
    await orAborted(subagent.ended(), context.signal);
    return wasOpen;
  };

  /** Returns the last ends of some subagents, each once; of a running one once it has ended. */
  const endsOf = async (ids: readonly string[], wait: boolean, context: CallContext): Promise<Ended[]> =>
    Promise.all(
      // Finds all of them before it waits for any: an unknown one fails the request at once.
      [...new Set(ids)]
        .map((id) => subagents.find(id, context))
        .map(async (subagent) => {
          const isRunning = subagent.task !== undefined;
          const last =
            isRunning && !wait
              ? subagent.stored(undefined)
              : await waiting(context, orAborted(subagent.ended(), context.signal));
          return { id: subagent.id, name: subagent.settings.name, end: last?.end, order: last?.order ?? 0 };
        }),
    );

  const mergeWith = async (
    ids: readonly string[],
    strategy: Strategy | 'tool',
    {
      field,
      tool = '',
      wait = true,
    }: { field?: string | undefined; tool?: string | undefined; wait?: boolean | undefined },
    context: CallContext,
  ): Promise<Merged> => {
    if (ids.length === 0) throw failure('invalid', 'there is nothing to merge', { field: 'subagent_ids' });
    if (strategy === 'tool' && tool === '') throw failure('invalid', 'the tool is missing', { field: 'tool' });
    const ended = await endsOf(ids, wait, context);
    if (strategy !== 'tool') return merge(ended, strategy, field);
    const done = completed(ended);
    const { result, from, failed } = merge(ended, 'concat');
    if (result === null) return { result, from, failed };
    const results = done.map(({ id, name, result: one, end }) => ({
      subagent_id: id,
      name,
      result: one,
      ...(end?.score !== undefined && { score: end.score }),
    }));
    const { data } = await context.call(toolCall, { tool_name: tool, arguments: { results } });
    if (data.success !== true) throw failure('failed', `the tool ${tool} failed`, { tool });
    return { result: objectOf(data.data), from, failed };
  };

  const described = (subagent: Subagent) => ({ subagent, ...subagents.agentsAbove(subagent) });

  return definePlugin({
    name: 'multi_agent',
    type: 'multi_agent',
    ...multiAgentOffer(options),
    start: (context) => subagents.start(context),
    async stop() {
      await subagents.stop();
      await Promise.all(kinds.map(({ backend }) => backend.stop?.()));
    },
    opened: (session) => subagents.opened(session),
    closed(session) {
      subagents.closed(session);
      talk.closed(session);
    },
    methods: [
      handle(messages.spawn, async (request, context) => {
        const subagent = await spawn(
          {
            name: request.name,
            role: request.role ?? '',
            model: request.model ?? DEFAULT_MODEL,
            kind: request.kind ?? '',
            systemPrompt: request.system_prompt ?? '',
            maxSteps: request.max_steps ?? 20,
            timeoutSeconds: request.timeout_seconds,
            metadata: request.metadata ?? {},
            capabilities: request.capabilities ?? [],
            toolScope: request.tool_scope ?? 'shared',
            memoryScope: request.memory_scope ?? 'shared',
            budget: request.budget ?? {},
          },
          context,
        );
        return { subagent_id: subagent.id, status: plain(subagent.status), kind: subagent.settings.kind };
      }),
      handle(messages.delegate, async (request, context) => {
        const reply = await delegate(
          request.subagent_id,
          {
            name: request.task_name,
            instruction: request.instruction,
            criteria: request.success_criteria ?? [],
            resultSchema: request.result_schema,
            metadata: request.metadata ?? {},
            timeoutMs: (request.timeout_seconds ?? Number.POSITIVE_INFINITY) * 1000,
          },
          context,
        );
        return { ...reply, status: plain(reply.status) };
      }),
      handle(messages.awaitTask, async ({ subagent_id, task_id }, context) => {
        const follow = (task: string, report: SubagentReport) => reported(task, report, context);
        const { state, more, ...rest } = await ended(subagent_id, task_id, context, follow);
        return { ...rest, status: plain(state), ...more };
      }),
      handle(messages.list, ({ all = false }, context) => ({
        subagents: subagents.list(context, all).map((one) => summaryOf(described(one))),
      })),
      handle(messages.terminate, async ({ subagent_id }, context) => ({
        success: await ends(subagent_id, context),
        subagent_id,
      })),
      handle(messages.kinds, () => ({
        kinds: kinds.map(({ name, about, backend }) => ({ kind: name, about, backend: backend.name })),
      })),
      handle(messages.cancel, async ({ subagent_id }, context) => ({
        success: await subagents.find(subagent_id, context).cancel(),
        subagent_id,
      })),
      handle(messages.merge, async ({ subagent_ids, strategy = 'concat', ...how }, context) => {
        const { result, from, failed } = await mergeWith(subagent_ids, strategy, how, context);
        return { result, from: [...from], failed: [...failed] };
      }),
      handle(messages.message, ({ to, message }, context) => ({ delivered: talk.send('', to, message, context) })),
      handle(messages.channel, (request, context) => {
        const { name, members, seq } = talk.set(request, context);
        return { channel: name, members: [...members], last_seq: seq };
      }),
      handle(messages.say, ({ channel, message }, context) => ({ seq: talk.say(channel, message, context) })),
      handle(messages.history, ({ channel, after = 0, limit = 100 }, context) =>
        talk.history(channel, after, Math.min(limit, 1_000), context),
      ),
      handle(messages.task, async ({ wait_seconds }, context) => {
        const { fetched } = running(subagents.self(context.session));
        const waitMs = wait_seconds === undefined ? undefined : wait_seconds * 1000;
        return { task: (await (fetched && waiting(context, fetched.next(context.signal, waitMs)))) ?? null };
      }),
      handle(messages.progress, ({ task_id, message, percent, tokens, cost_usd, steps }, { session }) => {
        const { fetched } = running(subagents.self(session));
        const spending = { tokens, costUsd: cost_usd, steps };
        return { ended: fetched?.report(task_id, { message, percent }, spending) !== true };
      }),
      handle(messages.finish, ({ task_id, result, error, score }, { session }) => {
        const { fetched } = running(subagents.self(session));
        const outcome = typeof error === 'string' ? { error } : { result, score };
        return { accepted: fetched?.finish(task_id, outcome) === true };
      }),
      handle(messages.subagentSpawn, async ({ agent }, context) => {
        if (agent.memory_scope === 'snapshot') {
          throw failure(
            'invalid',
            'memory_scope snapshot is not served: the memory has no copy of a moment; use shared, or isolated for none of it',
            {
              field: 'agent.memory_scope',
            },
          );
        }
        const subagent = await spawn(
          {
            name: agent.name,
            role: agent.role ?? '',
            model: agent.model,
            kind: '',
            systemPrompt: agent.system_prompt ?? '',
            maxSteps: agent.max_steps ?? 40,
            timeoutSeconds: agent.timeout_seconds ?? 600,
            metadata: agent.metadata ?? {},
            capabilities: agent.capabilities ?? [],
            toolScope: agent.tool_scope ?? 'restricted',
            memoryScope: agent.memory_scope ?? 'shared',
            budget: {},
          },
          context,
        );
        return { subagent_id: subagent.id, status: subagent.status };
      }),
      handle(messages.subagentDelegate, ({ subagent_id, task }, context) =>
        delegate(
          subagent_id,
          {
            name: task.name,
            instruction: task.instruction,
            criteria: task.success_criteria ?? [],
            resultSchema: task.result_schema,
            metadata: task.metadata ?? {},
            timeoutMs: Number.POSITIVE_INFINITY,
          },
          context,
        ),
      ),
      handle(messages.subagentAwait, async ({ subagent_id }, context) => {
        const { state, more, ...rest } = await ended(subagent_id, undefined, context);
        return { ...rest, status: state, ...more };
      }),
      handle(messages.subagentList, (_request, context) => ({
        subagents: subagents.list(context, false).map((one) => infoOf(described(one))),
      })),
      handle(messages.subagentMessage, ({ from_subagent_id, to_subagent_id, message }, context) => ({
        delivered: talk.send(from_subagent_id, to_subagent_id, message, context),
      })),
      handle(messages.subagentMerge, async ({ subagent_ids, strategy = 'hierarchical_summary', tool }, context) => {
        const known = OTHER_STRATEGIES[strategy];
        if (known === undefined) {
          throw failure('invalid', `there is no strategy ${JSON.stringify(strategy.slice(0, 64))}`, {
            field: 'strategy',
          });
        }
        const { result } = await mergeWith(subagent_ids, known, { tool }, context);
        return { merged_result: result ?? {} };
      }),
      handle(messages.subagentCancel, async ({ subagent_id }, context) => {
        const success = await subagents.find(subagent_id, context).cancel();
        return { subagent_id, event: 'cancelled', content: { success } };
      }),
      handle(messages.subagentTerminate, async ({ subagent_id }, context) => {
        const success = await ends(subagent_id, context);
        return { subagent_id, event: 'terminated', content: { success } };
      }),
    ],
  });
}

const DEFAULT_MODEL = 'default';

/** The strategies of the upper-case form, by its names. */
const OTHER_STRATEGIES: Readonly<Record<string, Strategy | 'tool' | undefined>> = Object.assign(Object.create(null), {
  hierarchical_summary: 'concat',
  voting: 'vote',
  custom: 'tool',
  concat: 'concat',
  vote: 'vote',
  first_success: 'first_success',
  best_by_score: 'best_by_score',
  tool: 'tool',
});

/** Sends a report of a task to an agent that waits for its end. */
function reported(task: string, { taskId, progress, usage }: SubagentReport, { emit, signal }: CallContext): void {
  if (taskId !== task || signal.aborted) return;
  const { message, percent } = progress;
  // Totals: a report that the next one replaces has no information that the next one lacks.
  const data = {
    ...(message !== undefined && { message }),
    ...(percent !== undefined && { pct: percent }),
    usage: { ...usage },
  };
  emit('progress', data)?.catch(() => {});
}

/** Returns the kind that a request names as its kind or as its model; else the first. */
function chosen(kinds: readonly Kind[], { kind, model }: Pick<Asked, 'kind' | 'model'>): Kind {
  const [first] = kinds;
  if (first === undefined) {
    throw failure(
      'not_configured',
      'no kind of subagent is configured; add one to kinds in the options of the plugin multi_agent',
    );
  }
  const named = kinds.find(({ name }) => name === (kind === '' ? model : kind));
  if (named !== undefined || kind === '') return named ?? first;
  const names = kinds.map(({ name }) => name);
  throw failure('unknown_kind', `there is no kind ${JSON.stringify(kind.slice(0, 64))} of subagents`, { kinds: names });
}

function running(subagent: Subagent): Partial<Pick<NonNullable<Subagent['running']>, 'fetched'>> {
  return subagent.running ?? {};
}

/** Maps a status to one of the five of `multi_agent/*`. */
const plain = (status: SubagentStatus): string => PLAIN[status] ?? status;

const PLAIN: { readonly [Status in SubagentStatus]?: string } = { CANCELLED: 'FAILED', WAITING: 'RUNNING' };

interface Described {
  readonly subagent: Subagent;
  readonly parent: string;
  readonly root: string;
}

function summaryOf({ subagent, parent, root }: Described): schema.SubagentSummary {
  const { id, settings, status, backend, depth, isOpen, createdAt, endedAt, session, controlSession, tasks } = subagent;
  const last: StoredTask | undefined = tasks.at(-1);
  return {
    subagent_id: id,
    name: settings.name,
    status: plain(status),
    role: settings.role,
    model: settings.model,
    kind: settings.kind,
    backend,
    parent_agent_id: parent,
    root_agent_id: root,
    depth,
    open: isOpen,
    task: last?.name ?? '',
    created_at: createdAt / 1000,
    ended_at: endedAt / 1000,
    session_id: session?.id ?? '',
    ...(controlSession !== '' && { control_session_id: controlSession }),
    ...(status === 'WAITING' && { waiting: true }),
    ...(last !== undefined && { usage: last.usage }),
    metadata: settings.metadata,
  };
}

function infoOf({ subagent, parent, root }: Described): schema.SubagentInfo {
  const { id, settings, status, depth } = subagent;
  const { name, role, model, systemPrompt, asked, memoryScope, toolScope, maxSteps, timeoutMs, metadata } = settings;
  return {
    subagent_id: id,
    name,
    status,
    parent_agent_id: parent,
    root_agent_id: root,
    depth,
    config: {
      name,
      role: role === '' ? null : role,
      model,
      system_prompt: systemPrompt === '' ? null : systemPrompt,
      capabilities: [...asked],
      memory_scope: memoryScope,
      tool_scope: toolScope,
      max_steps: maxSteps,
      timeout_seconds: Math.ceil(timeoutMs / 1000),
      metadata,
    },
  };
}

/** Returns a backend that is loaded with its first subagent. */
function laterBackend(name: string, load: (log: Log) => Promise<SubagentBackend>): SubagentBackend {
  let loading: Promise<SubagentBackend> | undefined;
  return {
    name,
    async open(subagent, host) {
      loading ??= load(host.log);
      // A failed load is retried.
      loading.catch(() => {
        loading = undefined;
      });
      return (await loading).open(subagent, host);
    },
    stop: async () => (await loading?.catch(() => undefined))?.stop?.(),
  };
}

function kindOf(options: SubagentKindOptions, backendOf: MultiAgentPluginOptions['backendOf']): Kind {
  const { name, about = '', run, command = [], backend, executor, fleet, session, maxSeconds, ...rest } = options;
  const made = (): SubagentBackend => {
    if (backend !== undefined) return backend;
    if (run !== undefined) return functionBackend(run);
    const later = executor?.kind ?? (fleet !== undefined ? 'fleet' : session !== undefined ? 'session' : undefined);
    if (later !== undefined && backendOf !== undefined) {
      return laterBackend(later, (log) => backendOf({ executor, fleet, session }, log));
    }
    if (command.length > 0) return programBackend({ command, ...rest });
    throw fail(
      'config_invalid',
      `the kind ${JSON.stringify(name)} of subagents needs a command, an executor, a fleet or a session`,
    );
  };
  const { capabilities, tools, delegate, maxRunning } = rest;
  return {
    name,
    about,
    backend: made(),
    capabilities,
    tools,
    delegate,
    maxRunning,
    ...(maxSeconds !== undefined && { timeoutMs: maxSeconds * 1000 }),
  };
}
