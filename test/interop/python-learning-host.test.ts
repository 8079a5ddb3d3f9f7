/**
 * `agent.learning` against the learning of the A2E Python SDK: its host with the plugin of its cookbook, over HTTP and
 * over stdin and stdout. The plugin's reply to the raw line also shows its missing abilities, and a better reply passes
 * as well.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Agent, connect } from '../../src/connect.ts';
import { asError } from '../../src/wire/errors.ts';
import { commandOf, environment, type Program, skip, start } from './python-sdk.ts';

const temporary = () => mkdtempSync(join(tmpdir(), 'handfast-interop-learning-'));
const rated_turn = { prompt: 'p', response: 'r', model: 'm', version: 'skill-2' };
const proposal = { target: 'router_weight', op: 'update', path: 'router.weights.grep', new_value: 0.7 };
/** Resolves with `done`, or the code it failed with. */
const outcomeOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => 'done',
    (thrown: unknown) => asError(thrown).code,
  );

for (const binding of ['http', 'stdio'] as const) {
  describe(`the learning of a Python host, over ${binding}`, { skip }, () => {
    const folder = temporary();
    let host: Program | undefined;
    let agent: Agent<'learning'>;

    before(async () => {
      const command = commandOf('python-learning-host.py', binding, folder);
      if (binding === 'http') host = start(command);
      const address =
        host === undefined
          ? `stdio:${command.map((word) => `'${word}'`).join(' ')}`
          : (await host.line()).replace('listening ', '');
      agent = await connect(address, { capabilities: ['learning'], env: environment(), timeoutMs: 10_000 });
    });
    after(async () => {
      await agent?.close();
      await host?.stop();
      rmSync(folder, { recursive: true, force: true });
    });

    test('feedback and experiences are stored', async () => {
      const { learning } = agent;
      const { recorded, rewarded } = await learning.feedback([{ polarity: 'positive', score: 0.5, rated_turn }]);
      assert.deepEqual([recorded, rewarded], [1, undefined]);
      // Its model has no default for it.
      assert.ok(['done', 'parse_error'].includes(await outcomeOf(learning.feedback([{ polarity: 'negative' }]))));
      const experience = { experience_id: 'e1', action: { component_name: 'grep' }, reward: 1, done: true };
      assert.equal((await learning.experience([experience])).stored, 1);
      // A host without decisions rewards none.
      assert.equal(await learning.reward('e2', 1), false);
      const stored = readFileSync(join(folder, 'experiences.jsonl'), 'utf8').trim().split('\n');
      assert.deepEqual(
        stored.map((line) => [JSON.parse(line).experience_id, JSON.parse(line).reward]),
        [
          ['e1', 1],
          ['e2', 1],
        ],
      );
    });

    test('the history of refinements is read', async () => {
      assert.deepEqual(await agent.learning.history(), []);
    });

    test('stats and refinements fail with its error, or work with a better one', async () => {
      const { learning } = agent;
      for (const call of [
        learning.stats(),
        learning.plan(),
        learning.review(proposal),
        learning.apply(proposal),
        learning.rollback('none'),
      ]) {
        assert.ok(['done', 'runtime_error'].includes(await outcomeOf(call)));
      }
    });

    test('what the SDK has no message for is refused by its host, and the link stays open', async () => {
      const { learning } = agent;
      for (const call of [
        learning.decide('search', ['lexical', 'hybrid']),
        learning.experiences().next(),
        learning.evaluate('search', { option: 'hybrid' }),
        learning.forget('search'),
      ]) {
        assert.ok(['parse_error', 'invalid_message'].includes(await outcomeOf(call)));
      }
      assert.deepEqual(await learning.history(), []);
    });

    test('adapt gets no reply there: a timeout, not a wait without end', async () => {
      // Its plugin acquires its own lock twice, and replies to nothing that needs it from then on.
      assert.ok(['done', 'timeout'].includes(await outcomeOf(agent.learning.adapt('grep', { timeoutMs: 1_000 }))));
      assert.deepEqual(await agent.learning.history(), []);
    });
  });
}

test('the raw lines get the same errors: it is its host that cannot', { skip }, async () => {
  const folder = temporary();
  const host = start(commandOf('python-learning-host.py', 'stdio', folder));
  const ask = async (message: object) => {
    host.child.stdin?.write(`${JSON.stringify({ id: 'r', ...message })}\n`);
    for (;;) {
      const line = await host.line();
      if (line.startsWith('{')) return JSON.parse(line);
    }
  };
  try {
    const shaken = await ask({ type: 'handshake/req', agent_id: 'raw', agent_caps: ['learning'], version: '1.0' });
    assert.equal(shaken.ok, true);
    for (const [message, reply, error] of [
      [{ type: 'learn/stats/req', component_name: '' }, 'learn/stats/resp', /no attribute 'tool_name'/],
      [{ type: 'learn/refinement/plan/req' }, 'learn/refinement/plan/resp', /'component_name' is not defined/],
      [{ type: 'learn/refinement/apply/req', proposal }, 'learn/refinement/apply/resp', /no attribute 'refine'/],
    ] as const) {
      const { type, req_id, code, message: text } = await ask(message);
      assert.equal(req_id, 'r');
      if (type === reply) continue;
      assert.deepEqual([type, code], ['error', 'runtime_error']);
      assert.match(text, error);
    }
  } finally {
    await host.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
