/**
 * Resources and prompts of MCP servers: lists them over all servers, reads them, and subscribes sessions to them.
 *
 * A part of `plugin.ts`.
 */
import type { CallContext, SessionView } from '../../host/context.ts';
import { type Handler, handle } from '../../host/plugin.ts';
import type { McpCallOptions, McpConnection } from '../../mcp/connection.ts';
import type { McpContents, McpPrompt, McpResource, McpTemplate } from '../../mcp/definition.ts';
import { named } from '../../session/rights.ts';
import { failure } from './errors.ts';
import type { Prompt, Resource, ResourceContent, ResourceTemplate } from './mcp.schema.ts';
import * as messages from './messages.ts';
import { refusable } from './refusable.ts';
import type { Instance, Servers } from './servers.ts';

const PAGE = 200;
/** Maximum bytes of entries on a page, so that they fit into a reply. */
const MAX_PAGE_BYTES = 256 * 1024;
/** Maximum number of subscriptions of one session. */
const MAX_SUBSCRIPTIONS = 256;

export class Contents {
  readonly #servers: () => Servers;
  /** Sessions that are notified of changes, by server and address. */
  readonly #subscribed = new Map<Instance, Map<string, Set<SessionView>>>();

  constructor(servers: () => Servers) {
    this.#servers = servers;
  }

  get methods(): readonly Handler[] {
    return [
      handle(messages.resourceList, async (request, context) => {
        const { server_id = '' } = request;
        const found = await this.#listed(server_id, context, (instance) => this.#resources(instance, context));
        const { page, next } = pageOf(found, cursorOf(request));
        return { resources: page.map(({ instance, entry }) => resourceOf(entry, instance)), next_cursor: next };
      }),
      handle(messages.resourceRead, ({ uri, server_id = '' }, context) =>
        refusable(context, { contents: [] as ResourceContent[], server_id }, async () => {
          const instance = await this.#serverOfResource(uri, server_id, context);
          const parts = await this.#use(instance, context, (connection, options) => connection.read(uri, options));
          return { contents: parts.map(contentOf), server_id: instance.spec.id, error: '' };
        }),
      ),
      handle(messages.resourceSubscribe, ({ uri, server_id = '' }, context) =>
        refusable(context, { ok: false }, async () => {
          await this.#subscribe(await this.#serverOfResource(uri, server_id, context), uri, context);
          return { ok: true, error: '' };
        }),
      ),
      handle(messages.resourceUnsubscribe, ({ uri, server_id = '' }, { session }) => {
        let ok = false;
        for (const instance of this.#subscribed.keys()) {
          if (server_id !== '' && instance.spec.id !== server_id) continue;
          ok = this.#end(instance, uri, session) || ok;
        }
        return { ok };
      }),
      handle(messages.promptList, async (request, context) => {
        const { server_id = '' } = request;
        const found = await this.#listed(server_id, context, (instance) => this.#prompts(instance, context));
        const { page, next } = pageOf(found, cursorOf(request));
        return { prompts: page.map(({ instance, entry }) => promptOf(entry, instance)), next_cursor: next };
      }),
      handle(messages.promptGet, ({ name, arguments: args = {}, server_id = '' }, context) =>
        refusable(context, { messages: [], server_id }, async () => {
          const instance = await this.#serverOfPrompt(name, server_id, context);
          const texts = Object.fromEntries(Object.entries(args).map(([key, value]) => [key, String(value)]));
          const { description = '', messages } = await this.#use(instance, context, (connection, options) =>
            connection.prompt(name, texts, options),
          );
          const lines = messages.map(({ role, content }) => ({ role, content }));
          return { description, messages: lines, server_id: instance.spec.id, error: '' };
        }),
      ),
      handle(messages.resourceTemplateList, async (request, context) => {
        const { server_id = '' } = request;
        const found = await this.#listed(server_id, context, (instance) => this.#templates(instance, context));
        const { page, next } = pageOf(found, cursorOf(request));
        return { templates: page.map(({ instance, entry }) => templateOf(entry, instance)), next_cursor: next };
      }),
      handle(messages.complete, async (request, context) => {
        const { prompt = '', uri_template: uriTemplate = '', argument, value } = request;
        const { arguments: others = {}, server_id = '' } = request;
        if ((prompt === '') === (uriTemplate === '')) {
          throw failure('invalid', 'name a prompt or a uri_template', { field: 'prompt' });
        }
        const [instance, of] =
          prompt === ''
            ? [await this.#serverOfTemplate(uriTemplate, server_id, context), { uriTemplate }]
            : [await this.#serverOfPrompt(prompt, server_id, context), { prompt }];
        const { values, total, hasMore } = await this.#use(instance, context, (connection, options) =>
          connection.complete({ of, argument, value, others }, options),
        );
        return {
          values: [...values],
          ...(total !== undefined && { total }),
          ...(hasMore !== undefined && { has_more: hasMore }),
          server_id: instance.spec.id,
        };
      }),
    ];
  }

