/** `handfast up`: runs a host until a signal. */

import type { Log } from '../../base/log.ts';
import { createLog } from '../../base/log.ts';
import type { HostConfig } from '../../config/config.ts';
import { formatProblem } from '../../config/config.ts';
import { type RunningServer, serve } from '../../server/serve.ts';
import { HandfastError } from '../../wire/errors.ts';
import { configOf } from '../config-file.ts';
import { leaveSoon } from '../leave.ts';
import type { Terminal } from '../output/terminal.ts';
import { packageVersion } from '../package-info.ts';
import { offerTrust } from '../trust/trust-question.ts';
import { logUnhandledRejections } from '../unhandled-rejections.ts';
import { reloadOnHangup, untilSignal, withAdvice, withListeners } from '../until-signal.ts';

export interface UpFlags {
  readonly config?: string;
  readonly port?: number;
  readonly listen?: readonly string[];
  readonly insecureBind?: boolean;
  readonly verbose?: boolean;
}

/**
 * Serves until SIGINT or SIGTERM, then stops in good order; a second signal ends the process at once. With
 * `--json` exactly one line goes to stdout, when everything is open. The log goes to stderr.
 * @param change the change that a command of a capability makes to the configuration
 */
export async function up(
  flags: UpFlags,
  terminal: Terminal,
  change: (config: HostConfig) => HostConfig = (config) => config,
): Promise<void> {
  const { insecureBind } = flags;
  await offerTrust(flags.config === undefined ? ['handfast.yaml', 'skills'] : ['skills'], terminal);
  const config = withListeners(change(await configOf(flags.config, { insecureBind })), flags);
  const format = process.stderr.isTTY ? 'text' : 'json';
  const log = createLog({ level: flags.verbose ? 'info' : 'warn', format });
  logUnhandledRejections(log);
  for (const warning of config.warnings) log.warn(formatProblem(warning));
  const stopped = untilSignal(terminal);
  const reread = async () => change(await configOf(flags.config, { insecureBind }));
  const server = await serve(config, { log, version: packageVersion(), reread }).catch((error) => {
    throw withAdvice(error);
  });
  reloadOnHangup(server, log);
  warnOfRisks(config, server, log);
  if (terminal.json) terminal.document(readyLine(server));
  else printBanner(config, server, terminal);
  // A client may end the server too (`system.shutdown`).
  const error = await Promise.race([stopped, server.closed]);
  await server.close();
  leaveSoon();
  if (error instanceof HandfastError) throw error;
}

/** Returns the document that `--json` prints once. */
function readyLine({ url, listeners, tokenFile }: RunningServer): object {
  return { ready: true, url: url ?? null, listeners, token_file: tokenFile ?? null, pid: process.pid };
}

function printBanner(
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
  for (const [name, value] of facts) terminal.labelled(`  ${name.padEnd(14)} `, value);
  terminal.line();
  terminal.line('From a second terminal:');
  terminal.line('  handfast tools ls');
  terminal.line('  handfast tools call list_dir path=.');
  if (control !== undefined) terminal.line('  handfast chat');
  terminal.line('Ctrl-C stops it.');
}

/** Describes the backend of sessions. */
function sessionsOf(control: RunningServer['control']): string {
  if (control === undefined) return 'not served (turned off, or another process has their data)';
  if (control.defaultBackend !== 'rehearsal') return `session RPC at /rpc, backend ${control.defaultBackend}`;
  return 'session RPC at /rpc, rehearsal backend: no model provider is configured';
}

function warnOfRisks(config: HostConfig, { listeners }: RunningServer, log: Log): void {
  const open = config.insecureBind
    ? listeners.filter((address) => !/^unix:|\/\/(127\.|localhost|\[::1\])/.test(address))
    : [];
  if (open.length > 0)
    log.warn('other machines can reach this host over links that are not encrypted', { listeners: open });
  if (!config.auth.required) log.warn('no token is needed: every program on this machine can use this host');
}
