/**
 * A program that is a subagent: speaks A2E over its pipes, fetches its tasks and does them.
 */
import { connect } from '../../../src/connect.ts';

await using agent = await connect('stdio:', { capabilities: ['multi_agent', 'tools'] });
await agent.multi_agent
  .serveTasks(async ({ instruction, metadata }, { progress, score, signal }) => {
    if (instruction === 'exit') process.exit(3);
    if (instruction === 'kill') process.kill(process.pid, 'SIGKILL');
    if (instruction === 'throw') throw new Error('no luck');
    if (instruction === 'hang') await new Promise((resolve) => signal.addEventListener('abort', resolve));
    if (instruction === 'call') {
      const { data } = await agent.tools.call(String(metadata.tool), {});
      return { data };
    }
    await progress({ message: instruction, percent: 10, tokens: 5, costUsd: 0.5, steps: 2 });
    score(0.75);
    return { pid: process.pid, id: process.env.HANDFAST_SUBAGENT ?? '', secret: process.env.SECRET_OF_HOST ?? '' };
  })
  .catch(() => {});
