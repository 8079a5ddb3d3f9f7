/** A subagent that is a program, as users write one. A task `stuck` blocks it: it reads no more, and does not end when asked to. */
import { connect } from '../../dist/index.js';
import { wordsIn } from './words.mjs';

await using agent = await connect('stdio:', { capabilities: ['multi_agent'] });
await agent.multi_agent
  .serveTasks(async ({ instruction, metadata }, { progress }) => {
    if (instruction === 'stuck') {
      await progress({ message: 'from here on' });
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    }
    return { words: wordsIn(metadata.text) };
  })
  .catch(() => {});
