/**
 * Settings of a session that an editor may change: whether it gets approvals, the model, the effort of thinking. Both
 * as modes and as config options, because editors that know the latter ignore the former.
 */
import type { SessionConfigOption, SessionModeState } from '../../acp/sdk.ts';
import type { ParamsOf } from '../../protocol/rpc-reader.ts';
import type { ModelListResult, sessionConfigure } from '../../protocol/session-rpc.ts';
import type { SessionSettings, SessionState, Thinking } from '../../protocol/session-types.ts';
import { fail } from '../../wire/errors.ts';

/** The parameters of `session.configure`. */
type Change = Omit<ParamsOf<typeof sessionConfigure>, 'session_id'>;

type Mode = NonNullable<SessionSettings['approvals']>;

const MODES: readonly { readonly id: Mode; readonly name: string; readonly description: string }[] = [
  { id: 'ask', name: 'Ask', description: 'Asks before anything that does more than read' },
  { id: 'allow', name: 'Allow', description: 'Allows without asking, but for what the policy denies' },
  { id: 'deny', name: 'Deny', description: 'Denies what would be asked' },
];

/** Stands for "none" where a value is needed. */
const NO_MODEL = 'none';

/** Returns the mode of a session; a session without the setting asks. */
export const modeOf = ({ approvals = 'ask' }: SessionSettings): Mode => approvals;

export function modesOf(settings: SessionSettings): SessionModeState {
  return { currentModeId: modeOf(settings), availableModes: [...MODES] };
}

/** Fails with `schema_violation` for an unknown mode. */
export function changeOfMode(id: string): Change & { readonly approvals: Mode } {
  const mode = MODES.find((each) => each.id === id);
  if (mode === undefined) throw unknownValue('mode', id);
  return { approvals: mode.id };
}

/**
 * Returns the options of a session. `models` only if its backend uses a model of this server: agents behind other
 * backends choose theirs.
 */
export function configOptionsOf(
  { settings }: Pick<SessionState, 'settings'>,
  models: ModelListResult | undefined,
): SessionConfigOption[] {
  const mode: SessionConfigOption = {
    type: 'select',
    id: 'mode',
    name: 'Approvals',
    category: 'mode',
    currentValue: modeOf(settings),
    options: MODES.map(({ id, name, description }) => ({ value: id, name, description })),
  };
  return models === undefined ? [mode] : [mode, ...modelOptions(settings, models)];
}

/** Returns the change for a chosen value. Fails with `schema_violation` for an unknown value. */
export function changeOfOption(id: string, value: unknown, models: ModelListResult | undefined): Change {
  if (typeof value !== 'string') throw unknownValue(id, String(value));
  if (id === 'mode') return changeOfMode(value);
  if (id === 'model') {
    const model = models?.models.find((each) => keyOf(each) === value);
    if (model === undefined) throw unknownValue(id, value);
    return { model: model.id, provider: model.provider };
  }
  if (id === 'thinking') return { thinking_level: value };
  throw fail('schema_violation', `there is no option ${id}`, { field: 'configId' });
}

const unknownValue = (option: string, value: string) =>
  fail('schema_violation', `${option} cannot be ${JSON.stringify(value)}`, { field: option });

const keyOf = ({ provider, id }: { readonly provider: string; readonly id: string }): string => `${provider}/${id}`;

function modelOptions(settings: SessionSettings, { models, ...selected }: ModelListResult): SessionConfigOption[] {
  const { selected_model, selected_provider, selected_thinking } = selected;
  const id = settings.model ?? selected_model;
  const provider = settings.provider ?? selected_provider;
  const chosen = models.find((each) => each.id === id && (provider === null || each.provider === provider));
  const current = chosen !== undefined ? keyOf(chosen) : id === '' ? NO_MODEL : keyOf({ provider: provider ?? '', id });
  const listed = models.map((each) => ({ value: keyOf(each), name: each.label, description: each.description }));
  const missing = chosen === undefined ? [{ value: current, name: id === '' ? 'No model chosen' : id }] : [];
  const model: SessionConfigOption = {
    type: 'select',
    id: 'model',
    name: 'Model',
    category: 'model',
    currentValue: current,
    options: [...missing, ...listed],
  };
  const levels = chosen?.supportedThinkingLevels ?? [];
  if (levels.length === 0) return [model];
  const asked = settings.thinking ?? selected_thinking;
  const level: Thinking | undefined = levels.includes(asked) ? asked : (chosen?.defaultThinkingLevel ?? levels[0]);
  const thinking: SessionConfigOption = {
    type: 'select',
    id: 'thinking',
    name: 'Thinking',
    category: 'thought_level',
    currentValue: level ?? asked,
    options: levels.map((each) => ({ value: each, name: each[0] + each.slice(1).toLowerCase() })),
  };
  return [model, thinking];
}
