/**
 * The tools of a session as the round loop sees them.
 */
import type { Image, ToolCall, ToolDone } from '../../protocol/session-types.ts';
import type { IncludedCall } from '../contract/approver.ts';

/** A tool a model may be offered. */
export interface ToolOffer {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of an object. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly kind?: string;
  readonly risks: readonly string[];
  readonly tags?: readonly string[];
  /** Left out of lists until a search finds it. Default false. */
  readonly deferred?: boolean;
}

/** Adapted schemas of tools, by the schemas of the tools. */
const completed = new WeakMap<object, ToolOffer['inputSchema']>();

/**
 * Returns the schema of a tool as an object schema. One schema gives one object in all rounds: its adapted forms are stored
 * with that object.
 */
export function objectSchema(given: object): ToolOffer['inputSchema'] {
  const known = completed.get(given);
  if (known !== undefined) return known;
  const schema = { type: 'object', properties: {}, ...given };
  completed.set(given, schema);
  return schema;
}

/** Facts about a call that are found out before its approval is requested. */
export interface Foreseen {
  /** The call as it is to be made and shown. */
  readonly input: ToolCall['input'];
  readonly risks: readonly string[];
  /** Calls that it makes. */
  readonly includes: readonly IncludedCall[];
}

/** The result of a call, with the images and audio that came beside it. */
export type ToolOutcome = ToolDone & { readonly images?: readonly Image[] };

export interface Toolbox {
  /** Returns the tools that can be called now, sorted by name. */
  list(): Promise<readonly ToolOffer[]>;
  /** Returns the offer of one tool; undefined = unknown. */
  find(name: string): ToolOffer | undefined;
  /**
   * Returns the effects of a call, for tools whose offer does not state them; undefined: as the offer states. Rejects with the
   * reason why the call cannot be made.
   */
  foresee?(call: ToolCall, signal: AbortSignal): Promise<Foreseen | undefined>;
  /**
   * Calls a tool. Never rejects: a failure is `ok: false` with `error`, an abort too.
   * @param output receives its output while it runs
   */
  call(call: ToolCall, signal: AbortSignal, output: (stream: string, text: string) => void): Promise<ToolOutcome>;
}
