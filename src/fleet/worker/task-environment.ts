/**
 * Interface of the environment that a worker lends to the executors of its tasks: opened for each attempt and withdrawn with
 * its end. `server/fleet/task-environments.ts` implements it.
 */
import type { ExecutorEnvironment, ExecutorOutcome } from '../executors/executor.ts';
import type { Dispatched } from '../messages/decoded.ts';

/** The attempt that an environment is opened for. */
export interface EnvironmentTask {
  readonly taskId: string;
  readonly attempt: number;
  /** The folder it works in, absolute. */
  readonly cwd: string;
  /** The most that it may use. */
  readonly dispatch: Pick<Dispatched, 'access' | 'environment_capabilities' | 'environment_tools'>;
}

/** The environment of one attempt. */
export interface OpenEnvironment {
  readonly server: ExecutorEnvironment;
  /** Makes its token invalid at once: running calls are cancelled, later ones get 401. Idempotent. */
  withdraw(): void;
  /** Withdraws, then ends the processes that the task started there. Bounded, never rejects. */
  close(): Promise<void>;
}

/** Opens environments for tasks. */
export interface TaskEnvironments {
  /**
   * Opens the environment for a task. Undefined: the task may use nothing of it. Rejects where the environment cannot be
   * opened.
   */
  open(task: EnvironmentTask): Promise<OpenEnvironment | undefined>;
}

/** Stands for a token in data that leaves the worker. */
const REDACTED = '[token of the environment]';

/** Returns the text without the token of the environment: a program may print its variables. */
export const withoutToken = (text: string, environment: ExecutorEnvironment | undefined): string =>
  environment === undefined ? text : text.replaceAll(environment.token, REDACTED);

/** Returns the value, however deep, without the token of the environment. */
export function withoutTokens<Value>(value: Value, environment: ExecutorEnvironment | undefined): Value {
  if (environment === undefined || value === undefined) return value;
  // A token has no character that JSON escapes.
  const text = JSON.stringify(value);
  return text.includes(environment.token) ? (JSON.parse(withoutToken(text, environment)) as Value) : value;
}

/** Returns the outcome of a turn without the token of the environment. */
export const outcomeWithoutToken = (
  outcome: ExecutorOutcome,
  environment: ExecutorEnvironment | undefined,
): ExecutorOutcome => withoutTokens(outcome, environment);
