/**
 * Makes an executor from its configuration.
 */
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StartProgram } from '../../acp/start-program.ts';
import type { Log } from '../../base/log.ts';
import { fail } from '../../wire/errors.ts';
import { a2aExecutor } from './a2a.ts';
import { acpExecutor } from './acp/acp.ts';
import type { ExecutorConfig, ProgramConfig } from './config.ts';
import type { Executor } from './executor.ts';
import { functionExecutor } from './function.ts';
import { agyCli } from './programs/agy.ts';
import { claudeCli } from './programs/claude.ts';
import type { Cli } from './programs/cli.ts';
import { codexCli } from './programs/codex.ts';
import { commandCli } from './programs/command.ts';
import { opencodeCli } from './programs/opencode.ts';
import { programExecutor } from './programs/program-executor.ts';
import { rehearsalExecutor } from './rehearsal/rehearsal.ts';

export interface ExecutorDeps {
  /**
   * Folder of the worker's own data; executors store their conversations in files below it. Undefined: in memory only, and
   * after a restart every conversation is a new one.
   */
  readonly home?: string;
  readonly log: Log;
  /** See `ProgramExecutorDeps`. */
  readonly trustsFolder?: (cwd: string) => Promise<boolean>;
  /** `spawnLink` of the subprocess transport; for `acp` alone. */
  readonly start?: StartProgram;
  /** Version of this software, sent to agents. */
  readonly version?: string;
}

/**
 * Makes the executor. Starts nothing.
 *
 * @throws not_configured for an `acp` executor without `start`
 */
export function makeExecutor(
  config: ExecutorConfig,
  { home, log, start, trustsFolder, version = '0.0.0' }: ExecutorDeps,
): Executor {
  const contextFile = home === undefined ? undefined : join(home, 'executor', `${config.kind}.json`);
  const promptFolder = join(home ?? tmpdir(), 'prompts');
  const program = (cli: Cli, config: ProgramConfig): Executor =>
    programExecutor({ cli, config, contextFile, promptFolder, log });
  switch (config.kind) {
    case 'function':
      return functionExecutor(config);
    case 'rehearsal':
      return rehearsalExecutor({ contextFile, log });
    case 'claude':
      return programExecutor({ cli: claudeCli(config), config, contextFile, promptFolder, trustsFolder, log });
    case 'codex':
      return program(codexCli(config), config);
    case 'opencode':
      return program(opencodeCli(config), config);
    case 'agy':
      return program(agyCli(config, config.env?.HOME ?? homedir()), config);
    case 'command':
      // The adapter sets all arguments, because they contain the placeholders.
      return program(commandCli(config), { ...config, args: [] });
    case 'a2a':
      return a2aExecutor({ config, contextFile, log });
    case 'acp':
      if (start === undefined)
        throw fail('not_configured', 'an acp executor needs the option "start", which starts programs');
      return acpExecutor({ config, start, version, contextFile, log });
  }
}