  /** Returns the sessions that subscribed to a resource. */
  subscribers(instance: Instance, uri: string): Iterable<SessionView> {
    return this.#subscribed.get(instance)?.get(uri) ?? [];
  }

  /** Ends the subscriptions of a session that has ended. */
  endSession(session: SessionView): void {
    for (const [instance, byUri] of this.#subscribed) {
      for (const uri of [...byUri.keys()]) this.#end(instance, uri, session);
    }
  }

  /** Returns the entries that the named server lists, or every usable one. */
  async #listed<Entry>(
    server: string,
    context: CallContext,
    list: (instance: Instance) => Promise<readonly Entry[]>,
  ): Promise<readonly { readonly instance: Instance; readonly entry: Entry }[]> {
    if (server !== '') {
      const instance = this.#servers().find(server, context);
      return (await list(instance)).map((entry) => ({ instance, entry }));
    }
    const instances = await this.#servers().startAll(context);
    const ready = instances.filter(({ server }) => server.health.state === 'ready');
    // The list of servers shows the failure of one.
    const lists = await Promise.all(ready.map((instance) => list(instance).catch(() => [])));
    context.signal.throwIfAborted();
    return ready.flatMap((instance, at) => (lists[at] as readonly Entry[]).map((entry) => ({ instance, entry })));
  }

  async #resources(instance: Instance, context: CallContext): Promise<readonly McpResource[]> {
    const all = await this.#use(instance, context, (connection) => connection.resources(context.signal));
    const allowed = all.filter(({ uri, name = '' }) => instance.spec.resources?.(uri, name) !== false);
    instance.resources = allowed.length;
    return allowed;
  }

  async #prompts(instance: Instance, context: CallContext): Promise<readonly McpPrompt[]> {
    const all = await this.#use(instance, context, (connection) => connection.prompts(context.signal));
    instance.prompts = all.length;
    return all;
  }

  async #templates(instance: Instance, context: CallContext): Promise<readonly McpTemplate[]> {
    const all = await this.#use(instance, context, (connection) => connection.templates(context.signal));
    return all.filter(({ uriTemplate, name = '' }) => instance.spec.resources?.(uriTemplate, name) !== false);
  }

  async #serverOfPrompt(name: string, server: string, context: CallContext): Promise<Instance> {
    const found = await this.#listed(server, context, (instance) => this.#prompts(instance, context));
    const instance = found.find(({ entry }) => entry.name === name)?.instance;
    if (instance !== undefined) return instance;
    throw failure('prompt_not_found', `no MCP server has the prompt ${JSON.stringify(name.slice(0, 64))}`);
  }

  async #serverOfTemplate(uriTemplate: string, server: string, context: CallContext): Promise<Instance> {
    const found = await this.#listed(server, context, (instance) => this.#templates(instance, context));
    const instance = found.find(({ entry }) => entry.uriTemplate === uriTemplate)?.instance;
    if (instance !== undefined) return instance;
    throw failure('resource_not_found', `no MCP server has the template ${JSON.stringify(uriTemplate.slice(0, 120))}`);
  }

  /**
   * Returns the named server, which may have resources that it does not list, or the one that lists the resource or has a
   * template for it.
   */
  async #serverOfResource(uri: string, server: string, context: CallContext): Promise<Instance> {
    if (server !== '') {
      const instance = this.#servers().find(server, context);
      if (instance.spec.resources === undefined) return instance;
    }
    const found = await this.#listed(server, context, (instance) => this.#resources(instance, context));
    const instance = found.find(({ entry }) => entry.uri === uri)?.instance;
    if (instance !== undefined) return instance;
    const templates = await this.#listed(server, context, (instance) => this.#templates(instance, context));
    const fitting = templates.filter(({ entry }) => named([patternOf(entry)], uri));
    // The template with the most literal characters fits best.
    fitting.sort((one, other) => patternOf(other.entry).length - patternOf(one.entry).length);
    if (fitting[0] !== undefined) return fitting[0].instance;
    const message = `no MCP server lists ${JSON.stringify(uri.slice(0, 120))}`;
    throw failure('resource_not_found', `${message} or has a template for it; name the server of such a resource`);
  }

  async #subscribe(instance: Instance, uri: string, context: CallContext): Promise<void> {
    const { session } = context;
    const own = [...this.#subscribed.values()]
      .flatMap((byUri) => [...byUri.values()])
      .filter((all) => all.has(session));
    if (own.length >= MAX_SUBSCRIPTIONS) {
      throw failure('full', `a session has at most ${MAX_SUBSCRIPTIONS} subscriptions`, { limit: MAX_SUBSCRIPTIONS });
    }
    const byUri = this.#subscribed.get(instance) ?? new Map<string, Set<SessionView>>();
    // Added first, because a change may arrive at once.
    byUri.set(uri, (byUri.get(uri) ?? new Set()).add(session));
    this.#subscribed.set(instance, byUri);
    try {
      await this.#servers().request(instance, context, (server, options) => server.subscribe(uri, options));
    } catch (error) {
      this.#end(instance, uri, session);
      throw error;
    }
    // The session may have ended meanwhile.
    if (session.signal.aborted) this.#end(instance, uri, session);
  }

  /** Ends a subscription. Returns false if the session had no such subscription. */
  #end(instance: Instance, uri: string, session: SessionView): boolean {
    const byUri = this.#subscribed.get(instance);
    const sessions = byUri?.get(uri);
    if (sessions?.delete(session) !== true) return false;
    if (sessions.size > 0) return true;
    byUri?.delete(uri);
    if (byUri?.size === 0) this.#subscribed.delete(instance);
    void instance.server.unsubscribe(uri);
    return true;
  }

  #use<Result>(
    instance: Instance,
    context: CallContext,
    work: (connection: McpConnection, options: McpCallOptions) => Promise<Result>,
  ): Promise<Result> {
    return this.#servers().request(instance, context, (server, options) =>
      server.use(options, (connection) => work(connection, options)),
    );
  }
}

