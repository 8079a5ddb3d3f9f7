/**
 * The tools capability of a host: lists, searches and calls its tools.
 *
 * Host builders call `toolsPlugin({ tools })`; the built-in tools are in `builtin/`.
 * @see docs/protocol/a2e.md#tools
 */
import { onceSucceeded } from '../../base/once-succeeded.ts';
import { toolScore } from '../../base/tool-definitions.ts';
import { valueKind } from '../../base/value-kind.ts';
import type { CallContext, Principal, SessionView, ToolRules } from '../../host/context.ts';
import { handle, type Plugin, type PluginContext } from '../../host/plugin.ts';
import type { Body } from '../../protocol/method.ts';
import { may } from '../../session/rights.ts';
import { fail, HandfastError } from '../../wire/errors.ts';
import { type ArgumentValidator, ValidatorCache } from './arguments.ts';
import { describe } from './describe.ts';
import {
  type ToolCallReq,
  type ToolCallResp,
  type ToolDescription,
  type ToolListReq,
  toolCall,
  toolList,
} from './messages.ts';
import { type ToolFilter, toolFilter } from './policy.ts';
import { type AnyTool, checkTool, isShaped, type ShapedResult } from './tool.ts';

export interface ToolsPluginOptions {
  readonly tools: readonly AnyTool[];
  /** Name of the plugin, default `tools`. Needed when a host loads several. */
  readonly name?: string;
  readonly priority?: number;
  readonly exclusive?: boolean;
  /** Rules for all principals; the rules of a principal are added to them. */
  readonly rules?: ToolRules;
  /**
   * The time when the tools' schemas are compiled: at `start`, so that a broken one is found at once (default), or at the
   * `first-call` of each tool, for tools with valid schemas in hosts that must start fast.
   */
  readonly compile?: 'start' | 'first-call';
  /** Longest name of a tool, in characters. Default 128. */
  readonly maxName?: number;
  /** Timeout of a call whose caller set none (`timeout: 0`), in seconds. Default 600. */
  readonly maxSeconds?: number;
  /**
   * Checks a further right that its tools need, beside the rules. Called once for each principal and tool of a list, and for
   * each call.
   */
  readonly allows?: (principal: Principal, tool: AnyTool) => boolean;
  /**
   * Returns the present offer of a tool in a session; undefined: not offered, and calls of it fail with `unknown_tool`. Called
   * for each tool of a list, and for each call. Default: as the tool says. Changes are announced with `changed` of the plugin's
   * context.
   */
  readonly offers?: (session: SessionView, tool: AnyTool) => ToolOffer | undefined;
}

/** `listed`: in plain lists. `deferred`: found by search. */
export type ToolOffer = 'listed' | 'deferred';

/** A tool with the values derived from it. */
interface Entry {
  readonly tool: AnyTool;
  readonly description: ToolDescription;
  checkInput: ArgumentValidator | undefined;
  checkOutput: ArgumentValidator | undefined;
  ready: boolean;
  compiling: (() => Promise<void>) | undefined;
}

type Reply = Body<ToolCallResp>;

/** Longest message of a failed tool that is passed on, in characters. */
const MAX_MESSAGE = 2000;

/** The plugin of tools, whose tools may change while it runs. */
export interface ToolsPlugin extends Plugin {
  /**
   * Adds tools for all sessions, or for one until it ends. Agents that agreed to handfast/capabilities are notified. Rejects
   * with `config_invalid`, and adds none, when a name is in use or a schema is invalid.
   */
  add(tools: readonly AnyTool[], session?: SessionView): Promise<void>;
  /** Removes tools by name, from all sessions or from one. Running calls continue. */
  remove(names: readonly string[], session?: SessionView): void;
}

