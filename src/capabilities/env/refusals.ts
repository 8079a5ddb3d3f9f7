/**
 * The refusals of the plugin and the bridge, in words. A2E fixes three codes; `detail.reason` distinguishes the cases of
 * `runtime_error`.
 */
import { HandfastError } from '../../wire/errors.ts';
import type { Soon } from './environment.ts';
import { failure } from './errors.ts';

type Detail = Readonly<Record<string, unknown>>;

/** Returns the error for a payload that is not an action of the space. The step did not count. */
export const unknownAction = (message: string, detail?: Detail): HandfastError =>
  failure('unknown_action', message, detail);

/** Returns the error for an episode that was not started; a retry would not help. */
export const resetDenied = (message: string, detail?: Detail): HandfastError =>
  failure('reset_denied', message, detail);

/** Returns the error for an episode that was not started because a limit is reached; closing others helps. */
export const limitReached = (message: string, detail?: Detail): HandfastError => failure('limit', message, detail);

/** Returns the error for an unknown episode or environment, or one of another agent. */
export const unknownEpisode = (id: string): HandfastError =>
  failure('missing', `no episode ${JSON.stringify(id.slice(0, 64))}; env/reset/req starts one`, {
    reason: 'unknown_episode',
  });

export const unknownEnvironment = (name: string, near: string | undefined): HandfastError =>
  failure(
    'missing',
    `no environment ${JSON.stringify(name.slice(0, 64))}${near === undefined ? '; env/list/req or "handfast env ls" lists them' : `; did you mean "${near}"?`}`,
    { reason: 'unknown_environment' },
  );

/** Returns the error for an ended episode: only a reset starts the next one. */
export const finishedEpisode = (id: string): HandfastError =>
  failure('runtime_error', `the episode ${id} has ended; start the next one with env/reset/req`, {
    reason: 'finished_episode',
  });

/** Returns the error for an environment that failed, or whose result cannot be sent. */
export const environmentFailed = (reason: string, message: string, detail?: Detail, cause?: unknown): HandfastError =>
  failure('runtime_error', message, { reason, ...detail }, cause);

/** Returns the error for an exception of the environment that tells its caller nothing. */
export const brokenEnvironment = (name: string, thrown: unknown): HandfastError => {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return environmentFailed('environment_failed', `${name} failed: ${message.slice(0, 500)}`, undefined, thrown);
};

/**
 * Calls an environment that has no episode yet. Its own refusals pass, as of options, and reasons of aborts; every other
 * exception is a failure of the environment.
 */
export function guarded<Result>(name: string, call: () => Soon<Result>): Soon<Result> {
  const failed = (thrown: unknown): never => {
    throw thrown instanceof HandfastError ? thrown : brokenEnvironment(name, thrown);
  };
  try {
    const result = call();
    return result instanceof Promise ? result.catch(failed) : result;
  } catch (thrown) {
    return failed(thrown);
  }
}

/** Returns the error for waiting work above its limit. */
export const tooMuch = (message: string, detail?: Detail): HandfastError => failure('busy', message, detail);
