/**
 * The protected paths of a server: the places of secrets, data and code by its configuration. The one place that knows them;
 * `base/workspace/protected-paths.ts` enforces it for principals who are not administrators.
 */
import { dirname, resolve } from 'node:path';
import { isInside } from '../base/is-inside.ts';
import { PathGuard, type ProtectedPath, realPathOf } from '../base/workspace/protected-paths.ts';
import { builtinCapability } from '../capabilities/index.ts';
import type { HostConfig, PluginConfig } from '../config/config.ts';
import type { FleetConfig } from '../config/fleet-config.ts';

/** Secrets, data and code of a configuration, and of the fleet that the same process runs. */
export function protectedPaths(config: HostConfig, fleet?: FleetConfig): ProtectedPath[] {
  const { home, file, auth, journal, audit, control, plugins } = config;
  const all = (kind: ProtectedPath['kind'], path: string | undefined): ProtectedPath[] =>
    path === undefined ? [] : [{ path, kind, deny: 'all' }];
  const folder = file === undefined ? config.workspace : dirname(file);
  return [
    ...all('folder', home),
    ...all('folder', control.dataDir),
    ...all('file', file),
    ...auth.tokenFiles.flatMap((path) => all('file', path)),
    ...all('database', journal.file),
    ...all('audit', audit.file),
    ...plugins.filter(({ builtin }) => !builtin).map(({ use }) => codeOf(use)),
    ...plugins.filter(({ builtin }) => builtin).flatMap((plugin) => trustedBy(plugin, config)),
    ...control.agents.flatMap(({ command }) => programOf(command, folder)),
    ...(fleet === undefined ? [] : ofFleet(fleet)),
  ];
}

/** Makes the guard of a server. */
export const pathGuard = (config: HostConfig, fleet?: FleetConfig): PathGuard =>
  new PathGuard(protectedPaths(config, fleet));

/**
 * Makes the guard of a host whose workspace may lie in a protected folder, as the worktrees of a worker do: of such a folder,
 * everything is protected that does not lead to the workspace.
 *
 * @param more further folders with secrets or data
 */
export function guardAround(workspace: string, config: HostConfig, more: readonly string[]): PathGuard {
  const folders = more.map((path): ProtectedPath => ({ path, kind: 'folder', deny: 'all' }));
  return new PathGuard([...protectedPaths(config), ...folders].flatMap((each) => beside(workspace, each)));
}

/** Returns the same protection without the workspace. */
function beside(workspace: string, each: ProtectedPath): ProtectedPath[] {
  const path = realPathOf(each.path);
  if (each.kind !== 'folder' || !isInside(path, workspace)) return [each];
  return path === workspace ? [] : [{ ...each, path, except: workspace }];
}

/** Returns the protected paths that lie in the workspace, where the tools of every principal work. Real paths. */
export function protectedInWorkspace(config: HostConfig): ProtectedPath[] {
  return protectedPaths(config).filter(({ path }) => isInside(config.workspace, realPathOf(path)));
}

/** Returns the paths of a plugin: its file, or the folder of its package. It may be read. */
function codeOf(module: string): ProtectedPath {
  const [, packageFolder] = /^(.*[/\\]node_modules[/\\](?:@[^/\\]+[/\\])?[^/\\]+)[/\\]/.exec(module) ?? [];
  return packageFolder === undefined
    ? { path: module, kind: 'file', deny: 'changes' }
    : { path: packageFolder, kind: 'folder', deny: 'changes' };
}

/** Returns the folders of skills that a built-in plugin runs. They may be read. */
const trustedBy = ({ use, options }: PluginConfig, { workspace }: HostConfig): ProtectedPath[] =>
  (builtinCapability(use)?.trustedPaths?.(options, { workspace }) ?? []).map((path) => ({
    path,
    kind: 'folder',
    deny: 'changes',
  }));

/** Returns the path of a program that is named by one. */
const programOf = (command: string | undefined, folder: string): ProtectedPath[] =>
  command?.includes('/') === true ? [{ path: resolve(folder, command), kind: 'file', deny: 'changes' }] : [];

function ofFleet(fleet: FleetConfig): ProtectedPath[] {
  const { file, dataDir, workers, nats, peers } = fleet;
  const folder = file === undefined ? dataDir : dirname(file);
  const code = workers.flatMap(({ executor }) => [
    ...programOf(executor?.command, folder),
    ...programOf(executor?.module, folder),
    ...programOf(executor?.mcpConfig, folder),
  ]);
  return [
    ...(file === undefined ? [] : [{ path: file, kind: 'file', deny: 'all' } as const]),
    ...[dataDir, ...workers.map((worker) => worker.dataDir)].map(
      (path): ProtectedPath => ({ path, kind: 'folder', deny: 'all' }),
    ),
    ...secretFiles([nats, workers, peers]).map((path): ProtectedPath => ({ path, kind: 'file', deny: 'all' })),
    ...code,
  ];
}

/**
 * Finds every file that a setting names as the place of a secret: `token_file`, `password_file`, `credentials_file`,
 * `nkey_file`.
 */
function secretFiles(settings: unknown): string[] {
  if (typeof settings !== 'object' || settings === null) return [];
  return Object.entries(settings).flatMap(([name, value]) => {
    if (typeof value !== 'string') return secretFiles(value);
    return /^(?:token|password|credentials|nkey)File$/.test(name) ? [value] : [];
  });
}
