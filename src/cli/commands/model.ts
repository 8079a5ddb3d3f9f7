/**
 * `handfast model …`: lists the models that can be used, chooses the one of sessions that made no choice, and tries one out.
 */
import { suggest } from '../../base/suggest.ts';
import type { ModelOption } from '../../protocol/session-types.ts';
import { fail } from '../../wire/errors.ts';
import type { ControlFlags } from '../connect/open-control.ts';
import { type ReachedServer, withServer } from '../connect/reach-server.ts';
import { ENABLE_A_PROVIDER, modelLine, statusOf } from '../model/model-text.ts';
import { snakeKeys } from '../output/snake-case.ts';
import type { Terminal } from '../output/terminal.ts';
import { exitCodeOf } from './session-send.ts';

export interface ModelFlags extends ControlFlags {
  readonly config?: string;
}

/** The prompt of a trial; the shortest answer costs least. */
const TRIAL = 'Reply with the one word: ok';

const nameOf = ({ provider, id }: ModelOption): string => `${provider}/${id}`;

export async function modelList(flags: ModelFlags & { readonly provider?: string }, terminal: Terminal): Promise<void> {
  await withServer(flags, terminal, async ({ control }) => {
    // Waits for lists that are being read.
    const status = await statusOf(control);
    const { models } = await control.rpc.modelList({ provider: flags.provider });
    if (terminal.json) return terminal.document({ choice: status?.choice ?? null, models: models.map(snakeKeys) });
    const line = status && modelLine({ ...status, backend: 'model' }, process.env);
    if (line !== undefined) terminal.note(line);
    if (models.length === 0) return;
    const chosen = status?.choice;
    terminal.table(
      ['', 'MODEL', 'CONTEXT', 'THINKING', 'ABOUT'],
      models.map((model) => [
        model.provider === chosen?.provider && model.id === chosen.model ? '*' : '',
        nameOf(model),
        model.contextWindowTokens === undefined ? '' : String(model.contextWindowTokens),
        (model.supportedThinkingLevels ?? []).join(' ').toLowerCase(),
        model.description,
      ]),
      ['THINKING', 'CONTEXT'],
    );
  });
}

/** Stores the model of sessions that made no choice. Fails with `not_found`, `usage`, `not_configured`. */
export async function modelUse(
  name: string,
  flags: ModelFlags & { readonly thinking?: string },
  terminal: Terminal,
): Promise<void> {
  await withServer(flags, terminal, async ({ control }) => {
    await statusOf(control);
    const { models } = await control.rpc.modelList({});
    const { id, provider, defaultThinkingLevel } = named(name, models);
    const thinking_level = flags.thinking ?? defaultThinkingLevel ?? 'medium';
    const chosen = await control.rpc.modelSelect({ model_id: id, provider, thinking_level });
    if (terminal.json) return terminal.document(chosen);
    const { selected_provider, selected_model, selected_thinking } = chosen;
    terminal.note(
      `sessions use ${selected_provider}/${selected_model}, thinking ${selected_thinking.toLowerCase()}, unless they chose another`,
    );
    const status = await statusOf(control);
    if (status?.choice?.source === 'file') {
      terminal.note(`control.model of the configuration wins here: ${status.choice.provider}/${status.choice.model}`);
    }
  });
}

/** Returns the model that a name means: `ID` or `PROVIDER/ID`. */
function named(name: string, models: readonly ModelOption[]): ModelOption {
  const exact = models.find((model) => nameOf(model) === name);
  if (exact !== undefined) return exact;
  const found = models.filter(({ id }) => id === name);
  const [first] = found;
  if (first !== undefined && found.length === 1) return first;
  if (first !== undefined) throw fail('usage', `several providers have ${name}: ${found.map(nameOf).join(', ')}`);
  if (models.length === 0) throw fail('not_configured', `no model can be used; ${ENABLE_A_PROVIDER}`);
  const near =
    models.find(({ id }) => id.includes(name))?.id ??
    suggest(name, [...models.map(({ id }) => id), ...models.map(nameOf)]);
  throw fail(
    'not_found',
    `no usable provider lists the model ${name}; ${near === undefined ? '' : `did you mean ${near}? `}handfast model ls lists them`,
  );
}

/** Asks a model for one word, in a session that is removed again. Resolves with the exit code of that turn. */
export async function modelTest(name: string | undefined, flags: ModelFlags, terminal: Terminal): Promise<number> {
  return withServer(flags, terminal, (server, signal) => tryOut(server, name, terminal, signal));
}

async function tryOut(
  { control }: ReachedServer,
  model: string | undefined,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<number> {
  const session = await control.create({
    cwd: process.cwd(),
    title: 'model test',
    backend: 'model',
    approvals: 'deny',
    maxRounds: 1,
    model,
  });
  try {
    const status = await statusOf(control, session.id);
    const { choice } = status ?? {};
    if (status !== undefined && (choice === null || !choice?.usable)) {
      throw fail('not_configured', modelLine(status, process.env) ?? 'no model can be used');
    }
    const startedAt = performance.now();
    const turn = await session.prompt(TRIAL);
    const interrupt = (): void => void session.interrupt(turn.turnId).catch(() => {});
    signal.addEventListener('abort', interrupt, { once: true });
    const { error, stopReason, text, usage } = await turn.result();
    signal.throwIfAborted();
    if (error !== undefined) throw error;
    const ms = Math.round(performance.now() - startedAt);
    if (terminal.json) {
      const { provider, model: answered } = choice ?? {};
      terminal.document({ provider, model: answered, stop_reason: stopReason, round_trip_ms: ms, text, usage });
    } else terminal.line(`${choice?.provider}/${choice?.model} answered in ${ms} ms: ${text.trim()}`);
    return exitCodeOf(stopReason);
  } finally {
    await control.rpc.sessionDelete({ session_id: session.id });
  }
}
