/**
 * An agent in the middle of a story with MCP servers: it reaches a step, reports that, and reports its end. In the
 * process of a test, or in a separate one that the test kills: `mcp-story.ts ADDRESS STEP SERVER CONFIG`.
 */
import { type Agent, connect } from '../../src/connect.ts';
import { asError } from '../../src/wire/errors.ts';

export type Step =
  | 'register'
  | 'starting'
  | 'listing'
  | 'call'
  | 'safe'
  | 'sampling'
  | 'elicitation'
  | 'subscribed'
  | 'unregister'
  | 'renewal';

/**
 * Reports an event, in order: `asked`, `withdrawn`, `progress`, `subscribed`, and at last `ok` or a code with the facts
 * about the call.
 */
export type Report = (what: string) => void;

/** Runs to a step, and resolves when its request has settled. Never rejects. */
export async function tell(
  agent: Agent<'mcp' | 'tools'>,
  step: Step,
  server: string,
  config: { readonly server_id?: string },
  report: Report,
): Promise<void> {
  // Answers no question before it is withdrawn.
  const wait = (_: unknown, { signal }: { readonly signal: AbortSignal }): Promise<never> => {
    report('asked');
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        report('withdrawn');
        reject(signal.reason);
      });
    });
  };
  agent.mcp.onSampling(wait);
  agent.mcp.onElicitation(wait);
  const steps: Record<Step, () => Promise<unknown>> = {
    register: () => agent.mcp.register(config),
    starting: async () => agent.mcp.call(server, 'once'),
    listing: async () => agent.mcp.call(server, 'once'),
    renewal: async () => agent.mcp.call(server, 'whoami'),
    call: () => watched('once'),
    safe: () => watched('safe'),
    sampling: async () => agent.mcp.call(server, 'ask'),
    elicitation: async () => agent.mcp.call(server, 'elicit'),
    async subscribed() {
      await agent.mcp.subscribe('steps:one', server);
      report('subscribed');
    },
    async unregister() {
      await agent.mcp.register(config);
      report('registered');
      await agent.mcp.unregister(config.server_id as string);
    },
  };

  async function watched(tool: string): Promise<void> {
    const calling = agent.mcp.call(server, tool);
    for await (const { kind } of calling) if (kind === 'progress') report('progress');
    await calling;
  }

  try {
    await steps[step]();
    report('ok');
  } catch (thrown) {
    const { code, detail, retryable } = asError(thrown);
    report([code, detail.may_have_run === true && 'may_have_run', retryable && 'retryable'].filter(Boolean).join(' '));
  }
}

if (process.argv[1] === import.meta.filename) {
  const [address = '', step = '', server = '', config = '{}', token = ''] = process.argv.slice(2);
  const agent = await connect(address, { capabilities: ['mcp', 'tools'], token, timeoutMs: 0 });
  await tell(agent, step as Step, server, JSON.parse(config), (what) => void process.stdout.write(`${what}\n`));
  // Stays until it is killed, as an agent with more to do.
  setInterval(() => {}, 1_000);
}
