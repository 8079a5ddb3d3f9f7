/**
 * The rules about imports, as pure functions from sources to violations; the tables are in `test/rules.test.ts`.
 *
 * A violation is one line that names the file, its import, and the reason why it is forbidden.
 */
import { builtinModules } from 'node:module';
import { posix } from 'node:path';
import type { Source } from './scan.ts';

/** The folders of `src/` and their levels; a folder may import lower levels and itself. */
export type Levels = Readonly<Record<string, number>>;

/** One external package or built-in module, and the files that may import it. */
export interface AdapterFile {
  /** A package or module name; deeper paths of it count as it. */
  readonly module: string;
  /** Files, as regular expressions on the path. Nothing else may import it. */
  readonly files: readonly RegExp[];
}

/** Names without a prefix, except the few that only exist with it. */
const builtins = new Set(builtinModules);

/** Returns the name that a specifier belongs to: `@scope/name`, `name` or `node:name`; undefined for a relative path. */
export function moduleOf(specifier: string): string | undefined {
  if (specifier.startsWith('.')) return undefined;
  const parts = specifier.split('/');
  const name = specifier.startsWith('@') ? parts.slice(0, 2).join('/') : parts[0]!;
  return builtins.has(name) && !name.startsWith('node:') ? `node:${name}` : name;
}

/** Returns the path that a relative import points at, from the root of the repository. */
function targetOf(from: string, specifier: string): string {
  return posix.join(posix.dirname(from), specifier);
}

/**
 * Returns the unit of a file of `src/`: its folder, or for capabilities the folder of the capability. Files directly in
 * `src/` are the entry points: they are above everything except the command line.
 */
export function unitOf(path: string): string {
  const parts = path.split('/').slice(1, -1);
  if (parts.length === 0) return '(entry point)';
  return parts[0] === 'capabilities' && parts.length > 1 ? `capabilities/${parts[1]}` : parts[0]!;
}

/** Imports that point up, or sideways into another folder of the same level. */
export function layerViolations(sources: readonly Source[], levels: Levels): string[] {
  const levelOf = (unit: string) =>
    levels[unit] ?? (unit.startsWith('capabilities/') ? levels['capabilities/*'] : undefined);
  const violations: string[] = [];
  for (const { path, imports } of sources) {
    const unit = unitOf(path);
    const level = levelOf(unit);
    if (level === undefined) {
      violations.push(`${path}: folder "${unit}" has no level in the import table`);
      continue;
    }
    for (const { specifier } of imports) {
      if (!specifier.startsWith('.')) continue;
      const target = targetOf(path, specifier);
      if (!target.startsWith('src/')) {
        violations.push(`${path}: imports ${target}, which is not part of src/`);
        continue;
      }
      const targetUnit = unitOf(target);
      const targetLevel = levelOf(targetUnit);
      if (targetUnit === unit || (targetLevel !== undefined && targetLevel < level)) continue;
      violations.push(
        `${path}: L${level} imports ${target} (L${targetLevel ?? '?'}); only lower levels and its own folder`,
      );
    }
  }
  return violations;
}

/** The files that may name concrete implementations of a contract, and the permitted form. */
export interface ConcreteRule {
  /** The folder whose files are implementations, e.g. `src/transport/`. */
  readonly folder: string;
  /** The files of the folder that are contract or shared parts, free for every higher level. */
  readonly shared: readonly string[];
  /** Files that may import implementations. */
  readonly mayName: readonly RegExp[];
  /** Files that may reach them through a lazy `import()` only. */
  readonly mayNameLazily: readonly RegExp[];
}

/** Imports of a concrete transport or journal from a file that should only know the contract. */
export function concreteViolations(sources: readonly Source[], rule: ConcreteRule): string[] {
  const violations: string[] = [];
  for (const { path, imports } of sources) {
    if (path.startsWith(rule.folder)) continue;
    for (const { specifier, lazy } of imports) {
      const target = targetOf(path, specifier);
      if (!specifier.startsWith('.') || !target.startsWith(rule.folder)) continue;
      if (rule.shared.includes(target.slice(rule.folder.length))) continue;
      if (rule.mayName.some((pattern) => pattern.test(path))) continue;
      if (lazy && rule.mayNameLazily.some((pattern) => pattern.test(path))) continue;
      violations.push(`${path}: names the concrete ${target}; it may know the contract only`);
    }
  }
  return violations;
}

