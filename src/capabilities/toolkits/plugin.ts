/**
 * The toolkits capability of a host: bundles of tools with a configuration that each session sets for itself, enabled and
 * disabled during the session; and the plugin of tools through which agents call them.
 *
 * Host builders and packages call `toolkitsPlugins({ toolkits })`.
 * @see docs/toolkits.md
 */
import { JsonSchemas, type SchemaChecker } from '../../base/json-schema.ts';
import { toolTokens } from '../../base/tool-definitions.ts';
import type { CallContext, Principal, SessionView, ToolRules } from '../../host/context.ts';
import { definePlugin, type Handler, handle, type Plugin, type PluginContext } from '../../host/plugin.ts';
import { may } from '../../session/rights.ts';
import { asError, fail, HandfastError } from '../../wire/errors.ts';
import { describe } from '../tools/describe.ts';
import type { ToolDescription } from '../tools/messages.ts';
import { type ToolOffer, toolsPlugin } from '../tools/plugin.ts';
import { toolFilter } from '../tools/policy.ts';
import type { AnyTool } from '../tools/tool.ts';
import { failure } from './errors.ts';
import * as messages from './messages.ts';
import { toolkitsOffer } from './offer.ts';
import { mayUseToolkit } from './rights.ts';
import { type SecretSettings, Secrets } from './secrets.ts';
import { SessionStates } from './states.ts';
import { type AnyToolkit, defineToolkit, secretFields, type ToolkitAccess } from './toolkit.ts';
import type { FieldError, ToolkitInfo } from './toolkits.schema.ts';

