/**
 * The files of the repository that a module imports, by relative paths or by names (`#name`, packages of the repository
 * itself), and those they import in turn: the files that are hashed with a plugin.
 *
 * The text is searched, not parsed: a path in a comment covers a file too many, which does no harm. `pinned-modules.ts`
 * refuses imports that the search does not find (for example computed paths) when they are loaded.
 */
import { isBuiltin } from 'node:module';
import { dirname, extname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { moduleOfPackage } from '../base/package-module.ts';
import type { CoveredFiles } from './covered-files.ts';

/** `from './a.ts'`, `import './a.ts'`, `import('./a.ts')`, `require('./a')`, `import.meta.resolve('./a')`. */
const SPECIFIER =
  /\b(?:from|import|require|resolve)\b\s*\(?\s*(?:\/\*[^*]*\*\/\s*)?(['"`])((?:\.{0,2}\/|file:)[^'"`\n$]{1,1024})\1/g;
/** The same with the name of a package, or `#name`. */
const NAME = /\b(?:from|import|require|resolve)\b\s*\(?\s*(['"`])([#@\w][^'"`\n$]{0,255})\1/g;
/** Endings that `require` tries after a path without an extension, in its order. */
const TRIED = ['', '.js', '.json', '.node', '/package.json', '/index.js', '/index.json', '/index.node'];
/** Only text is searched. */
const CODE = /\.[cm]?[jt]s$/;

/** Covers a module and the files it imports. Returns the paths that were over the limits. */
export function coverModule(module: string, covered: CoveredFiles): string[] {
  const beyond: string[] = [];
  const seen = new Set<string>();
  const waiting = [module];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (seen.has(path)) continue;
    seen.add(path);
    if (!covered.add(path)) {
      beyond.push(path);
      continue;
    }
    const found = covered.read.get(path);
    if (found === undefined || !CODE.test(found.real)) continue;
    const text = found.bytes.toString('utf8');
    waiting.push(...importsOf(text, dirname(found.real)), ...namedImportsOf(text, found.real, covered));
  }
  return beyond;
}

/** Paths that a text names as imports. */
function importsOf(text: string, folder: string): string[] {
  return [...text.matchAll(SPECIFIER)].flatMap(([, , specifier = '']) => {
    const plain = specifier.replace(/[?#].*$/, '');
    let path: string;
    try {
      path = specifier.startsWith('file:') ? fileURLToPath(specifier) : resolve(folder, decodeURIComponent(plain));
    } catch {
      return [];
    }
    return extname(path) === '' ? TRIED.map((end) => (end.startsWith('/') ? join(path, end) : path + end)) : [path];
  });
}

/** Files of the repository that a text imports by names. */
function namedImportsOf(text: string, module: string, covered: CoveredFiles): string[] {
  const names = new Set([...text.matchAll(NAME)].map(([, , name = '']) => name));
  return [...names].flatMap((name) => {
    const file = isBuiltin(name) ? undefined : moduleOfPackage(dirname(module), name);
    return file !== undefined && covered.concerns(file) ? [file] : [];
  });
}
