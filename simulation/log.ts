/** The log of simulated processes: an error that a shipped part logs is a rule broken; the rest is not written. */
import type { Log } from '../src/base/log.ts';

export type SimLog = Log;

export function simLog(onError: (message: string, fields: Record<string, unknown>) => void): SimLog {
  const ignore = (): void => {};
  return { debug: ignore, info: ignore, warn: ignore, error: (message, fields = {}) => onError(message, fields) };
}
