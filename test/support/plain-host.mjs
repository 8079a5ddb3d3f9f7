/**
 * A host over pipes with A2E 1.0 alone, by raw messages as any language has them: processes and environments, no extension. As the Python
 * SDK's host, it replies to every write and kill with `ok: false` and no word, and to `env/close/req` without the id of the request.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

let count = 0;
const processes = new Map();
const send = (type, fields) =>
  process.stdout.write(
    `${JSON.stringify({ type, id: String(count++), version: '1.0', ts: Date.now() / 1000, ...fields })}\n`,
  );

function start({ id, cmd }) {
  const child = spawn(cmd[0], cmd.slice(1), { stdio: ['pipe', 'pipe', 'pipe'] });
  const proc_id = `p${processes.size}`;
  const known = { child, status: 'running', error: '' };
  processes.set(proc_id, known);
  const event = (stream_type, data) =>
    send('proc/read/event', { req_id: id, kind: 'status', seq: 0, proc_id, stream_type, data });
  for (const stream of ['stdout', 'stderr']) {
    createInterface({ input: child[stream] }).on('line', (line) => event(stream, { text: `${line}\n` }));
  }
  child.stdin.on('error', () => {});
  child.on('close', (code) => {
    // Nothing is sent of one that was killed.
    if (known.status === 'killed') return;
    known.status = code === 0 ? 'completed' : 'failed';
    known.error = code === 0 ? '' : `exit code ${code}`;
    event(code === 0 ? 'stdout' : 'stderr', { code });
  });
  send('proc/spawn/resp', { req_id: id, proc_id, ok: true, pid: child.pid, error: '' });
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  const { id: req_id, type, proc_id = '' } = message;
  const known = processes.get(proc_id);
  if (type === 'handshake/req') {
    const accepted_caps = message.agent_caps.map((capability) => ({ capability, enabled: true, metadata: {} }));
    send('handshake/resp', { req_id, session_id: 's', accepted_caps, max_parallel: 4, ok: true, reason: '' });
  } else if (type === 'ping') send('pong', { req_id, uptime_seconds: 1 });
  else if (type === 'proc/spawn/req') start({ id: req_id, cmd: message.cmd });
  else if (type === 'proc/write/req') {
    known?.child.stdin.write(message.data);
    send('proc/write/resp', { req_id, proc_id, ok: false, pid: 0, error: '' });
  } else if (type === 'proc/kill/req') {
    if (known !== undefined) {
      known.status = 'killed';
      known.child.kill(message.signal);
    }
    send('proc/kill/resp', { req_id, ok: false, state: '' });
  } else if (type === 'proc/status/req') {
    const { status, error } = known ?? { status: 'not_found', error: 'session not found' };
    send('proc/status/resp', { req_id, proc_id, status, error });
  } else if (type === 'env/reset/req') {
    const obs = { episode_id: `e${count}`, step_num: 0, state: { observation: 0 } };
    send('env/reset/resp', { req_id, obs });
  } else if (type === 'env/close/req') send('env/close/resp', { closed: true });
  else send('error', { req_id, code: 'parse_error', message: `Unknown type ${type}` });
}
for (const { child } of processes.values()) child.kill('SIGKILL');
