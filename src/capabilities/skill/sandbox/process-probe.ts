/** The skill by which `process.ts` finds out what its processes hold: it tries to reach what no skill should. */

/** What it found. */
export interface Found {
  /** What it reached: `files`, `programs`, `threads`, `network`. */
  readonly open: readonly string[];
  /** Names of its environment variables. */
  readonly variables: readonly string[];
  /** Its own id, as it sees it. */
  readonly pid: number;
}

/** Its argument `isRestricted`: it should start nothing either. Without that, a thread may take the memory that the process has. */
export const PROBE = `
const module = (name) => process.getBuiltinModule('node:' + name);
export default async ({ port, isRestricted }, skill) => {
  await skill.event('here');
  const open = [];
  const attempt = async (what, action) => {
    try { await action(); open.push(what); } catch {}
  };
  await attempt('files', () => module('fs').readFileSync('/etc/passwd'));
  await attempt('files', () => { module('fs').writeFileSync('/handfast-probe', ''); module('fs').rmSync('/handfast-probe'); });
  await attempt('files', () => new (module('sqlite').DatabaseSync)('/etc/passwd', { readOnly: true }));
  if (isRestricted) {
    await attempt('programs', () => {
      const { error } = module('child_process').spawnSync(process.execPath, ['-v']);
      if (error) throw error;
    });
    await attempt('threads', () => new (module('worker_threads').Worker)('', { eval: true }));
  }
  await attempt('network', () => new Promise((resolve, reject) => {
    const socket = module('net').connect(port, '127.0.0.1');
    socket.once('connect', () => { socket.destroy(); resolve(); });
    socket.once('error', reject);
  }));
  return { open: [...new Set(open)], variables: Object.keys(process.env), pid: process.pid };
};
`;
