/**
 * The tools of a session as the round loop sees them. `environment.ts` of this folder makes one out of an A2E session.
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

/** The schema of a tool as that of an object. One schema gives one object in all rounds: its adapted forms are stored with that object. */
export function objectSchema(given: object): ToolOffer['inputSchema'] {
  const known = completed.get(given);
  if (known !== undefined) return known;
  const schema = { type: 'object', properties: {}, ...given };
  completed.set(given, schema);
  return schema;
}

/** What is found out about a call before it is asked for. */
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
  /** What can be called now, sorted by name. */
  list(): Promise<readonly ToolOffer[]>;
  /** The offer of one tool; undefined = unknown. */
  find(name: string): ToolOffer | undefined;
  /** What a call will do, for tools whose offer does not say; undefined: as the offer says. Rejects with why it cannot be made. */
  foresee?(call: ToolCall, signal: AbortSignal): Promise<Foreseen | undefined>;
  /**
   * Calls a tool. Never rejects: what goes wrong is `ok: false` with `error`, an abort too.
   * @param output receives what it prints while it runs
   */
  call(call: ToolCall, signal: AbortSignal, output: (stream: string, text: string) => void): Promise<ToolOutcome>;
}
