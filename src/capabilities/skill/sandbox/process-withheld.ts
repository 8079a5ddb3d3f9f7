/**
 * Takes from a process of the tier `process` the functions that Node's permission model leaves to it: signals and priorities of other
 * processes, whether a file of the host exists, names of the host's folders, options of the engine. Runs before the first line of a skill;
 * the process has no other way to them, since the permission model denies threads, native modules and the inspector.
 *
 * `confinement.ts` gives its source text to Node. So it uses nothing but modules of Node, and nothing from outside of itself.
 */

/** Serves the rest of the process, which asks about modules of Node. */
export interface Withheld {
  /** Whether the skill may have the module; an allowed one has lost its withheld functions. */
  allows(specifier: string): boolean;
}

export function withhold(): Withheld {
  /** Each reaches the file system or the engine in a way that the model does not look at. */
  const modules = new Set(['module', 'repl', 'inspector', 'inspector/promises', 'test', 'test/reporters']);
  const { getBuiltinModule } = process;
  const { syncBuiltinESMExports } = getBuiltinModule('node:module');
  type Members = Record<string, unknown>;

  const member = (value: unknown): PropertyDescriptor => ({
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  });
  const refuse = (members: Members, owner: string, ...names: readonly string[]): void => {
    for (const name of names) {
      if (typeof members[name] !== 'function') continue;
      const { native } = members[name] as { native?: unknown };
      const refused = (): never => {
        throw Object.assign(new Error(`the sandbox has no ${owner}.${name}`), { code: 'ERR_ACCESS_DENIED' });
      };
      Object.defineProperty(members, name, member(native === undefined ? refused : Object.assign(refused, { native })));
    }
  };
  const withoutServers = (members: Members): void => {
    members.getServers = () => [];
    if (members.promises !== undefined) (members.promises as Members).getServers = () => [];
  };
  const cuts: Record<string, ((members: Members) => void) | undefined> = {
    fs: (members) => refuse(members, 'fs', 'realpathSync'),
    os(members) {
      refuse(members, 'os', 'setPriority', 'getPriority', 'userInfo');
      Object.assign(members, { hostname: () => 'skill', homedir: () => '/', networkInterfaces: () => ({}) });
    },
    v8: (members) =>
      refuse(
        members,
        'v8',
        'setFlagsFromString',
        'setHeapSnapshotNearHeapLimit',
        'writeHeapSnapshot',
        'getHeapSnapshot',
        'queryObjects',
      ),
    tls: (members) => refuse(members, 'tls', 'getCACertificates'),
    dns: withoutServers,
    'dns/promises': withoutServers,
  };
  const allows = (specifier: string): boolean => {
    const name = specifier.replace(/^node:/, '');
    if (modules.has(name)) return false;
    const cut = cuts[name];
    if (cut !== undefined) {
      cuts[name] = undefined;
      cut(getBuiltinModule(specifier) as unknown as Members);
      syncBuiltinESMExports();
    }
    return true;
  };

  const own = process as unknown as Members;
  refuse(own, 'process', 'kill', '_kill', '_debugProcess', '_debugPause', '_debugEnd', 'binding', '_linkedBinding');
  refuse(own, 'process', 'dlopen', 'chdir', 'umask', 'execve', 'loadEnvFile');
  refuse(own, 'process', 'setuid', 'seteuid', 'setgid', 'setegid', 'setgroups', 'initgroups');
  Object.defineProperties(process, {
    execPath: member('node'),
    argv: member(['node']),
    execArgv: member([]),
    title: member('node'),
    report: member(undefined),
    mainModule: member(undefined),
    getBuiltinModule: member((given: unknown) => {
      const name = String(given);
      return allows(name) ? getBuiltinModule(name) : undefined;
    }),
  });
  // Node gives these to what stands on its command line.
  for (const name of ['require', 'module', 'exports', '__filename', '__dirname'])
    Reflect.deleteProperty(globalThis, name);
  return { allows };
}
