/** A program that is a subagent, by raw messages as any language has them: its result is its instruction. */
import { createInterface } from 'node:readline';

let count = 0;
const send = (type, fields) => process.stdout.write(`${JSON.stringify({ type, id: String(count++), ...fields })}\n`);
send('handshake/req', { agent_caps: ['multi_agent'] });
for await (const line of createInterface({ input: process.stdin })) {
  const { type, task } = JSON.parse(line);
  if (type === 'handshake/resp' || type === 'multi_agent/finish/resp') send('multi_agent/task/req', {});
  if (type !== 'multi_agent/task/resp' || task === null) continue;
  const { task_id, instruction } = task;
  send('multi_agent/finish/req', {
    task_id,
    ...(instruction === 'fail' ? { error: 'no luck' } : { result: instruction }),
  });
}
