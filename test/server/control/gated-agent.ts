/** A program that is a subagent: `gate FILE` is done when the file is there; any other task at once. It says where it stands. */
import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '../../../src/connect.ts';

await using agent = await connect('stdio:', { capabilities: ['multi_agent', 'tools'] });
await agent.multi_agent
  .serveTasks(async ({ instruction }, { progress, signal }) => {
    const [word, file = ''] = instruction.split(' ');
    await progress({ message: `began ${word}`, percent: 10, tokens: 5 });
    if (word === 'throw') throw new Error('no luck');
    while (word === 'gate' && !existsSync(file)) {
      signal.throwIfAborted();
      await delay(20);
    }
    if (word === 'tools') return { tools: (await agent.tools.list()).map(({ name }) => name) };
    return { done: instruction };
  })
  .catch(() => {});
