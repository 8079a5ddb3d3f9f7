/**
 * The common part of commands that serve until a signal: the signal, the addresses given on the command line, and advice where
 * an address is already in use.
 */
import { resolve } from 'node:path';
import type { Log } from '../base/log.ts';
import type { HostConfig } from '../config/config.ts';
import { parseListenAddress } from '../config/listen-address.ts';
import type { RunningServer } from '../server/serve.ts';
import { fail } from '../wire/errors.ts';
import type { Terminal } from './output/terminal.ts';

/** Resolves at the first signal to stop. */
export function untilSignal(terminal: Terminal): Promise<void> {
  const { promise, resolve: stop } = Promise.withResolvers<void>();
  let asked = false;
  const onSignal = (): void => {
    if (asked) process.exit(130);
    asked = true;
    if (terminal.watched) terminal.note('stopping; waiting for running work (Ctrl-C again: exit now)');
    stop();
  };
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, onSignal);
  // A terminal that was closed ends the program; without a terminal the signal means "read your configuration again".
  if (process.stdin.isTTY) process.on('SIGHUP', onSignal);
  return promise;
}

/** Reads tokens, roles and grants again at SIGHUP, where no terminal sends it. A file with problems changes nothing. */
export function reloadOnHangup({ reload }: Pick<RunningServer, 'reload'>, log: Log): void {
  if (process.stdin.isTTY) return;
  process.on('SIGHUP', () => {
    if (reload === undefined) return log.warn('there are no tokens to read again');
    reload().catch((error) => log.error('the rights were not reloaded: the configuration has problems', { error }));
  });
}

/** Returns the configuration, overridden by the command line. */
export function withListeners(
  config: HostConfig,
  { port, listen }: { readonly port?: number; readonly listen?: readonly string[] },
): HostConfig {
  let addresses = (listen ?? config.listen).map((address) => {
    const parsed = parseListenAddress(address);
    return parsed?.kind === 'unix' ? `unix://${resolve(parsed.path)}` : address;
  });
  if (port !== undefined) {
    const http = addresses.findIndex((address) => address.startsWith('http:'));
    if (http === -1) addresses = [`http://127.0.0.1:${port}`, ...addresses];
    else addresses = addresses.with(http, (addresses[http] as string).replace(/:\d+\/?$/, `:${port}`));
  }
  return { ...config, listen: addresses };
}

/** Returns the same error with advice, where advice is known. */
export function withAdvice(thrown: unknown): unknown {
  const { code, message, detail } = (thrown ?? {}) as {
    code?: string;
    message?: string;
    detail?: Record<string, unknown>;
  };
  if (code !== 'config_invalid' || detail?.reason !== 'EADDRINUSE') return thrown;
  return fail(
    code,
    `${message}; choose another with --port (0 = any free one), or see: handfast doctor`,
    detail,
    thrown,
  );
}
