/**
 * Takes from a process of the tier `process` the functions that Node's permission model leaves to it: signals and priorities of
 * other processes, whether a file of the host exists, names of the host's folders, options of the engine. Runs before the first
 * line of a skill; the process has no other way to them, since the permission model denies threads, native modules and the
 * inspector.
 *
 * `confinement.ts` gives its source text to Node. So it uses only modules of Node, and nothing outside of the function itself.
 */

/** The functions for the rest of the process, which asks about modules of Node. */
export interface Withheld {
  /** Returns true if the skill may have the module; an allowed one has lost its withheld functions. */
  allows(specifier: string): boolean;
  /** Must be called right before the skill's first line. */
  begin(): void;
}

export function withhold(): Withheld {
  // After its first line, the skill can replace every property that is looked up here, even those of prototypes.
  const { defineProperty, create } = Object;
  const { getBuiltinModule } = process;
  const { syncBuiltinESMExports } = getBuiltinModule('node:module');
  type Members = Record<string, unknown>;

  const member = (value: unknown): PropertyDescriptor =>
    ({ __proto__: null, value, writable: true, enumerable: true, configurable: true }) as PropertyDescriptor;
  const give = (members: Members, name: string, value: unknown): void => {
    defineProperty(members, name, member(value));
  };
  const refuse = (members: Members, owner: string, ...names: readonly string[]): void => {
    for (let at = 0; at < names.length; at += 1) {
      const name = names[at] as string;
      const real = members[name];
      if (typeof real !== 'function') continue;
      const refused = (): never => {
        const error = new Error(`the sandbox has no ${owner}.${name}`);
        defineProperty(error, 'code', member('ERR_ACCESS_DENIED'));
        throw error;
      };
      if ('native' in real) give(refused as unknown as Members, 'native', refused);
      give(members, name, refused);
    }
  };
  const noServers = (): string[] => [];
  const cuts = create(null) as Record<string, ((members: Members) => void) | null | undefined>;
  cuts.fs = (members) => refuse(members, 'fs', 'realpathSync');
  cuts.os = (members) => {
    refuse(members, 'os', 'setPriority', 'getPriority', 'userInfo');
    give(members, 'hostname', () => 'skill');
    give(members, 'homedir', () => '/');
    give(members, 'networkInterfaces', () => ({}));
  };
  cuts.v8 = (members) => {
    refuse(members, 'v8', 'setFlagsFromString', 'setHeapSnapshotNearHeapLimit', 'writeHeapSnapshot');
    refuse(members, 'v8', 'getHeapSnapshot', 'queryObjects');
  };
  cuts.tls = (members) => refuse(members, 'tls', 'getCACertificates');
  cuts['dns/promises'] = (members) => give(members, 'getServers', noServers);
  cuts.dns = (members) => {
    give(members, 'getServers', noServers);
    give(members.promises as Members, 'getServers', noServers);
  };
  // Null: each reaches the file system or the engine in a way that the model does not check.
  for (const name of ['module', 'repl', 'inspector', 'inspector/promises', 'test', 'test/reporters']) cuts[name] = null;
  for (const name of Object.keys(cuts)) cuts[`node:${name}`] = cuts[name];
  const isCut = create(null) as Record<string, boolean>;
  const allows = (specifier: string): boolean => {
    const cut = cuts[specifier];
    if (cut === undefined || isCut[specifier] === true) return true;
    if (cut === null) return false;
    cut(getBuiltinModule(specifier) as unknown as Members);
    syncBuiltinESMExports();
    isCut[specifier] = true;
    return true;
  };

  const own = process as unknown as Members;
  refuse(own, 'process', 'kill', '_kill', '_debugProcess', '_debugPause', '_debugEnd', 'binding', '_linkedBinding');
  refuse(own, 'process', 'dlopen', 'chdir', 'umask', 'execve', 'loadEnvFile');
  refuse(own, 'process', 'setuid', 'seteuid', 'setgid', 'setegid', 'setgroups', 'initgroups');
  give(own, 'execPath', 'node');
  give(own, 'argv', ['node']);
  give(own, 'execArgv', []);
  // A setter of it would rename the process in the list of the system.
  give(own, 'title', 'node');
  give(own, 'report', undefined);
  give(own, 'mainModule', undefined);
  give(own, 'getBuiltinModule', (given: unknown) => {
    const name = `${given}`;
    return allows(name) ? getBuiltinModule(name) : undefined;
  });
  const begin = (): void => {
    // Node gives these to the code on its command line, and sets some again afterwards.
    for (const name of ['require', 'module', 'exports', '__filename', '__dirname'])
      Reflect.deleteProperty(globalThis, name);
  };
  return { allows, begin };
}
