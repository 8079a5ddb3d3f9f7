/** The skill with which `process.ts` tests the confinement of its processes: it tries to reach forbidden resources. */

/** The findings of the skill. */
export interface Found {
  /** Reached resources: `files`, `programs`, `threads`, `network`. */
  readonly open: readonly string[];
  /** Names of its environment variables. */
  readonly variables: readonly string[];
  /** Its process id inside the sandbox. */
  readonly pid: number;
}

/**
 * The source of the skill. Its argument `isRestricted`: it must not be able to start anything either. Without that, a thread
 * may take the memory of the process.
 */
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
