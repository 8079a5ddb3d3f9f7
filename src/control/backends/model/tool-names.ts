/**
 * Tools as a provider takes them. Names have letters, digits, `_` and `-`, at most 64, beginning with a letter or `_`; names
 * here may hold dots and slashes, so they are translated on the way out and back on the way in, as names of properties are.
 * Schemas are adapted by `tool-schemas.ts`. A tool that cannot be put into the form of the provider is left out, with its
 * reason: one definition that the provider refuses costs the whole request.
 *
 * Pure; the same tools get the same names in every round.
 */
import { FreeNames } from '../../../base/free-names.ts';
import { atOnce, inTurns, type Turns } from '../../../base/turns.ts';
import type { ToolOffer } from '../../rounds/toolbox.ts';
import type { FunctionTool } from './provider-model.ts';
import { type AdaptedSchema, adaptedSchema } from './tool-schemas.ts';

const MAX_LENGTH = 64;
/** Tools of one request at most, as the providers' references say. */
const MAX_TOOLS: Readonly<Record<string, number>> = { openai: 128, google: 512, antigravity: 512 };
/** Maximum number of subschemas that are built for one request: strangers write them. */
const MAX_WORK = 40_000;

type Input = Readonly<Record<string, unknown>>;

export interface ToolNames {
  /** The offers as the provider is given them. */
  readonly tools: readonly FunctionTool[];
  /** Tools that the provider does not get, with the reason. */
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[];
  /** Returns the provider's name for a tool, also for one that is not offered any more. */
  toProvider(name: string): string;
  /** Returns the tool's name for a provider's; an unknown name stays as the model gave it. */
  fromProvider(name: string): string;
  /** Returns arguments of a tool, by the tool's own name, with the provider's names of members. */
  inputToProvider(name: string, input: Input): Input;
  /** Returns arguments from the provider with the tool's names of members. */
  inputFromProvider(name: string, input: Input): Input;
}

export interface ToolNamesOptions {
  readonly provider: string;
  readonly model: string;
  /** Tools that the provider refused before, by name, with its reason. */
  readonly refused?: ReadonlyMap<string, string>;
}

const ANY_PROVIDER: ToolNamesOptions = { provider: '', model: '' };

/** Names and definitions for a list of offers. */
export const toolNames = (offers: readonly ToolOffer[], options: ToolNamesOptions = ANY_PROVIDER): ToolNames =>
  atOnce(namesOf(offers, options));

/** Makes names as {@link toolNames}, in as many turns as that takes. */
export const toolNamesInTurns = (
  offers: readonly ToolOffer[],
  options: ToolNamesOptions,
  turns: Turns,
): Promise<ToolNames> => inTurns(namesOf(offers, options), turns);

function* namesOf(offers: readonly ToolOffer[], options: ToolNamesOptions): Generator<void, ToolNames> {
  const outward = new Map<string, string>();
  const inward = new Map<string, string>();
  const free = new FreeNames({ longest: MAX_LENGTH });
  // Names that need no change come first: no other tool may take them.
  const inOrder = [...offers].sort(
    (one, other) => Number(plain(one.name) !== one.name) - Number(plain(other.name) !== other.name),
  );
  for (const { name } of inOrder) {
    const given = free.take(plain(name));
    outward.set(name, given);
    inward.set(given, name);
  }
  const { adapted, leftOut } = yield* adaptedOffers(offers, options);
  return {
    tools: offers.flatMap(({ name, description }) => {
      const made = adapted.get(name);
      if (made === undefined) return [];
      const { schema, note } = made;
      return {
        type: 'function',
        name: outward.get(name) as string,
        description: [description, note]
          .filter((text) => text !== '')
          .join('\n')
          .toWellFormed(),
        inputSchema: schema,
      };
    }),
    leftOut,
    toProvider: (name) => outward.get(name) ?? plain(name),
    fromProvider: (name) => inward.get(name) ?? name,
    inputToProvider: (name, input) => adapted.get(name)?.names?.toProvider(input) ?? input,
    inputFromProvider: (name, input) => adapted.get(name)?.names?.fromProvider(input) ?? input,
  };
}

/** Offers in the order in which they stay: where too many are offered, the tools of strangers give way first. */
export const strangersLast = (offers: readonly ToolOffer[]): readonly ToolOffer[] =>
  offers.toSorted((one, other) => Number(one.kind === 'mcp') - Number(other.kind === 'mcp'));

/** Yields the schemas of the offers that the provider takes. */
function* adaptedOffers(offers: readonly ToolOffer[], { provider, model, refused }: ToolNamesOptions) {
  const adapted = new Map<string, AdaptedSchema>();
  const leftOut: { readonly name: string; readonly reason: string }[] = [];
  const most = MAX_TOOLS[provider] ?? Number.POSITIVE_INFINITY;
  let work = 0;
  for (const { name, inputSchema } of strangersLast(offers)) {
    const reason =
      refused?.get(name) ??
      (adapted.size >= most ? `${provider} takes ${most} tools at most` : undefined) ??
      (work >= MAX_WORK ? 'the schemas of all tools are too large together' : undefined);
    const made = reason ?? adaptedSchema(inputSchema, provider, model);
    if (typeof made === 'string') leftOut.push({ name, reason: made });
    else {
      work += made.work;
      adapted.set(name, made);
    }
    yield;
  }
  return { adapted, leftOut };
}

function plain(name: string): string {
  const allowed = name.replaceAll(/[^A-Za-z0-9_-]/g, '_');
  return (/^[A-Za-z_]/.test(allowed) ? allowed : `_${allowed}`).slice(0, MAX_LENGTH);
}
