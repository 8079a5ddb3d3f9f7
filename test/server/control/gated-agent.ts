/**
 * A program that is a subagent: `gate FILE` is done when the file is there, `talk CHANNEL` when two subagents have each said something
 * to the first message of the channel, any other task at once. It says where it stands.
 */
import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '../../../src/connect.ts';

await using agent = await connect('stdio:', { capabilities: ['multi_agent', 'tools'] });
const heard: [seq: number, content: unknown][] = [];
agent.multi_agent.onSaid((_channel, { seq, message: { content } }) => heard.push([seq, content]));
await agent.multi_agent
  .serveTasks(async ({ instruction }, { progress, signal }) => {
    const [word, file = ''] = instruction.split(' ');
    await progress({ message: `began ${word}`, percent: 10, tokens: 5 });
    if (word === 'throw') throw new Error('no luck');
    while (word === 'gate' && !existsSync(file)) {
      signal.throwIfAborted();
      await delay(20);
    }
    if (word === 'talk') {
      const wait = async (count: number) => {
        while (heard.length < count) await delay(10, undefined, { signal });
      };
      await wait(1);
      await agent.multi_agent.say(file, { type: 'reply', content: 'here' });
      await wait(3);
      return { heard };
    }
    if (word === 'tools') return { tools: (await agent.tools.list()).map(({ name }) => name) };
    return { done: instruction };
  })
  .catch(() => {});
