/**
 * The user's choices, stored across restarts: the model for sessions that chose none, and that the set-up is done.
 * `<home>/settings.json`; holds no secret.
 */
import { join } from 'node:path';
import type { Log } from '../../../base/log.ts';
import { readPrivateFile, removePrivateFile, setAside, writePrivateFile } from '../../../base/private-file.ts';
import { SerialWork } from '../../../base/serial-work.ts';
import { PROVIDERS, type Provider, THINKING_LEVELS, type Thinking } from '../../../protocol/session-types.ts';
import { record, textOf } from '../http/http-json.ts';

/** The model chosen for all sessions. */
export interface SelectedModel {
  readonly model: string;
  readonly provider: Provider;
  readonly thinking: Thinking;
  /** `any`, or a routing provider of OpenRouter. */
  readonly openRouterProvider: string;
}

export interface Choices {
  /** Undefined = none made yet. */
  readonly selected: SelectedModel | undefined;
  readonly onboarded: boolean;
}

export interface ChoiceStore {
  readonly current: Choices;
  /**
   * Changes the choices; on disk before it returns, and unchanged in memory when that fails. `change` sees the result of the
   * change before.
   */
  update(change: (now: Choices) => Choices): Promise<void>;
  clear(): Promise<void>;
  /** Waits for the running changes; failed ones too. */
  idle(): Promise<void>;
}

const NOTHING: Choices = { selected: undefined, onboarded: false };

/** Reads the choices of a data directory. A damaged file is quarantined and logged: its choices are easily made again. */
export async function openChoices(home: string, log: Log): Promise<ChoiceStore> {
  const file = join(home, 'settings.json');
  let current = NOTHING;
  const changes = new SerialWork();

  const text = await readPrivateFile(file, log);
  try {
    if (text !== undefined) current = readChoices(JSON.parse(text));
  } catch {
    log.warn('quarantined damaged settings', { file: await setAside(file) });
  }

  return {
    get current() {
      return current;
    },
    update: (change) =>
      changes.run(async () => {
        const next = change(current);
        const { selected, onboarded } = next;
        await writePrivateFile(
          file,
          `${JSON.stringify({ version: 1, selected: selected ?? null, onboarded }, null, 2)}\n`,
        );
        current = next;
      }),
    clear: () =>
      changes.run(async () => {
        await removePrivateFile(file);
        current = NOTHING;
      }),
    idle: () => changes.idle(),
  };
}

/** Returns the choices of a data directory without changing it: those of a damaged file count as none. */
export async function storedChoices(home: string, log: Log): Promise<Choices> {
  const text = await readPrivateFile(join(home, 'settings.json'), log);
  try {
    return text === undefined ? NOTHING : readChoices(JSON.parse(text));
  } catch {
    return NOTHING;
  }
}

/** Throws when it is no JSON object; members that make no sense count as absent. */
function readChoices(value: unknown): Choices {
  if (typeof value !== 'object' || value === null) throw new Error('not an object');
  const { selected, onboarded } = record(value);
  const { model, provider, thinking, openRouterProvider } = record(selected);
  const name = textOf(model);
  const usable =
    name !== undefined && PROVIDERS.includes(provider as Provider) && THINKING_LEVELS.includes(thinking as Thinking);
  return {
    selected: usable
      ? {
          model: name,
          provider: provider as Provider,
          thinking: thinking as Thinking,
          openRouterProvider: textOf(openRouterProvider) ?? 'any',
        }
      : undefined,
    onboarded: onboarded === true,
  };
}
