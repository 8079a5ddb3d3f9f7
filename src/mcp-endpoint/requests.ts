/**
 * The requests of MCP clients in both eras: dispatched by method, done by the host, replied to as JSON-RPC.
 *
 * `serve` gets the terms that hold and a function that replies.
 * @see docs/mcp-server.md
 */
import type { CallEvent } from '../connection/call.ts';
import { ADDRESSES_REQUIRED, ELICITATION_COMPLETE } from '../mcp/asks.ts';
import { asError, HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { serveContents } from './contents.ts';
import type { Change, HostSession, OpenHost, ToolTable } from './host-session.ts';
import { until } from './host-session.ts';
import { InputRounds, mayAsk } from './input-rounds.ts';
import { pageOf } from './pages.ts';
import {
  errorText,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  invalidParams,
  isLogLevel,
  LOG_LEVELS,
  type LogLevel,
  META_CAPABILITIES,
  META_LOG_LEVEL,
  META_SERVER,
  META_SUBSCRIPTION,
  META_VERSION,
  METHOD_NOT_FOUND,
  MISSING_CAPABILITY,
  metaOf,
  notificationText,
  type Params,
  RpcError,
  resultText,
  STATELESS_VERSIONS,
  UNSUPPORTED_VERSION,
} from './protocol.ts';
import { canBeAsked, lackingIn } from './questions.ts';
import type { ServedRequest, Terms } from './served-request.ts';
import { MAX_SUBSCRIPTIONS } from './subscriptions.ts';
import { errorMembers, resultMembers } from './tool-results.ts';

/** Name and version of this software, sent to clients. */
export interface ServerInfo {
  readonly name: string;
  readonly title: string;
  readonly version: string;
}

const ABOUT_TOOLS =
  'Tools of a Handfast host: files, search and programs of its workspace, and what its operator added.';
const ABOUT_MEMORY = 'Facts stored with memory_store are there in later conversations.';

/**
 * Returns the terms of a request that stands alone. Throws `RpcError` for an envelope that is incomplete or of another
 * version.
 */
export function termsOf(meta: Params): Terms {
  const { [META_VERSION]: version, [META_CAPABILITIES]: capabilities, [META_LOG_LEVEL]: level } = meta;
  if (typeof version !== 'string') throw invalidEnvelope(META_VERSION);
  if (!isObject(capabilities)) throw invalidEnvelope(META_CAPABILITIES);
  if (level !== undefined && !isLogLevel(level)) throw invalidEnvelope(META_LOG_LEVEL);
  if (!STATELESS_VERSIONS.includes(version as never)) {
    const data = { supported: [...STATELESS_VERSIONS], requested: version };
    throw new RpcError(UNSUPPORTED_VERSION, `unsupported protocol version: ${version.slice(0, 64)}`, data, 400);
  }
  return { stateless: true, version, capabilities, logLevel: level };
}

const invalidEnvelope = (key: string): RpcError =>
  new RpcError(INVALID_PARAMS, `_meta: ${key} is missing or invalid`, { envelope: { key } }, 400);

export class McpRequests {
  readonly host: HostSession;
  readonly #server: ServerInfo;
  /** Added to every result of a request that stands alone. */
  readonly #stamp: string;
  #rounds: InputRounds | undefined;

  constructor(host: HostSession, server: ServerInfo) {
    this.host = host;
    this.#server = server;
    this.#stamp = `"${META_SERVER}":${JSON.stringify(server)}`;
  }

  /** Serves a request: replies once, unless its signal aborts before. Never throws. */
  serve(request: ServedRequest): void {
    const { terms, method, params } = request;
    if (terms.stateless && mayAsk(method) && (canBeAsked(terms.capabilities) || hasAnswers(params))) {
      this.#rounds ??= new InputRounds((ask) => new McpRequests(this.host.another(ask), this.#server));
      try {
        if (this.#rounds.serve(request)) return;
      } catch (error) {
        return this.fail(request, error);
      }
    }
    this.run(request);
  }

  /** Replies with the questions of the call to the client. */
  askBack({ id, exchange }: ServedRequest, questions: Params, state: string): void {
    const result = { resultType: 'input_required', inputRequests: questions, requestState: state };
    exchange.reply(resultText(id, `${JSON.stringify(result).slice(0, -1)},"_meta":{${this.#stamp}}}`));
  }

  /** Ends the calls that wait for their clients. */
  close(): void {
    this.#rounds?.close();
    this.host.close();
  }

  /** Serves a request whose questions are not answered by its client's next request. */
  run(request: ServedRequest): void {
    if (request.method === 'tools/call') this.#call(request);
    else {
      this.#reply(request).then(
        (result) => {
          if (result !== undefined && !request.cancellation.isCancelled)
            this.finish(request, JSON.stringify(result).slice(1, -1));
        },
        (error) => this.fail(request, error),
      );
    }
  }

  /** Replies with a result, given as JSON members. */
  finish({ id, terms, exchange }: ServedRequest, members: string, meta = ''): void {
    const comma = members === '' ? '' : ',';
    if (!terms.stateless) {
      exchange.reply(resultText(id, meta === '' ? `{${members}}` : `{${members}${comma}"_meta":{${meta}}}`));
      return;
    }
    const stamped = meta === '' ? this.#stamp : `${meta},${this.#stamp}`;
    exchange.reply(resultText(id, `{${members}${comma}"resultType":"complete","_meta":{${stamped}}}`));
  }

  /** Replies with an error of JSON-RPC. */
  fail({ id, exchange, cancellation }: Pick<ServedRequest, 'id' | 'exchange' | 'cancellation'>, thrown: unknown): void {
    if (cancellation.isCancelled) return;
    if (thrown instanceof RpcError) {
      exchange.reply(errorText(id, thrown.code, thrown.message, thrown.data), thrown.status);
      return;
    }
    const { code, message, retryable } = asError(thrown);
    exchange.reply(errorText(id, INTERNAL_ERROR, `${code}: ${message}`, { code, retryable }));
  }

  /** Returns the host's offer, as capabilities of a server. */
  async capabilities(): Promise<object> {
    const host = await this.host.ready();
    return {
      logging: {},
      ...((host.tools ?? host.memory ?? host.skill) && { tools: { listChanged: true } }),
      ...((host.mcp ?? host.skill) && { prompts: { listChanged: true } }),
      ...((host.mcp ?? host.memory) && { resources: { subscribe: true, listChanged: true } }),
      ...(host.mcp && { completions: {} }),
    };
  }

  get server(): ServerInfo {
    return this.#server;
  }

  /** Returns the text that the model of a client reads first: about granted capabilities only. */
  async instructions(): Promise<string> {
    const { tools, memory } = await this.host.ready();
    return [...(tools ? [ABOUT_TOOLS] : []), ...(memory ? [ABOUT_MEMORY] : [])].join(' ');
  }

  /** Returns the result of a request; undefined if the reply was or will be sent elsewhere. */
  async #reply(request: ServedRequest): Promise<object | undefined> {
    const { method, params, terms } = request;
    switch (method) {
      case 'tools/list': {
        const { listed } = await this.host.toolTable();
        return { ...pageOf('tools', listed, params), ...(terms.stateless && LIST_CACHE) };
      }
      case 'server/discover':
        if (!terms.stateless) break;
        return {
          supportedVersions: STATELESS_VERSIONS,
          capabilities: await this.capabilities(),
          instructions: await this.instructions(),
          ...LIST_CACHE,
        };
      case 'subscriptions/listen':
        if (!terms.stateless) break;
        await this.#listen(request);
        return undefined;
      case 'ping':
        if (terms.stateless) break;
        return {};
    }
    const result = await serveContents(this.host, request);
    if (result !== undefined) return result;
    throw new RpcError(
      METHOD_NOT_FOUND,
      `unknown method: ${method.slice(0, 64)}`,
      undefined,
      terms.stateless ? 404 : 200,
    );
  }

  #call(request: ServedRequest): void {
    const host = this.host.ready();
    const table = this.host.knownTools;
    if (table === undefined || isPromise(host)) {
      // The list shows which tools return structured results.
      Promise.resolve(host)
        .then(async (opened) => {
          this.#callOf(opened, await this.host.toolTable(), request);
        })
        .catch((error) => this.fail(request, error));
    } else this.#callOf(host, table, request);
  }

  #callOf(host: OpenHost, table: ToolTable, request: ServedRequest): void {
    const { params, cancellation } = request;
    const { name, arguments: args = {} } = params;
    if (cancellation.isCancelled) return;
    if (typeof name !== 'string') return this.fail(request, invalidParams('params.name must be a string'));
    if (!isObject(args)) return this.fail(request, invalidParams('params.arguments must be an object'));
    const own = table.own.get(name);
    if (own !== undefined) {
      const onEvent = eventsOf(request);
      const options = { ...until(cancellation.signal), ...(onEvent && { onEvent }) };
      own.run(args, options, request.terms.stateless).then(
        (members) => {
          if (!cancellation.isCancelled) this.finish(request, members);
        },
        (error) => this.#callFailed(request, error),
      );
      return;
    }
    if (host.tools === undefined) return this.fail(request, unknownTool(name));
    const tool = table.byName.get(name);
    const onEvent = eventsOf(request);
    const call = host.tools.call(name, args, onEvent === undefined ? UNLIMITED : { ...UNLIMITED, onEvent });
    cancellation.follow(() => call.cancel());
    call.then(
      (result) => {
        if (!cancellation.isCancelled) this.finish(request, resultMembers(result, tool));
      },
      (error) => this.#callFailed(request, error),
    );
  }

  /** Handles a failed call. A tool's failure is a result that its caller's model reads; an unknown tool is an error. */
  #callFailed(request: ServedRequest, thrown: unknown): void {
    if (request.cancellation.isCancelled) return;
    const error = thrown instanceof HandfastError ? thrown : asError(thrown);
    const lacking = request.terms.stateless ? lackingIn(error) : undefined;
    if (lacking !== undefined) {
      return this.fail(
        request,
        new RpcError(MISSING_CAPABILITY, error.message, { requiredCapabilities: lacking }, 400),
      );
    }
    if (error.code === 'unknown_tool') return this.fail(request, unknownTool(String(request.params.name)));
    const { elicitations } = error.detail;
    if (!request.terms.stateless && Array.isArray(elicitations)) {
      return this.fail(request, new RpcError(ADDRESSES_REQUIRED, error.message, { elicitations }));
    }
    const { members, meta } = errorMembers(error);
    this.finish(request, members, meta);
  }

  /** Changes that the client asked for, until it cancels. */
  async #listen(request: ServedRequest): Promise<void> {
    const { id, params, exchange } = request;
    const { signal } = request.cancellation;
    const { notifications } = params;
    if (!isObject(notifications)) throw invalidParams('params.notifications must be an object');
    const host = await this.host.ready();
    const uris = (Array.isArray(notifications.resourceSubscriptions) ? notifications.resourceSubscriptions : []).filter(
      (uri) => typeof uri === 'string',
    );
    const tools = notifications.toolsListChanged === true && (host.tools ?? host.memory ?? host.skill) !== undefined;
    const prompts = notifications.promptsListChanged === true && (host.mcp ?? host.skill) !== undefined;
    const resources = notifications.resourcesListChanged === true && (host.mcp ?? host.memory) !== undefined;
    const wanted = { tools, prompts, resources };
    // The acknowledgement is the first message of the stream.
    const early: Change[] = [];
    let isAcknowledged = false;
    const end = this.host.onChange((change) => {
      if (isAcknowledged) this.#changed(request, change, wanted);
      else if (early.length < MAX_EARLY) early.push(change);
    });
    const release = (): void => {
      end();
      this.host.unsubscribeAll(request);
    };
    signal.addEventListener('abort', release, { once: true });
    await this.host.watched();
    const added = await Promise.all(
      uris.slice(0, MAX_SUBSCRIPTIONS).map((uri) =>
        this.host.subscribe(request, uri, signal).then(
          () => uri,
          () => undefined,
        ),
      ),
    );
    if (signal.aborted) return release();
    // Resources that no server has are left out of the honoured ones, as the protocol demands.
    const subscribed = added.filter((uri) => uri !== undefined);
    const honoured = {
      ...(tools && { toolsListChanged: true }),
      ...(prompts && { promptsListChanged: true }),
      ...(resources && { resourcesListChanged: true }),
      ...(subscribed.length > 0 && { resourceSubscriptions: subscribed }),
    };
    const _meta = { [META_SUBSCRIPTION]: id };
    exchange.notify(notificationText('notifications/subscriptions/acknowledged', { notifications: honoured, _meta }));
    isAcknowledged = true;
    for (const change of early) this.#changed(request, change, wanted);
    if (Object.keys(honoured).length > 0) return;
    release();
    this.finish(request, '', `"${META_SUBSCRIPTION}":${JSON.stringify(id)}`);
  }

  /** Sends a change to a request that listens for it. */
  #changed(
    request: ServedRequest,
    change: Change,
    wanted: Readonly<Record<'tools' | 'prompts' | 'resources', boolean>>,
  ) {
    // Later revisions do not have the other two.
    if (change.kind === 'log' || change.kind === 'elicited') return;
    const isWanted = change.kind === 'resource' ? this.host.isSubscribed(request, change.uri) : wanted[change.kind];
    if (!isWanted) return;
    const { method, params } = changeNotification(change);
    const _meta = { [META_SUBSCRIPTION]: request.id };
    request.exchange.notify(notificationText(method, { ...params, _meta }));
  }
}

