// A foreign program that is a subagent: raw lines over its pipes. Its result is longer than a message may be, and it ignores errors.
import { createInterface } from 'node:readline';

const send = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
send({ type: 'handshake/req', id: 'h', agent_caps: ['multi_agent'] });
createInterface({ input: process.stdin }).on('line', (line) => {
  const { type, req_id, ok, task } = JSON.parse(line);
  if (req_id === 'h' && ok) send({ type: 'multi_agent/task/req', id: 't' });
  if (type === 'multi_agent/task/resp' && task) {
    const result = { text: 'x'.repeat(Number(task.metadata.chars)) };
    send({ type: 'multi_agent/finish/req', id: 'f', task_id: task.task_id, result });
  }
});
