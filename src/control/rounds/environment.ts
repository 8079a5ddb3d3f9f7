/**
 * The tools of an environment host as a toolbox: the tools that an A2E session lists and calls, in the terms of the round loop,
 * and the tools by which a model uses the host's other capabilities. Tools that a host defers are found by the tool
 * `tool_search`.
 *
 * `environments.ts` knows how the session is opened and when it may be closed.
 * @see docs/protocol/a2e.md#tools
 */
import { orAborted } from '../../base/race.ts';
import type { CallEvent } from '../../connection/call.ts';
import type { ToolCall, ToolDone } from '../../protocol/session-types.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import type { PlanEntry, SessionWork } from '../contract/session-log.ts';
import { DeferredTools, searchOffer } from './deferred-tools.ts';
import { type FailedStatus, failedCall } from './failed-call.ts';
import { liveOutput, type Output } from './live-output.ts';
import { ArtifactMedia } from './result-media.ts';
import { type Foreseen, objectSchema, type Toolbox, type ToolOffer } from './toolbox.ts';
import type { WorkEnd } from './work.ts';

/** A tool as a host describes it, as far as a toolbox needs it. */
export interface DescribedTool {
  readonly name: string;
  readonly description: string;
  readonly input_parameters?: readonly {
    readonly name: string;
    readonly type: string;
    readonly description: string;
    readonly required?: boolean;
    readonly enum?: readonly unknown[] | null;
  }[];
  readonly input_schema?: Readonly<Record<string, unknown>>;
  readonly kind?: string;
  readonly risks?: readonly string[];
  readonly tags?: readonly string[];
  readonly defer_loading?: boolean;
}

/** A call of such a tool. */
export interface CapabilityCall {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly onEvent: (event: CallEvent) => void;
  /**
   * Work that outlives the turn: subagents, runs of chains, processes. Rejects where the session has none, and as connecting
   * does.
   */
  readonly lasting: () => Promise<LastingHost>;
}

/** A tool by which a model uses a capability of the host. */
export interface CapabilityTool {
  readonly offer: ToolOffer;
  /** Returns the result. Rejects with `schema_violation`, and as the capability does. */
  run(input: Readonly<Record<string, unknown>>, call: CapabilityCall): Promise<unknown>;
  /** See `Toolbox.foresee`. */
  foresee?(
    input: Readonly<Record<string, unknown>>,
    call: Pick<CapabilityCall, 'signal' | 'lasting'>,
  ): Promise<Foreseen>;
}