export interface ToolkitsPluginOptions {
  readonly toolkits: readonly AnyToolkit[];
  /** Name of the plugin, default `toolkits`. Needed if a host loads several. */
  readonly name?: string;
  /** Secrets of the host that configurations may name. */
  readonly secrets?: readonly SecretSettings[];
  /** Rules of tools for all principals; the rules of a principal are added to them. */
  readonly rules?: ToolRules;
  /** Environment variables of the host, for secrets. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** A toolkit with the values derived from it. */
interface Kit {
  readonly toolkit: AnyToolkit;
  readonly tools: readonly AnyTool[];
  /** Descriptions by tool, made when a list or a search first needs them. */
  readonly described: Map<string, { readonly description: ToolDescription; readonly tokens: number }>;
  /** The configuration of a session that configured nothing; undefined: it must be configured. */
  defaults:
    | { readonly config: Readonly<Record<string, unknown>> | undefined; readonly errors: FieldError[] }
    | undefined;
  check: SchemaChecker | undefined;
}

const SEARCHED = 5;
/** Maximum number of remembered names of other plugins' tools. */
const MAX_OTHERS = 1_000;

/** Returns the plugin of `toolkits`, and that of the tools of its toolkits. Throws `config_invalid`. */
export function toolkitsPlugins(options: ToolkitsPluginOptions): readonly [toolkits: Plugin, tools: Plugin] {
  const { toolkits, name = 'toolkits', secrets = [], rules, env = process.env } = options;
  const hostSecrets = new Secrets(secrets, env);
  const states = new SessionStates();
  const sessions = new Map<string, SessionView>();
  const schemas = new JsonSchemas();
  const kits = new Map<string, Kit>();
  const kitOf = new Map<string, Kit>();
  const forAll = toolFilter(rules);
  let toolsContext: PluginContext | undefined;
  for (const toolkit of toolkits) addKit(toolkit);

  function addKit(toolkit: AnyToolkit): void {
    defineToolkit(toolkit);
    const own: readonly AnyTool[] =
      typeof toolkit.tools === 'function' ? toolkit.tools(accessOf(toolkit.name)) : toolkit.tools;
    const tools = own.map((each) => ({ ...each, toolkit: toolkit.name }));
    const kit: Kit = { toolkit, tools, described: new Map(), defaults: undefined, check: undefined };
    if (kits.has(toolkit.name)) throw fail('config_invalid', `two toolkits are named ${toolkit.name}; rename one`);
    kits.set(toolkit.name, kit);
    for (const { name: tool } of tools) kitOf.set(tool, kit);
  }

  function accessOf(toolkit: string): ToolkitAccess<Record<string, unknown>> {
    const config = ({ session }: Pick<CallContext, 'session'>) => {
      const kit = kits.get(toolkit) as Kit;
      return { ...(states.of(session, toolkit).config ?? defaultsOf(kit).config) };
    };
    return {
      config,
      secret(context, field) {
        const named = config(context)[field];
        return named === undefined ? undefined : hostSecrets.read(String(named), context.session.principal);
      },
    };
  }

  const checkOf = (kit: Kit): SchemaChecker => {
    kit.check ??= schemas.compileNow(
      { type: 'object', additionalProperties: false, ...kit.toolkit.config },
      `configuration of ${kit.toolkit.name}`,
    );
    return kit.check;
  };

  const defaultsOf = (kit: Kit): NonNullable<Kit['defaults']> => {
    if (kit.toolkit.config === undefined) return { config: {}, errors: [] };
    kit.defaults ??= (() => {
      try {
        return { config: checkOf(kit)({}) as Record<string, unknown>, errors: [] };
      } catch (thrown) {
        return { config: undefined, errors: errorsOf(thrown) };
      }
    })();
    return kit.defaults;
  };

  const isConfigured = (kit: Kit, session: SessionView): boolean =>
    states.of(session, kit.toolkit.name).config !== undefined || defaultsOf(kit).config !== undefined;

  const isEnabled = (kit: Kit, session: SessionView): boolean =>
    (states.of(session, kit.toolkit.name).enabled ?? kit.toolkit.enabled === true) && isConfigured(kit, session);

  const offers = (session: SessionView, { name: tool }: AnyTool): ToolOffer | undefined => {
    const kit = kitOf.get(tool) as Kit;
    if (!session.granted('toolkits') || !isEnabled(kit, session)) return undefined;
    if (!mayUseToolkit(session.principal, kit.toolkit)) return undefined;
    const isListed = kit.toolkit.deferred !== true || states.of(session, kit.toolkit.name).loaded?.includes(tool);
    return isListed ? 'listed' : 'deferred';
  };

  const tools = toolsPlugin({
    name: `${name}-tools`,
    priority: toolkitsOffer.tools.priority,
    tools: [...kits.values()].flatMap((kit) => kit.tools),
    compile: 'first-call',
    ...(rules && { rules }),
    offers,
  });
  const [listTools, callTool] = tools.methods as [Handler, Handler];

  /** Returns the toolkit, for the principal of a session. */
  const find = (wanted: string, { principal }: SessionView): Kit => {
    const kit = kits.get(wanted);
    if (kit !== undefined && mayUseToolkit(principal, kit.toolkit)) return kit;
    const named = JSON.stringify(wanted.slice(0, 64));
    throw failure('unknown', `there is no toolkit ${named} for this principal`, { toolkit_name: wanted.slice(0, 64) });
  };

  /** Returns the session that a request is for: its own session, or another one of the principal. */
  const target = (wanted: string, { session }: CallContext): SessionView => {
    if (wanted === '' || wanted === session.id) return session;
    const other = sessions.get(wanted);
    const isMine = other?.principal.name === session.principal.name;
    if (other !== undefined && (isMine || may(session.principal, 'administer'))) return other;
    throw failure('unknown', `there is no session ${JSON.stringify(wanted.slice(0, 64))} with toolkits`);
  };

  const described = ({ described: known }: Kit, tool: AnyTool) => {
    let found = known.get(tool.name);
    if (found === undefined) {
      const description = describe(tool);
      found = { description, tokens: toolTokens(description) };
      known.set(tool.name, found);
    }
    return found;
  };

  const callable = (kit: Kit, principal: Principal): AnyTool[] =>
    kit.tools.filter((tool) => forAll(tool) && may(principal, 'call', tool));

  const infoOf = (kit: Kit, session: SessionView): ToolkitInfo => {
    const { toolkit } = kit;
    const own = callable(kit, session.principal);
    const listed = own.filter((tool) => offers(session, tool) === 'listed');
    const cost = (some: readonly AnyTool[]) => some.reduce((sum, tool) => sum + described(kit, tool).tokens, 0);
    return {
      name: toolkit.name,
      alias: toolkit.alias ?? '',
      description: toolkit.description,
      category: toolkit.category ?? '',
      tags: [...(toolkit.tags ?? [])],
      icon_svg: toolkit.iconSvg ?? null,
      schema: toolkit.config ?? {},
      tools: own.map((tool) => tool.name),
      configured: states.of(session, toolkit.name).config !== undefined,
      version: toolkit.version ?? '1.0.0',
      enabled: isEnabled(kit, session),
      deferred: toolkit.deferred === true,
      listed: listed.map((tool) => tool.name),
      tokens: cost(own),
      listed_tokens: cost(listed),
    };
  };

  /** Returns the configuration to store. Fails with `toolkits.invalid`. */
  const checked = (kit: Kit, config: unknown, { principal }: SessionView): Readonly<Record<string, unknown>> => {
    const given = (config ?? {}) as Readonly<Record<string, unknown>>;
    const wrong = secretFields(kit.toolkit).filter(
      (field) => given[field] !== undefined && !hostSecrets.has(given[field], principal),
    );
    if (wrong.length > 0) {
      throw invalid(
        kit,
        wrong.map((field) => ({
          path: `/${field}`,
          message: 'must be the name of a secret of the host that this principal may name',
        })),
      );
    }
    try {
      return checkOf(kit)(given) as Readonly<Record<string, unknown>>;
    } catch (thrown) {
      if (asError(thrown).code !== 'schema_violation') throw thrown;
      throw invalid(kit, errorsOf(thrown));
    }
  };

  const change = async (session: SessionView, kit: Kit, to: Parameters<SessionStates['change']>[2]): Promise<void> => {
    await states.change(session, kit.toolkit.name, to);
    toolsContext?.changed(session);
  };

  const declines = ({ toolkit_name = '' }: { readonly toolkit_name?: string }, session: SessionView) => {
    const isMine = name === 'toolkits' || kits.has(toolkit_name);
    return isMine ? undefined : asError(attempt(() => find(toolkit_name, session)));
  };

  const plugin = definePlugin({
    name,
    type: 'toolkits',
    grant: toolkitsOffer.grant,
    metadata: toolkitsOffer.metadata,
    priority: name === 'toolkits' ? toolkitsOffer.priority : 0,
    async start(context) {
      states.open(await context.dataFolder());
    },
    opened: (session) => void sessions.set(session.id, session),
    closed(session) {
      sessions.delete(session.id);
      // A session that outlives its host has its toolkits again.
      if (session.suspended !== true) states.forget(session);
    },
    methods: [
      handle(messages.toolkitList, ({ filter_kind = '', filter_tags = [], session_id = '' }, context) => {
        const session = target(session_id, context);
        const found = [...kits.values()].filter(
          ({ toolkit }) =>
            mayUseToolkit(session.principal, toolkit) &&
            (filter_kind === '' || toolkit.category === filter_kind) &&
            filter_tags.every((tag) => toolkit.tags?.includes(tag)),
        );
        return { toolkits: found.map((kit) => infoOf(kit, session)) };
      }),
      handle(
        messages.toolkitConfigure,
        async ({ session_id = '', toolkit_name = '', config }, context) => {
          try {
            const session = target(session_id, context);
            const kit = find(toolkit_name, session);
            const values = checked(kit, config, session);
            await change(session, kit, (state) => ({ ...state, config: values, enabled: true }));
            return { toolkit_name, status: 'ok', message: null };
          } catch (thrown) {
            if (!(thrown instanceof HandfastError) || thrown.capability !== 'toolkits') throw thrown;
            const { code, message, detail } = thrown;
            const errors = (detail.errors ?? []) as FieldError[];
            return { toolkit_name, status: 'error', message, errors, refusal: { code, message, detail } };
          }
        },
        declines,
      ),
      handle(
        messages.toolkitDescribe,
        ({ toolkit_name = '', session_id = '' }, context) => {
          const session = target(session_id, context);
          const kit = find(toolkit_name, session);
          const definitions = callable(kit, session.principal).map((tool) => described(kit, tool).description);
          return { toolkit: infoOf(kit, session), definitions };
        },
        declines,
      ),
      handle(
        messages.toolkitEnable,
        async ({ toolkit_name = '', session_id = '' }, context) => {
          const session = target(session_id, context);
          const kit = find(toolkit_name, session);
          if (!isConfigured(kit, session)) {
            const { errors } = defaultsOf(kit);
            const fields = errors.map(({ path }) => path).join(', ');
            const how = `it needs a configuration with ${fields}: configure it`;
            throw failure('not_configured', `the toolkit ${toolkit_name} cannot be enabled: ${how}`, { errors });
          }
          await change(session, kit, (state) => ({ ...state, enabled: true }));
          return { toolkit: infoOf(kit, session) };
        },
        declines,
      ),
      handle(
        messages.toolkitDisable,
        async ({ toolkit_name = '', session_id = '' }, context) => {
          const session = target(session_id, context);
          const kit = find(toolkit_name, session);
          await change(session, kit, (state) => ({ ...state, enabled: false, loaded: [] }));
          return { toolkit: infoOf(kit, session) };
        },
        declines,
      ),
      handle(messages.toolkitSearch, async ({ query, toolkit_name = '', limit = SEARCHED, load = true }, context) => {
        const { session } = context;
        if (toolkit_name !== '') find(toolkit_name, session);
        const request = { query, include_deferred: true };
        const { tools: all } = (await listTools.run(request as never, context)) as { tools: ToolDescription[] };
        const found = all.filter(({ toolkit }) => toolkit_name === '' || toolkit === toolkit_name).slice(0, limit);
        const hidden = load ? found.filter(({ defer_loading }) => defer_loading) : [];
        for (const [owner, names] of Map.groupBy(hidden, (each) => kitOf.get(each.name) as Kit)) {
          await change(session, owner, (state) => {
            const loaded = new Set([...(state.loaded ?? []), ...names.map((each) => each.name)]);
            return { ...state, loaded: [...loaded] };
          });
        }
        return {
          tools: found.map((each) => (hidden.includes(each) ? { ...each, defer_loading: false } : each)),
          loaded: hidden.map((each) => each.name),
          tokens: found.reduce((sum, each) => sum + toolTokens(each), 0),
        };
      }),
    ],
  });

  // This plugin is asked first at every call of the host's own tools: making an error for each would cost more than such a
  // call.
  const others = new Map<string, HandfastError>();
  const notMine = (tool: string): HandfastError => {
    let known = others.get(tool);
    if (known !== undefined) return known;
    known = fail('unknown_tool', `no tool named ${JSON.stringify(tool.slice(0, 64))}`);
    if (others.size < MAX_OTHERS && tool.length <= 128) others.set(tool, known);
    return known;
  };
  const call: Handler = {
    ...callTool,
    declines(request: { readonly tool_name?: string } & never, session: SessionView) {
      const tool = (request as { tool_name?: string }).tool_name ?? '';
      const kit = kitOf.get(tool);
      if (kit === undefined || !session.granted('toolkits')) return notMine(tool);
      const declined = callTool.declines?.(request, session);
      if (declined === undefined || !mayUseToolkit(session.principal, kit.toolkit)) return declined;
      const { message, detail } = declined;
      const owner = kit.toolkit.name;
      const how = `its toolkit ${owner} is not enabled in this session; toolkit/enable/req enables it`;
      return fail('unknown_tool', `${message}: ${how}`, { ...detail, toolkit: owner });
    },
  };
  const withTools: Plugin = {
    ...tools,
    loadedWith: 'toolkits',
    methods: [listTools, call],
    async start(context) {
      toolsContext = context;
      await tools.start?.(context);
    },
  };
  return [plugin, withTools];
}

const errorsOf = (thrown: unknown): FieldError[] => {
  const { detail } = asError(thrown);
  return ((detail.errors ?? []) as FieldError[]).map(({ path, message }) => ({ path, message }));
};

function invalid({ toolkit }: Kit, errors: readonly FieldError[]): HandfastError {
  const [first] = errors;
  const text = first === undefined ? 'does not fit its schema' : `${first.path} ${first.message}`.trim();
  return failure('invalid', `the configuration of ${toolkit.name}: ${text}`, { path: first?.path ?? '', errors });
}

function attempt(work: () => unknown): unknown {
  try {
    return work();
  } catch (thrown) {
    return thrown;
  }
}
