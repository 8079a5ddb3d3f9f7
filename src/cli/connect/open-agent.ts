/**
 * An agent for one command: finds the host, performs the handshake, and is closed when the command is done, however it ends.
 */
import { type AgentOptions, AgentSession } from '../../agent/agent.ts';
import { ToolsClient } from '../../capabilities/tools/client.ts';
import { DEFAULT_MAX_MESSAGE_BYTES } from '../../transport/link.ts';
import { asError, HandfastError } from '../../wire/errors.ts';
import { interruptible } from '../interrupt.ts';
import type { Terminal } from '../output/terminal.ts';
import { type ConnectFlags, type FoundHost, findHost, noteChosen, routeOf } from './find-host.ts';
import { LossReporter } from './told-losses.ts';

/** Time for reaching the host and for the handshake. */
const CONNECT_TIMEOUT_MS = 10_000;

/** Capabilities of commands about tools: tools of enabled toolkits are tools of sessions that have both. */
export const TOOL_CAPABILITIES = ['tools', 'toolkits'];

/** Parts that a command works with. */
export interface AgentForCommand {
  readonly agent: AgentSession;
  readonly tools: ToolsClient;
  readonly address: string;
  /** Aborted by Ctrl-C: for every call. */
  readonly signal: AbortSignal;
  /** Finds the host again and opens another agent. The command closes it. */
  readonly openAgain: () => Promise<AgentSession>;
}

/**
 * Opens an agent that asks for `capabilities` (or those of `--cap`), runs `work`, closes it.
 *
 * Fails as connecting does (`unreachable`, `auth_failed`, `no_caps`, …) and as `work` does.
 */
export async function withAgent<T>(
  flags: ConnectFlags,
  capabilities: readonly string[],
  terminal: Terminal,
  work: (opened: AgentForCommand) => Promise<T>,
  { agentId = 'handfast-cli', ...options }: Pick<AgentOptions, 'agentId' | 'reconnect'> = {},
): Promise<T> {
  return interruptible(async (signal) => {
    const found = await findHost(flags);
    noteChosen(found, terminal);
    const wanted = flags.cap ?? capabilities;
    const agent = await open(found, wanted, terminal, { agentId, ...options, signal });
    const like = found.running;
    const openAgain = async () =>
      open(await findHost({ ...flags, like }), wanted, terminal, { agentId, ...options, signal });
    try {
      return await work({ agent, tools: new ToolsClient(agent), address: found.address, signal, openAgain });
    } finally {
      await agent.close();
    }
  });
}

async function open(
  found: FoundHost,
  capabilities: readonly string[],
  terminal: Terminal,
  options: Pick<AgentOptions, 'agentId' | 'signal' | 'reconnect'>,
): Promise<AgentSession> {
  const { address, token, running } = found;
  const { dial, reconnects } = routeOf(found, {
    timeoutMs: CONNECT_TIMEOUT_MS,
    maxMessageBytes: DEFAULT_MAX_MESSAGE_BYTES,
    onStderr: (line) => terminal.note(line),
  });
  const losses = new LossReporter((text) => terminal.note(text));
  try {
    const agent = await AgentSession.open(dial, capabilities, {
      ...options,
      token,
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      onCapabilityChanged: (_, granted) => losses.report(granted),
      ...(!reconnects && { resume: false }),
    });
    for (const granted of agent.capabilities.values()) losses.report(granted);
    return agent;
  } catch (thrown) {
    throw explained(asError(thrown), { address, token, running });
  }
}

/** Returns the same error with advice for a user at a terminal. */
function explained(
  error: HandfastError,
  { address, token, running }: Pick<FoundHost, 'address' | 'token' | 'running'>,
): HandfastError {
  const { code, detail } = error;
  // Behind its semicolon a refused token has advice for programs.
  const said = code === 'auth_failed' ? error.message.split('; ')[0] : error.message;
  let hint: string | undefined;
  if (code === 'auth_failed') {
    hint = token === '' ? 'give one with --token-file or HANDFAST_TOKEN' : 'check --token-file and HANDFAST_TOKEN';
  } else if (code === 'unreachable' && running !== undefined) {
    hint = `process ${running.pid} registered this address`;
  }
  const where = error.message.includes(address) ? '' : ` (${address})`;
  const message = `${said}${where}${hint === undefined ? '' : `; ${hint}`}`;
  return new HandfastError(code, message, { detail, retryable: error.retryable, cause: error });
}
