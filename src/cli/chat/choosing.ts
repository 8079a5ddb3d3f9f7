/**
 * The commands of a chat that let its user choose: `/model`, `/auth`, `/sessions`, `/queue`. Without a screen they list the
 * choices.
 */
import { counted } from '../../base/counted.ts';
import { type ModelOption, PROVIDERS, type Provider, type Thinking } from '../../protocol/session-types.ts';
import { fail } from '../../wire/errors.ts';
import { signIn, storeKey } from '../commands/auth.ts';
import { fullId } from '../commands/session.ts';
import { ENABLE_A_PROVIDER, enabledBy, statusOf } from '../model/model-text.ts';
import { list, note } from './chat-lists.ts';
import type { ChatPlace } from './chat-place.ts';
import type { Choice } from './screen/prompts.ts';

/** Maximum number of sessions of a list. */
const LISTED = 20;

/** Returns the chosen value; undefined: none, or they were listed because no user can choose. */
async function chosen(place: ChatPlace, title: string, choices: readonly Choice[]): Promise<string | undefined> {
  if (place.asker !== undefined) return place.asker.choose(title, choices);
  list(
    place,
    choices.map(({ value, about = '' }) => [value, about]),
  );
  return undefined;
}

/** `/model`, `/model ID`, `/model ID LEVEL`. A user who chooses from the list is asked for the level too. */
export async function chooseModel(place: ChatPlace, words: string): Promise<void> {
  const { control, session } = place;
  const [given = '', level] = words.split(/\s+/);
  const [{ models }, state] = await Promise.all([control.rpc.modelList({}), session.state()]);
  if (models.length === 0 && given === '') return note(place, `· no model can be used: ${ENABLE_A_PROVIDER}`);
  const current = state.settings.model;
  const choices = models.map(({ id, provider, description }) => ({
    value: id,
    label: id,
    about: `${provider} · ${description}`,
    isCurrent: id === current,
  }));
  const model = given === '' ? await chosen(place, 'Model of this session', choices) : given;
  if (model === undefined) return;
  const option = models.find(({ id }) => id === model);
  const levels = given === '' && option !== undefined ? levelChoices(option, state.settings.thinking) : [];
  const picked = levels.length > 1 ? await place.asker?.choose(`Thinking of ${model}`, levels) : level;
  if (levels.length > 1 && picked === undefined) return;
  const thinking = picked === MODEL_DECIDES ? undefined : picked;
  const { provider } = option ?? {};
  await control.rpc.sessionConfigure({ session_id: session.id, model, provider, thinking_level: thinking });
  note(place, `· this session uses ${model}${thinking === undefined ? '' : `, thinking ${thinking}`}`);
}

/** The level of a model that does not name the one it has by default. */
const MODEL_DECIDES = 'default';

/** Levels of thinking of a model. The list starts at the level in force, if the model has it, else at its default. */
function levelChoices(option: ModelOption, current: Thinking | undefined): Choice[] {
  const { supportedThinkingLevels: levels = [], defaultThinkingLevel: usual } = option;
  const has = (level: Thinking | undefined): boolean => level !== undefined && levels.includes(level);
  const now = has(current) ? current : usual;
  const choices = levels.map((level) => ({
    value: level.toLowerCase(),
    label: level.toLowerCase(),
    about: level === usual ? 'default of this model' : '',
    isCurrent: level === now,
  }));
  // A level that the session has already can be changed, not removed.
  const free = has(usual) || current !== undefined ? [] : [{ value: MODEL_DECIDES, label: MODEL_DECIDES }];
  return [...free, ...choices];
}

/** Providers with a sign-in in place of a stored key, and the ways to sign in. */
const SIGN_INS: Partial<Record<Provider, readonly ('browser' | 'device')[]>> = {
  openai: ['browser', 'device'],
  antigravity: ['browser'],
};

const WAYS: Readonly<Record<string, string>> = {
  key: 'enter an API key',
  browser: 'sign in with a browser on this machine',
  device: 'sign in with a code, on another device',
  remove: 'remove what is stored',
};

/** Lists the providers and their credentials, and lets the user change them. */
export async function chooseAuth(place: ChatPlace): Promise<void> {
  const { control, asker } = place;
  const status = await statusOf(control, place.session.id);
  if (status === undefined) throw fail('unknown_type', 'this server has no model.status; update it');
  const choices = status.providers.map((row) => ({
    value: row.provider,
    label: row.usable ? `${row.provider} ✓` : row.provider,
    about: row.usable ? `${enabledBy(row)}, ${counted(row.model_count, 'model')}` : 'not set up',
  }));
  const name = await chosen(place, 'Provider', choices);
  const provider = PROVIDERS.find((one) => one === name);
  if (provider === undefined || asker === undefined) return;
  const ways = [...(provider === 'antigravity' ? [] : ['key']), ...(SIGN_INS[provider] ?? []), 'remove'];
  const how = await asker.choose(
    provider,
    ways.map((value) => ({ value, label: WAYS[value] ?? value })),
  );
  if (how === 'key') {
    const key = await asker.secret(`API key of ${provider}`);
    if (key !== undefined) await storeKey(control, provider, key, undefined, place.terminal);
  } else if (how === 'remove') {
    const { removed } = await control.rpc.authLogout({ provider });
    note(place, `· ${removed ? `removed what was stored for ${provider}` : `nothing is stored for ${provider}`}`);
  } else if (how !== undefined && (provider === 'openai' || provider === 'antigravity')) {
    await signIn(control, provider, { device: how === 'device' }, place.terminal, place.ended);
  }
}

export async function chooseSession(place: ChatPlace, given: string): Promise<void> {
  const { control } = place;
  if (given !== '') return place.enter(await control.open(await fullId(control, given)));
  const found: Choice[] = [];
  for await (const { session_id, title, updated_at } of control.sessions({ cwd: process.cwd() })) {
    const about = place.asker === undefined ? title : `${updated_at.slice(0, 16).replace('T', ' ')} · ${session_id}`;
    if (found.push({ value: session_id, label: title || 'new session', about }) === LISTED) break;
  }
  const id = await chosen(place, 'Sessions of this folder', found);
  if (id !== undefined) await place.enter(await control.open(id));
}

/** Prompts that wait; the chosen one is taken back into the input. */
export async function chooseQueued(place: ChatPlace): Promise<void> {
  const { control, session, asker } = place;
  const queue = await session.queue();
  if (queue.length === 0) return note(place, '· nothing waits');
  const choices = queue.map(({ id, text }) => ({ value: id, label: text, about: text }));
  const id = await chosen(place, 'Waiting prompts: take one back', choices);
  const taken = queue.find((item) => item.id === id);
  if (taken === undefined) return;
  const { removed } = await control.rpc.queueRemove({ session_id: session.id, turn_id: taken.id });
  if (removed) asker?.edit(taken.text);
  else note(place, '· too late: it has started');
}