/** Returns the cursor: these two requests have a text where others have a number of the journal. */
function cursorOf(request: object): string {
  const { cursor } = request as { readonly cursor?: unknown };
  return typeof cursor === 'string' ? cursor : '';
}

/** @param cursor number of entries read before; empty = none */
function pageOf<Entry>(entries: readonly Entry[], cursor: string): { page: readonly Entry[]; next: string } {
  const from = cursor === '' ? 0 : Number(cursor);
  if (!Number.isSafeInteger(from) || from < 0) {
    throw failure('invalid', 'the cursor is not one of this host', { field: 'cursor' });
  }
  let end = from;
  for (let bytes = 0; end < entries.length && end < from + PAGE; end += 1) {
    bytes += Buffer.byteLength(JSON.stringify((entries[end] as { readonly entry: unknown }).entry));
    if (bytes > MAX_PAGE_BYTES && end > from) break;
  }
  return { page: entries.slice(from, end), next: end < entries.length ? String(end) : '' };
}

const resourceOf = (
  { uri, name = '', description = '', mimeType = '', annotations = {} }: McpResource,
  { spec }: Instance,
): Resource => ({ uri, name, description, mime_type: mimeType, server_id: spec.id, annotations });

const templateOf = (
  { uriTemplate, name = '', description = '', mimeType = '', annotations = {} }: McpTemplate,
  { spec }: Instance,
): ResourceTemplate => ({
  uri_template: uriTemplate,
  name,
  description,
  mime_type: mimeType,
  server_id: spec.id,
  annotations,
});

/** Returns the pattern that all addresses of the template match; others may match it, too, and the server reports that. */
const patternOf = ({ uriTemplate }: McpTemplate): string => uriTemplate.replaceAll(/\{[^{}]*\}/g, '*');

const contentOf = ({ uri, mimeType, text, blob }: McpContents): ResourceContent => ({
  uri,
  mime_type: mimeType ?? (blob === undefined ? 'text/plain' : 'application/octet-stream'),
  text: text ?? '',
  blob: blob ?? '',
  type: blob === undefined ? 'text' : 'blob',
});

const promptOf = ({ name, description = '', arguments: args = [] }: McpPrompt, { spec }: Instance): Prompt => ({
  name,
  description,
  server_id: spec.id,
  arguments: args.map((each) => ({ ...each })),
});