/** Changes that wait for an acknowledgement. */
const MAX_EARLY = 1_024;

/** The client decides how long it waits. */
const UNLIMITED = { timeoutMs: 0 };

const hasAnswers = ({ inputResponses, requestState }: Params): boolean =>
  inputResponses !== undefined || requestState !== undefined;

/** Lists depend on the principal, and changes are announced only to clients that listen. */
const LIST_CACHE = { ttlMs: 0, cacheScope: 'private' };

/** Returns the notification of a change. */
export function changeNotification(change: Exclude<Change, { kind: 'log' }>): { method: string; params: object } {
  if (change.kind === 'resource') return { method: 'notifications/resources/updated', params: { uri: change.uri } };
  if (change.kind === 'elicited') return { method: ELICITATION_COMPLETE, params: { elicitationId: change.id } };
  return { method: `notifications/${change.kind}/list_changed`, params: {} };
}

/** Returns the listener for the events that the client requested: progress by a token, logs by a level. */
function eventsOf({ params, terms, exchange, cancellation }: ServedRequest): ((event: CallEvent) => void) | undefined {
  const { progressToken } = metaOf(params);
  const { logLevel } = terms;
  if (progressToken === undefined && logLevel === undefined) return undefined;
  let last = Number.NEGATIVE_INFINITY;
  return ({ kind, data }) => {
    if (cancellation.isCancelled) return;
    if (kind === 'progress' && progressToken !== undefined) {
      const { progress = data.pct, total = data.progress === undefined ? 100 : undefined, message } = data;
      // The progress must increase with every notification.
      if (typeof progress !== 'number' || progress <= last) return;
      last = progress;
      const content = {
        progressToken,
        progress,
        ...(total !== undefined && { total }),
        ...(typeof message === 'string' && message !== '' && { message }),
      };
      exchange.notify(notificationText('notifications/progress', content));
    } else if (kind === 'log' && logLevel !== undefined) {
      const level = isLogLevel(data.level) ? data.level : data.level === 'warn' ? 'warning' : 'info';
      if (isAtLeast(level, logLevel)) exchange.notify(logText(level, 'handfast', data.message ?? data));
    }
  };
}

export const isAtLeast = (level: LogLevel, least: LogLevel): boolean =>
  LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(least);

export const logText = (level: LogLevel, logger: string, data: unknown): string =>
  notificationText('notifications/message', { level, logger, data });

const unknownTool = (name: string): RpcError => invalidParams(`unknown tool: ${name.slice(0, 128)}`);

const isPromise = (value: unknown): value is Promise<OpenHost> =>
  typeof (value as { then?: unknown }).then === 'function';
