/** A host with the capabilities that need nothing of the machine, behind a token. */
import { envPlugin } from '../../../src/capabilities/env/plugin.ts';
import { learningPlugin } from '../../../src/capabilities/learning/plugin.ts';
import { memoryPlugin } from '../../../src/capabilities/memory/plugin.ts';
import { planningPlugin } from '../../../src/capabilities/planning/plugin.ts';
import { toolsPlugin } from '../../../src/capabilities/tools/plugin.ts';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import { createHost, type Host } from '../../../src/host/host.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';

export const TOKEN = 'conformance-token-of-a-test';

/** Returns its input, after two events. */
const echo = tool({
  name: 'echo',
  description: 'Gives back what it got',
  input: { type: 'object', required: ['value'], properties: { value: {} } },
  async run({ value }, context) {
    for (const message of ['one', 'two']) await context.emit('status', { message });
    return { value };
  },
});

const others = ['alpha', 'beta', 'gamma', 'delta'].map((name) =>
  tool({
    name,
    description: `Does what ${name} does`,
    input: { type: 'object' },
    deferred: name === 'delta',
    run: () => ({}),
  }),
);

/** Starts the host. */
export async function fullHost(): Promise<Host> {
  const principal = { name: 'tester', capabilities: ['*'] };
  const host = createHost({
    auth: createAuthenticator([{ principal, digests: [tokenDigest(TOKEN)] }]),
    plugins: [
      toolsPlugin({ tools: [echo, ...others] }),
      memoryPlugin(),
      planningPlugin(),
      envPlugin(),
      learningPlugin(),
    ],
    limits: { maxSessions: 1_000 },
  });
  await host.start();
  return host;
}