/** A session with a host that lasts as long as the control session, beyond its turns and idle times. */
export interface LastingHost {
  /** `closed`: ended for good, a new one is needed. */
  readonly state: 'open' | 'lost' | 'closed';
  /** Calls a tool of the work of a session. Rejects as `CapabilityTool.run`. */
  call(
    name: string,
    input: Readonly<Record<string, unknown>>,
    call: Pick<CapabilityCall, 'signal' | 'timeoutMs' | 'onEvent'>,
  ): Promise<unknown>;
  /** See `Toolbox.foresee`. */
  foresee(name: string, input: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<Foreseen>;
  /** Waits for the end of work that an earlier process, or an earlier session with the host, began. */
  follow(work: SessionWork): Promise<WorkEnd>;
  /** True while something would be lost with it that its model may still use. */
  holds(): boolean;
  /** Ends the subagents and processes; runs of chains are interrupted. */
  close(): Promise<void>;
}

/** A stored memory entry, found for a prompt. */
export interface RecalledEntry {
  readonly key: string;
  /** The fact: a text, else JSON. */
  readonly text: string;
}

/** The plan of a session at its host. */
export interface SessionPlan {
  /** Replaces the plan by the entries. */
  put(
    entries: readonly PlanEntry[],
    options: { readonly signal: AbortSignal; readonly timeoutMs: number },
  ): Promise<void>;
  /**
   * Yields the plan as it is now and after each change: other entries than the current ones; undefined where they are the same.
   * Ends with the session with the host.
   */
  follow(current: () => readonly PlanEntry[]): AsyncGenerator<readonly PlanEntry[] | undefined>;
}

/** Capabilities of its host that a session may use beside its tools. */
export interface OtherCapabilities {
  /** True while something would be lost with the session at the host. */
  holds(): boolean;
  /**
   * Returns the tools of the capabilities that were granted. Lists of the host are kept until it says that they changed.
   * @param options.again true: they are asked for again
   */
  tools(options: { readonly timeoutMs?: number; readonly again?: boolean }): Promise<readonly CapabilityTool[]>;
  /** Returns the memory entries that match a text, the best first; absent where the host has no memory. */
  readonly recall?: (
    text: string,
    options: { readonly limit: number; readonly signal: AbortSignal },
  ) => Promise<readonly RecalledEntry[]>;
  /** The plan of a control session; absent where the host has no planning. */
  readonly plan?: (session: string) => SessionPlan;
}

/** A host's reply to a call. */
export interface AnsweredCall {
  readonly data?: unknown;
  readonly exit_code?: number | null;
}

/** The part of an agent's session with a host that is used here; `connect(…, { capabilities: ['tools'] })` makes one. */
export interface EnvironmentAgent {
  /** `closed`: ended for good, a new one is needed. */
  readonly state: 'open' | 'lost' | 'closed';
  readonly tools: {
    list(
      filter: { includeDeferred?: boolean },
      options: { signal?: AbortSignal; timeoutMs?: number },
    ): PromiseLike<readonly DescribedTool[]>;
    call(
      name: string,
      args: Readonly<Record<string, unknown>>,
      options: {
        signal?: AbortSignal;
        timeoutMs?: number;
        correlationId?: string;
        onEvent?: (event: CallEvent) => void;
      },
    ): PromiseLike<AnsweredCall>;
  };
  /** True while something would be lost with it that its model may still use. Absent: nothing ever is. */
  holds?(): boolean;
  /** The other capabilities of the host; resolves with undefined where none is granted. Rejects as connecting does. */
  readonly others?: () => Promise<OtherCapabilities | undefined>;
  close(): Promise<void>;
}

/** Lends a session for one piece of work. Rejects when no session can be had. */
export type Borrow = <Result>(work: (agent: EnvironmentAgent) => PromiseLike<Result>) => Promise<Result>;

export interface EnvironmentOptions {
  /** See `CapabilityCall.lasting`. Default: the session has no lasting work. */
  readonly lasting?: () => Promise<LastingHost>;
  /**
   * Called when a call begins; the returned function is called when the call has ended. Until then nothing of the session is
   * closed.
   */
  readonly hold?: () => () => void;
  /** Longest time of a call the tool itself does not limit, in milliseconds. Default 15 minutes. */
  readonly callTimeoutMs?: number;
  /** Longest time for a list, in milliseconds. Default 15,000. */
  readonly listTimeoutMs?: number;
}

const DEFAULT_CALL_TIMEOUT_MS = 15 * 60_000;
const DEFAULT_LIST_TIMEOUT_MS = 15_000;

/** Codes of a lost session, and with it perhaps of a lost reply. */
const LOST = new Set([
  'connection_lost',
  'session_expired',
  'interrupted',
  'superseded',
  'reply_lost',
  'slow_consumer',
]);

/** The status of other failed calls. */
const STATUS: Readonly<Record<string, FailedStatus>> = {
  unknown_tool: 'not_found',
  tool_denied: 'denied',
  schema_violation: 'invalid_input',
  timeout: 'timeout',
  cancelled: 'cancelled',
};

/** The toolbox of one session. */
export interface EnvironmentToolbox extends Toolbox {
  /** Begins a turn: lists that were kept are asked for again. */
  renew(): void;
}

/** Makes it. `list` rejects when the environment cannot be reached; `call` never does. */
export function environmentToolbox(borrow: Borrow, options: EnvironmentOptions = {}): EnvironmentToolbox {
  const { callTimeoutMs = DEFAULT_CALL_TIMEOUT_MS, listTimeoutMs = DEFAULT_LIST_TIMEOUT_MS, lasting = none } = options;
  let offers: ReadonlyMap<string, ToolOffer> = new Map();
  let capabilityTools: ReadonlyMap<string, CapabilityTool> = new Map();
  const deferred = new DeferredTools();
  const timeoutMs = listTimeoutMs;
  let again = true;
  const ask = () =>
    borrow(async (agent) => {
      const options = { timeoutMs, again };
      again = false;
      const [own, others] = await Promise.all([
        agent.tools.list({ includeDeferred: true }, { timeoutMs }),
        // A capability that fails to list costs its own tools, not those of the host.
        agent
          .others?.()
          .then((granted) => granted?.tools(options))
          .catch(() => undefined),
      ]);
      return { own: own.map(offerOf), others: others ?? [] };
    });
  return {
    renew() {
      again = true;
    },
    async list() {
      // A list changes nothing, so one whose session was lost is simply asked for again.
      const { own, others } = await ask().catch((error) => {
        if (LOST.has(asError(error).code)) return ask();
        throw error;
      });
      const names = new Set(own.map(({ name }) => name));
      const further = others.filter(({ offer }) => !names.has(offer.name));
      capabilityTools = new Map(further.map((each) => [each.offer.name, each]));
      const listed = deferred.listed([...own, ...further.map(({ offer }) => offer)]);
      const sorted = listed.sort((one, other) => (one.name < other.name ? -1 : 1));
      offers = new Map(sorted.map((offer) => [offer.name, offer]));
      return sorted;
    },
    // A deferred tool can be called without being listed.
    find: (name) => offers.get(name) ?? deferred.find(name),
    foresee: async ({ name, input }, signal) =>
      capabilityTools.get(name)?.foresee?.(structuredClone(input), { signal, lasting }),
    async call(call, signal, output) {
      if (offers.get(call.name) === searchOffer) return deferred.search(call);
      const live = liveOutput(output);
      const release = options.hold?.();
      const media = new ArtifactMedia();
      const capabilityTool = capabilityTools.get(call.name);
      try {
        if (capabilityTool !== undefined) {
          const onEvent = (event: CallEvent) => passOn(event, live.push);
          const options = { signal, timeoutMs: callTimeoutMs, onEvent, lasting };
          const run = capabilityTool.run(structuredClone(call.input), options);
          return finished(call, { data: await orAborted(run, signal) });
        }
        const answer = borrow((agent) =>
          // A copy: in one process the tool gets this very object, and the approved input must not change.
          agent.tools.call(call.name, structuredClone(call.input), {
            signal,
            timeoutMs: callTimeoutMs,
            correlationId: call.callId,
            onEvent: (event) => {
              if (event.kind === 'artifact') media.add(event.data);
              passOn(event, live.push);
            },
          }),
        );
        // A session that is still being opened does not react to the signal.
        const done = finished(call, await orAborted(answer, signal));
        return media.images.length > 0 ? { ...done, images: media.images } : done;
      } catch (error) {
        return failure(call, asError(error), signal);
      } finally {
        live.end();
        release?.();
      }
    },
  };
}

const none = async (): Promise<never> => {
  throw fail('not_configured', 'this server runs no subagents, chains and processes for its sessions');
};

function offerOf({ name, description, kind, risks = [], tags, defer_loading, ...tool }: DescribedTool): ToolOffer {
  return {
    name,
    description,
    inputSchema: schemaOf(tool),
    ...(kind !== undefined && { kind }),
    risks,
    ...(tags !== undefined && tags.length > 0 && { tags }),
    ...(defer_loading === true && { deferred: true }),
  };
}

/** Returns JSON Schema of an object: the host's, or one made of the flat form that every host has. */
function schemaOf({ input_schema, input_parameters = [] }: Omit<DescribedTool, 'name' | 'description'>): object & {
  readonly [member: string]: unknown;
} {
  if (input_schema !== undefined) return objectSchema(input_schema);
  const required = input_parameters.filter((parameter) => parameter.required).map(({ name }) => name);
  const properties = input_parameters.map(({ name, type, description, enum: words }) => [
    name,
    { type, description, ...(words != null && { enum: words }) },
  ]);
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    ...(required.length > 0 && { required }),
  };
}

