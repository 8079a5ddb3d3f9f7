/** An acp executor over real processes of the scripted agent. */
import type { AcpConfig } from '../../../src/fleet/executors/config.ts';
import type { Executor } from '../../../src/fleet/executors/executor.ts';
import { makeExecutor } from '../../../src/fleet/executors/make.ts';
import { spawnLink } from '../../../src/transport/subprocess.ts';
import {
  type AgentScript,
  type AgentStep,
  OPTIONS,
  type Recorded,
  scriptFolder,
} from '../../agents/acp/scripted-agent.ts';
import { fakeLog } from './fake-context.ts';

export interface Agent extends AsyncDisposable {
  readonly executor: Executor;
  readonly cwd: string;
  readonly requests: () => Recorded[];
  told(method: string): Recorded['params'][];
  /** Makes another executor over the same files, as after a restart. */
  again(changes?: Partial<AgentScript>): Executor;
}

/** Makes the executor of an agent that follows a script. */
export function scripted(script: AgentScript, config: Partial<AcpConfig> = {}): Agent {
  const files = scriptFolder();
  const { folder: home } = files;
  const made: Executor[] = [];
  const make = (given: AgentScript): Executor => {
    const executor = makeExecutor(
      { kind: 'acp', name: 'scripted', command: process.execPath, args: files.args(given), ...config },
      { home, log: fakeLog(), start: spawnLink },
    );
    made.push(executor);
    return executor;
  };
  return {
    executor: make(script),
    cwd: home,
    requests: files.requests,
    told: files.told,
    again: (changes = {}) => make({ ...script, ...changes }),
    async [Symbol.asyncDispose]() {
      await Promise.all(made.map((executor) => executor.stop()));
      files[Symbol.dispose]();
    },
  };
}

/** Usage that agents may report for a prompt. */
export const USAGE = { inputTokens: 100, outputTokens: 20, thoughtTokens: 3, cachedReadTokens: 50, totalTokens: 173 };

/** Makes a step in which the agent asks for permission. */
export const permission = (kind: string): AgentStep => ({
  permission: {
    toolCall: { toolCallId: 'call-1', title: 'Run ls', kind, rawInput: { command: 'ls' } },
    options: OPTIONS,
  },
});