export function toolsPlugin(options: ToolsPluginOptions): ToolsPlugin {
  if (!Array.isArray((options as Partial<ToolsPluginOptions> | undefined)?.tools)) {
    throw fail('config_invalid', `expected toolsPlugin({ tools: [tool] }), got ${valueKind(options)}`);
  }
  const {
    name = 'tools',
    priority = 0,
    exclusive = false,
    compile = 'start',
    maxSeconds = 600,
    maxName,
    allows,
    offers,
  } = options;
  const entries = new Map<string, Entry>();
  /** Tools of one session alone. */
  const own = new WeakMap<SessionView, Map<string, Entry>>();
  let host: PluginContext | undefined;
  for (const tool of options.tools) {
    const entry = entryOf(tool, maxName);
    if (entries.has(tool.name))
      throw fail('config_invalid', `two tools are named ${JSON.stringify(tool.name)}; rename one`);
    entries.set(tool.name, entry);
  }
  const checkers = new ValidatorCache();
  const forAll = toolFilter(options.rules);
  const filters = new WeakMap<Principal, ToolFilter>();

  const filterOf = (principal: Principal): ToolFilter => {
    let filter = filters.get(principal);
    if (filter === undefined) {
      filter = (tool) => forAll(tool) && may(principal, 'call', tool) && allows?.(principal, tool) !== false;
      filters.set(principal, filter);
    }
    return filter;
  };

  const prepare = (entry: Entry): Promise<void> => {
    entry.compiling ??= onceSucceeded(async () => {
      const { tool } = entry;
      if (tool.input !== undefined) entry.checkInput = await checkers.compile(tool.input, `arguments of ${tool.name}`);
      if (tool.output !== undefined) entry.checkOutput = await checkers.compile(tool.output, `result of ${tool.name}`);
      entry.ready = true;
    });
    return entry.compiling();
  };

  const find = ({ tool_name = '' }: Body<ToolCallReq>, session: SessionView): Entry | undefined => {
    const entry = entries.get(tool_name) ?? own.get(session)?.get(tool_name);
    return offers === undefined || entry === undefined || offers(session, entry.tool) !== undefined ? entry : undefined;
  };

  /** Returns the description of a tool for the session; none if it is not offered there. */
  const shownTo = (session: SessionView, { tool, description }: Entry): ToolDescription[] => {
    if (offers === undefined) return [description];
    const offer = offers(session, tool);
    return offer === undefined ? [] : [{ ...description, defer_loading: offer === 'deferred' }];
  };

  const list = (request: Body<ToolListReq>, context: CallContext): { tools: ToolDescription[] } => {
    const { query = '', filter_kind = '', filter_tags = [], include_deferred = false } = request;
    const may = filterOf(context.session.principal);
    const tools = [...entries.values(), ...(own.get(context.session)?.values() ?? [])]
      .filter(({ tool }) => may(tool))
      .flatMap((entry) => shownTo(context.session, entry))
      .filter(
        (tool) =>
          (include_deferred || !tool.defer_loading) &&
          (filter_kind === '' || tool.kind === filter_kind) &&
          filter_tags.every((tag) => tool.tags?.includes(tag)),
      );
    if (query.trim() === '') return { tools };
    const scored = tools.map((tool) => ({ tool, points: toolScore(tool, query) })).filter(({ points }) => points > 0);
    return { tools: scored.sort((a, b) => b.points - a.points).map(({ tool }) => tool) };
  };

  const call = (request: Body<ToolCallReq>, context: CallContext): Reply | Promise<Reply> => {
    const entry = find(request, context.session) as Entry;
    const { tool } = entry;
    if (!filterOf(context.session.principal)(tool)) throw denied(tool);
    context.idempotent = tool.idempotent === true;
    context.limit((tool.maxSeconds ?? maxSeconds) * 1000);
    return entry.ready ? run(entry, request, context) : prepare(entry).then(() => run(entry, request, context));
  };

  /** The last declined name: calls of a tool of another plugin ask here first, and making an error is expensive. */
  let declined: { readonly tool: string; readonly error: HandfastError } | undefined;
  const unknown = (tool = ''): HandfastError => {
    if (declined?.tool !== tool) {
      declined = { tool, error: fail('unknown_tool', `no tool named ${JSON.stringify(tool.slice(0, 64))}`) };
    }
    return declined.error;
  };

  return {
    name,
    type: 'tools',
    priority,
    exclusive,
    metadata: ({ session }) => ({ tools: entries.size + ((session && own.get(session)?.size) ?? 0) }),
    methods: [
      handle(toolList, list),
      {
        ...handle(
          toolCall,
          call,
          (request, session) => (find(request, session) === undefined ? unknown(request.tool_name) : undefined),
          (request, session) => {
            // A call of a removed tool continues.
            const tool = find(request, session)?.tool;
            return tool === undefined || filterOf(session.principal)(tool) ? undefined : denied(tool);
          },
        ),
        isIdempotent: (request: Body<ToolCallReq>, session) => find(request, session)?.tool.idempotent === true,
      },
    ],
    async start(context: PluginContext) {
      host = context;
      if (compile !== 'start') return;
      for (const entry of entries.values()) await prepare(entry);
    },
    async add(tools, session) {
      const added = new Map(tools.map((tool) => [tool.name, entryOf(tool, maxName)]));
      const others = session === undefined ? undefined : own.get(session);
      const duplicate = tools.find((one) => entries.has(one.name) || others?.has(one.name));
      if (duplicate !== undefined || added.size < tools.length) {
        throw fail(
          'config_invalid',
          `two tools are named ${JSON.stringify(duplicate?.name ?? tools[0]?.name)}; rename one`,
        );
      }
      await Promise.all([...added.values()].map(prepare));
      const target = session === undefined ? entries : (others ?? new Map<string, Entry>());
      for (const [key, entry] of added) target.set(key, entry);
      if (session !== undefined) own.set(session, target);
      host?.changed(session);
    },
    remove(names, session) {
      const target = session === undefined ? entries : own.get(session);
      for (const each of names) target?.delete(each);
      host?.changed(session);
    },
  };
}

