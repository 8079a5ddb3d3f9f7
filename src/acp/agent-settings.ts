/**
 * Mode and model of an agent's session, which agents offer in one of two ways: as modes, or as options with a category.
 */
import { fail } from '../wire/errors.ts';
import type { SessionConfigOption, SessionModeState } from './sdk.ts';

type Category = 'mode' | 'model';

/** The way in which a setting is changed at the agent. */
export type Change =
  | { readonly kind: 'mode'; readonly modeId: string }
  | { readonly kind: 'option'; readonly configId: string; readonly value: string };

/** The agent's settings, updated by its notifications. */
export class AgentSettings {
  #modes: SessionModeState | undefined;
  #options: readonly SessionConfigOption[] = [];

  /** Reads the reply to `session/new`, `session/load` or `session/resume`. */
  take({ modes, configOptions }: { modes?: SessionModeState | null; configOptions?: unknown }): void {
    this.#modes = modes ?? undefined;
    this.options(configOptions ?? []);
  }

  /** Stores the options that the agent sent again. */
  options(options: unknown): void {
    if (Array.isArray(options)) this.#options = options.filter((one) => typeof one === 'object' && one !== null);
  }

  /** Stores the mode to which the agent changed. */
  modeChanged(modeId: string): void {
    if (this.#modes !== undefined) this.#modes = { ...this.#modes, currentModeId: modeId };
  }

  /** The agent's current mode; undefined if it reports none. */
  get mode(): string | undefined {
    if (this.#modes !== undefined) return this.#modes.currentModeId;
    const option = this.#option('mode');
    return option?.type === 'select' ? option.currentValue : undefined;
  }

  /**
   * Returns the change that sets the wanted mode; undefined if none is needed.
   *
   * @throws not_configured when the agent does not have it
   */
  toMode(wanted: string, agent: string): Change | undefined {
    if (this.mode === wanted) return undefined;
    const known = this.#modes?.availableModes.map(({ id }) => id) ?? valuesOf(this.#option('mode'));
    if (!known.includes(wanted)) {
      const has = known.length === 0 ? 'has no modes' : `has no mode "${wanted}"; it has: ${known.join(', ')}`;
      throw fail('not_configured', `the agent ${agent} ${has}`, { agent, modes: known });
    }
    if (this.#modes !== undefined) return { kind: 'mode', modeId: wanted };
    return { kind: 'option', configId: this.#option('mode')!.id, value: wanted };
  }

  /** Returns the change that sets a model. If the agent does not offer the model, nothing changes. */
  toModel(wanted: string): Change | undefined {
    const option = this.#option('model');
    if (option?.type !== 'select' || option.currentValue === wanted || !valuesOf(option).includes(wanted))
      return undefined;
    return { kind: 'option', configId: option.id, value: wanted };
  }

  #option(category: Category): SessionConfigOption | undefined {
    return this.#options.find((option) => option.category === category && option.type === 'select');
  }
}

function valuesOf(option: SessionConfigOption | undefined): string[] {
  if (option?.type !== 'select') return [];
  return option.options.flatMap((one) => ('options' in one ? one.options : [one])).map(({ value }) => value);
}
