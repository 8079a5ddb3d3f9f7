/**
 * Names of tools as providers take them: letters, digits, `_` and `-`, at most 64, beginning with a letter or `_`. Ours
 * may hold dots and slashes, so they are translated on the way out and back on the way in.
 *
 * Used by `provider-rounds.ts`. Pure; the same tools get the same names in every round.
 */
import type { ToolOffer } from '../../rounds/toolbox.ts';
import type { FunctionTool } from './provider-model.ts';

const MAX_LENGTH = 64;

export interface ToolNames {
  /** The offers as the provider is given them. */
  readonly tools: readonly FunctionTool[];
  /** The provider's name for a tool, also for one that is not offered any more. */
  toProvider(name: string): string;
  /** Our name for a provider's; an unknown name stays as the model gave it. */
  fromProvider(name: string): string;
}

/** Names for a list of offers. */
export function toolNames(offers: readonly ToolOffer[]): ToolNames {
  const outward = new Map<string, string>();
  const inward = new Map<string, string>();
  // Names that need no change come first: no other tool may take them.
  const inOrder = [...offers].sort(
    (one, other) => Number(plain(one.name) !== one.name) - Number(plain(other.name) !== other.name),
  );
  for (const { name } of inOrder) {
    let given = plain(name);
    for (let count = 2; inward.has(given); count += 1) {
      const suffix = `_${count}`;
      given = plain(name).slice(0, MAX_LENGTH - suffix.length) + suffix;
    }
    outward.set(name, given);
    inward.set(given, name);
  }
  return {
    tools: offers.map(({ name, description, inputSchema }) => ({
      type: 'function',
      name: outward.get(name) as string,
      description,
      inputSchema,
    })),
    toProvider: (name) => outward.get(name) ?? plain(name),
    fromProvider: (name) => inward.get(name) ?? name,
  };
}

function plain(name: string): string {
  const allowed = name.replaceAll(/[^A-Za-z0-9_-]/g, '_');
  return (/^[A-Za-z_]/.test(allowed) ? allowed : `_${allowed}`).slice(0, MAX_LENGTH);
}
