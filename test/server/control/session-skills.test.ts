/** The skills of a host as tools of a session: asked for once a turn, and again when the host says that they changed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AgentSession } from '../../../src/agent/agent.ts';
import { SkillClient, type SkillSandbox } from '../../../src/capabilities/skill/client.ts';
import { ToolsClient } from '../../../src/capabilities/tools/client.ts';
import { environmentToolbox } from '../../../src/control/rounds/environment.ts';
import { otherCapabilities } from '../../../src/server/control/session-capabilities.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { skillHost, until, writeSkill } from '../../capabilities/skill/support.ts';

const sandboxOf = ({ capabilities }: AgentSession) =>
  capabilities.get('skill')?.metadata.sandbox as SkillSandbox | undefined;

test('skills are asked for once a turn, at the start of the next, and when the host says that they changed', async (t) => {
  const { host, root } = await skillHost(t, { skill: { freshMs: 0 } });
  writeSkill(root, 'first', { code: 'export default async () => 1;' });
  let asked = 0;
  const open = async (counts: boolean) => {
    const dial = async () => {
      const [ours, theirs] = memoryPair();
      const send = ours.send.bind(ours);
      ours.send = (message) => {
        if (counts && typeof message === 'object' && message.type === 'skill/discover/req') asked += 1;
        send(message);
      };
      host.accept(theirs);
      return ours;
    };
    const agent = await AgentSession.open(dial, ['tools', 'skill'], {});
    t.after(() => agent.close());
    return agent;
  };
  const agent = await open(true);
  // The trial of the sandbox is a change as well, and comes at its own time.
  await until(() => sandboxOf(agent)?.in_force === true);
  const others = otherCapabilities(agent);
  const toolbox = environmentToolbox(async (work) =>
    work({ state: 'open', tools: new ToolsClient(agent), others: async () => others, close: async () => {} }),
  );
  const skills = async () => (await toolbox.list()).map(({ name }) => name).filter((name) => /^skill__/.test(name));
  // The first scan of a host is a separate change.
  for (let round = 0; round < 3; round += 1) assert.deepEqual(await skills(), ['skill__first']);
  assert.ok(asked <= 2, `${asked} times`);
  asked = 0;
  toolbox.renew();
  for (let round = 0; round < 3; round += 1) await skills();
  assert.equal(asked, 1);
  writeSkill(root, 'second', { code: 'export default async () => 2;' });
  // The scan for another agent finds it, and the host says so to all.
  await new SkillClient(await open(false)).list();
  await until(async () => (await skills()).length === 2);
  assert.equal(asked, 2);
});