/**
 * Returns the imports of external packages outside their adapter file, and of packages that have none.
 *
 * Built-in modules are free unless the table names them; their types are always free, because types do nothing.
 */
export function adapterViolations(sources: readonly Source[], adapterFiles: readonly AdapterFile[]): string[] {
  const violations: string[] = [];
  for (const { path, imports } of sources) {
    for (const { specifier, typeOnly } of imports) {
      const module = moduleOf(specifier);
      if (module === undefined || (module.startsWith('node:') && typeOnly)) continue;
      const adapterFile = adapterFiles.find((candidate) => candidate.module === module);
      if (adapterFile === undefined) {
        if (!module.startsWith('node:')) violations.push(`${path}: "${module}" has no adapter file`);
      } else if (!adapterFile.files.some((pattern) => pattern.test(path))) {
        violations.push(`${path}: "${module}" is imported only in ${adapterFile.files.join(', ')}`);
      }
    }
  }
  return violations;
}

/**
 * Circles of imports, each as the sorted list of the files that reach each other, joined by ` · `.
 *
 * Imports of types count: files that need each other's types cannot be read or moved apart. A lazy `import()` cuts a circle.
 */
export function cycles(sources: readonly Source[]): string[] {
  const known = new Set(sources.map(({ path }) => path));
  const targets = new Map(
    sources.map(({ path, imports }) => [
      path,
      imports
        .filter(({ lazy, specifier }) => !lazy && specifier.startsWith('.'))
        .map(({ specifier }) => targetOf(path, specifier))
        .filter((target) => known.has(target)),
    ]),
  );
  return componentsOf(targets)
    .filter((files) => files.length > 1 || targets.get(files[0]!)!.includes(files[0]!))
    .map((files) => files.sort().join(' · '))
    .sort();
}

/** Returns Tarjan's strongly connected components of a graph given by its edges. */
function componentsOf(targets: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = [];
  const order = new Map<string, number>();
  const low = new Map<string, number>();
  const open: string[] = [];
  const visit = (path: string): number => {
    const index = order.size;
    order.set(path, index);
    low.set(path, index);
    open.push(path);
    for (const target of targets.get(path)!) {
      const reached = order.has(target) ? (open.includes(target) ? order.get(target)! : index) : visit(target);
      low.set(path, Math.min(low.get(path)!, reached));
    }
    if (low.get(path) === index) found.push(open.splice(open.indexOf(path)));
    return low.get(path)!;
  };
  for (const path of targets.keys()) if (!order.has(path)) visit(path);
  return found;
}

/** The order of the subfolders of one folder, low to high. Each entry is a path below it; the longest that fits counts. */
export interface InnerOrder {
  /** `control` or `fleet`: the folder of `src/` that the order is of. */
  readonly folder: string;
  /** Subfolders and files, lowest first; those of one row are on one level and do not import each other. */
  readonly rows: readonly (readonly string[])[];
}

/** Imports within a folder that point up, or sideways, in its inner order. */
export function innerOrderViolations(sources: readonly Source[], { folder, rows }: InnerOrder): string[] {
  const prefix = `src/${folder}/`;
  const units = rows.flatMap((row, level) => row.map((unit) => ({ unit, level })));
  const placeOf = (path: string) =>
    units
      .filter(({ unit }) => path === prefix + unit || path.startsWith(`${prefix}${unit}/`))
      .sort((a, b) => b.unit.length - a.unit.length)[0];
  return sources
    .filter(({ path }) => path.startsWith(prefix))
    .flatMap(({ path, imports }) => {
      const own = placeOf(path);
      if (own === undefined) return [`${path}: has no place in the order of ${folder}/`];
      return imports
        .map(({ specifier }) => targetOf(path, specifier))
        .filter((target) => target.startsWith(prefix))
        .filter((target) => {
          const other = placeOf(target);
          return other !== undefined && other.unit !== own.unit && other.level >= own.level;
        })
        .map((target) => `${path}: imports ${target}, which is not below ${own.unit}`);
    });
}