function entryOf(tool: AnyTool, maxName?: number): Entry {
  checkTool(tool, maxName);
  return {
    tool,
    description: describe(tool),
    checkInput: undefined,
    checkOutput: undefined,
    ready: tool.input === undefined && tool.output === undefined,
    compiling: undefined,
  };
}

// Separate functions, not nested ones: a call that settles at once makes no closure.

function run(entry: Entry, request: Body<ToolCallReq>, context: CallContext): Reply | Promise<Reply> {
  const { checkInput } = entry;
  const args = checkInput === undefined ? request.arguments : checkInput(request.arguments);
  if (isPromise(args)) return executeLater(entry, args, context);
  return execute(entry, args, context);
}

async function executeLater(entry: Entry, args: Promise<unknown>, context: CallContext): Promise<Reply> {
  return execute(entry, await args, context);
}

function execute(entry: Entry, args: unknown, context: CallContext): Reply | Promise<Reply> {
  let value: unknown;
  try {
    value = entry.tool.run(args, context);
  } catch (error) {
    throw toolError(entry.tool, error);
  }
  return isPromise(value) ? finishLater(entry, value, context) : finish(entry, value, context);
}

async function finishLater(entry: Entry, value: Promise<unknown>, context: CallContext): Promise<Reply> {
  let settled: unknown;
  try {
    settled = await value;
  } catch (error) {
    throw toolError(entry.tool, error);
  }
  return finish(entry, settled, context);
}

function finish({ tool, checkOutput }: Entry, value: unknown, context: CallContext): Reply | Promise<Reply> {
  const shaped = isShaped(value) ? value : undefined;
  const returned = shaped === undefined ? value : shaped.data;
  const checked = checkOutput === undefined ? returned : checkOutput(returned);
  return isPromise(checked) ? replyLater(tool, shaped, checked, context) : replyOf(tool, shaped, checked, context);
}

async function replyLater(
  tool: AnyTool,
  shaped: ShapedResult<unknown> | undefined,
  data: Promise<unknown>,
  context: CallContext,
): Promise<Reply> {
  return replyOf(tool, shaped, await data, context);
}

function replyOf(tool: AnyTool, shaped: ShapedResult<unknown> | undefined, data: unknown, context: CallContext): Reply {
  const object = typeof data === 'object' && data !== null;
  const code = shaped?.exitCode ?? (object ? (data as { exit_code?: unknown }).exit_code : undefined);
  return {
    data: {
      success: true,
      tool_name: tool.name,
      data: object ? data : { value: data ?? null },
      summary: shaped?.summary ?? null,
      truncated: shaped?.truncated ?? false,
      exit_code: Number.isInteger(code) ? (code as number) : null,
      error: null,
      error_code: null,
      duration_ms: Math.round(performance.now() - context.startedAt),
      events: [],
    },
    created_at: Date.now() / 1000,
  };
}

/** Returns the error of a tool, as its caller receives it. Tool authors' messages are meant for the caller. */
function toolError(tool: AnyTool, thrown: unknown): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new HandfastError('tool_error', message.slice(0, MAX_MESSAGE) || 'the tool failed', {
    detail: { tool: tool.name },
    retryable: tool.idempotent === true,
    cause: thrown,
  });
}

const denied = ({ name }: AnyTool): HandfastError =>
  fail('tool_denied', `the tool ${JSON.stringify(name)} is not allowed here`, { tool: name });

const isPromise = (value: unknown): value is Promise<unknown> =>
  typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