/** Passes on a tool's event as live output. */
function passOn({ kind, data }: CallEvent, output: Output): void {
  const message = typeof data.message === 'string' ? data.message : '';
  switch (kind) {
    case 'log':
      return output(typeof data.level === 'string' ? data.level : 'log', message);
    case 'progress':
      return output('progress', typeof data.pct === 'number' ? `${Math.round(data.pct)} % ${message}`.trim() : message);
    case 'artifact':
      // Its content is not text for a terminal; that it came is.
      return data.final === false ? undefined : output('artifact', `${String(data.name)} (${String(data.mime)})`);
    default:
      return output(kind, message);
  }
}

/** Returns the finished call. A program that failed is a failed call with its whole output, because the model has to see it. */
function finished({ callId, name, input }: ToolCall, { data, exit_code }: AnsweredCall): ToolDone {
  const ok = exit_code == null || exit_code === 0;
  const timedOut = (data as { timed_out?: unknown } | null | undefined)?.timed_out === true;
  const error = ok ? undefined : timedOut ? `timed out (exit code ${exit_code})` : `exit code ${exit_code}`;
  return { name, ok, input, result: data ?? null, ...(error !== undefined && { error }), callId };
}

function failure(call: ToolCall, error: HandfastError, signal: AbortSignal): ToolDone {
  const { code, message, detail } = error;
  // A reply of a host with `success: false` has its data beside the error.
  const { result, ...facts } = detail as { result?: { data?: unknown } };
  const more = {
    code,
    ...(Object.keys(facts).length > 0 && { detail: facts }),
    ...(result?.data != null && { data: result.data }),
  };
  if (signal.aborted) return failedCall(call, 'cancelled', `stopped: ${asError(signal.reason).message}`, more);
  if (code === 'unknown_tool') return failedCall(call, 'not_found', `unknown tool: ${call.name}`);
  if (LOST.has(code)) {
    const lost = `${message}; the tool may or may not have taken effect`;
    return failedCall(call, 'lost', lost, more);
  }
  return failedCall(call, Object.hasOwn(STATUS, code) ? (STATUS[code] as FailedStatus) : 'failed', message, more);
}
