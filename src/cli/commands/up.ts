/** `handfast up`: runs a host until it is told to stop. */
import { resolve } from 'node:path';
import type { HostConfig } from '../../host/config.ts';
import { formatProblem } from '../../host/config.ts';
import type { Log } from '../../host/context.ts';
import { parseListenAddress } from '../../host/listen-address.ts';
import { createLog } from '../../host/log.ts';
import { type RunningServer, startServer } from '../../server/start-server.ts';
import { fail } from '../../wire/errors.ts';
import { configOf } from '../config-file.ts';
import { leaveSoon } from '../leave.ts';
import { packageVersion } from '../package-info.ts';
import { logStrayRejections } from '../stray-rejections.ts';
import type { Terminal } from '../terminal.ts';

export interface UpFlags {
  readonly config?: string;
  readonly port?: number;
  readonly listen?: readonly string[];
  readonly insecureBind?: boolean;
  readonly verbose?: boolean;
}

/**
 * Serves until SIGINT, SIGTERM or SIGHUP, then stops in good order; a second signal ends the process at once. With
 * `--json` exactly one line goes to stdout, when everything is open. The log goes to stderr.
 */
export async function up(flags: UpFlags, terminal: Terminal): Promise<void> {
  const { insecureBind } = flags;
  const config = withFlags(await configOf(flags.config, { insecureBind }), flags);
  const format = process.stderr.isTTY ? 'text' : 'json';
  const log = createLog({ level: flags.verbose ? 'info' : 'warn', format });
  logStrayRejections(log);
  for (const warning of config.warnings) log.warn(formatProblem(warning));
  const stopped = signalled(terminal);
  const server = await startServer(config, { log, version: packageVersion() }).catch((error) => {
    throw withAdvice(error);
  });
  warnOfRisks(config, server, log);
  if (terminal.json) terminal.document(readyLine(server));
  else greet(config, server, terminal);
  // A client may end the server too (`system.shutdown`).
  await Promise.race([stopped, server.control?.rpc.stopped ?? stopped]);
  await server.stop();
  leaveSoon();
}

/** What `--json` prints once. */
function readyLine({ url, listeners, tokenFile }: RunningServer): object {
  return { ready: true, url: url ?? null, listeners, token_file: tokenFile ?? null, pid: process.pid };
}

function greet(
  config: HostConfig,
  { host, control, url, listeners, tokenFile }: RunningServer,
  terminal: Terminal,
): void {
  const facts: [string, string][] = [
    ['url', url ?? 'none'],
    ...listeners.filter((address) => address !== url).map((address): [string, string] => ['also on', address]),
    ['workspace', config.workspace],
    ['provides', host.health().capabilities.join(', ') || 'nothing'],
    ['sessions', sessionsOf(control)],
    ['configuration', config.file ?? 'the defaults (handfast init writes a file)'],
    ['token', tokenFile === undefined ? 'not needed' : `${tokenFile} (handfast commands of this user find it)`],
  ];
  terminal.line(`handfast ${packageVersion()}: host ${host.id} is up, process ${process.pid}`);
  for (const [name, value] of facts) terminal.line(`  ${name.padEnd(14)} ${value}`);
  terminal.line();
  terminal.line('From a second terminal:');
  terminal.line('  handfast tools ls');
  terminal.line('  handfast tools call list_dir path=.');
  if (control !== undefined) terminal.line('  handfast chat');
  terminal.line('Ctrl-C stops it.');
}

/** What runs the turns of sessions. */
function sessionsOf(control: RunningServer['control']): string {
  if (control === undefined) return 'not served (turned off, or another process has their data)';
  if (control.defaultBackend !== 'rehearsal') return `session RPC at /rpc, backend ${control.defaultBackend}`;
  return 'session RPC at /rpc, rehearsal backend: no model provider is configured';
}

/** Resolves at the first signal to stop. */
function signalled(terminal: Terminal): Promise<void> {
  const { promise, resolve: stop } = Promise.withResolvers<void>();
  let asked = false;
  const onSignal = (): void => {
    if (asked) process.exit(130);
    asked = true;
    if (terminal.watched) terminal.note('stopping; work under way is granted its time (once more to stop at once)');
    stop();
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, onSignal);
  return promise;
}

/** The configuration with what the command line says instead. */
function withFlags(config: HostConfig, { port, listen }: UpFlags): HostConfig {
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

function warnOfRisks(config: HostConfig, { listeners }: RunningServer, log: Log): void {
  const open = config.insecureBind
    ? listeners.filter((address) => !/^unix:|\/\/(127\.|localhost|\[::1\])/.test(address))
    : [];
  if (open.length > 0)
    log.warn('other machines can reach this host over links that are not encrypted', { listeners: open });
  if (!config.auth.required) log.warn('no token is needed: every program on this machine can use this host');
}

/** The same error with what to do about it, where that is known. */
function withAdvice(thrown: unknown): unknown {
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
