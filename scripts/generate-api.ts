/**
 * Writes `api.md`: every name that the package exports, by subpath, with its declaration as the compiler emits it. A change
 * of the public interface shows as a change of that file, so that it is decided and not overlooked.
 *
 * Works on the emitted text, whose form is regular: one statement starts in column 0.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';

/** Content of one declaration file: its own statements, its re-exports and its imports. */
interface Declarations {
  /** Name → its statements (several for overloads and for a type beside a value), without comments. */
  readonly own: ReadonlyMap<string, readonly string[]>;
  /** Exported name → its file and its name there. `*` for whole files. */
  readonly from: ReadonlyMap<string, { readonly file: string; readonly name: string }>;
  readonly whole: readonly string[];
  /** Local name → the file of the project that declares it and its name there. */
  readonly imported: ReadonlyMap<string, { readonly file: string; readonly name: string }>;
}

const comment = /\/\*[\s\S]*?\*\/|^[ \t]*\/\/.*$/gm;
const named = /^(?:export )?(?:declare )?(?:abstract )?(?:function|class|interface|type|const|namespace|enum) (\w+)/;

/** Returns the statements of a declaration file: each starts in column 0 and ends before the next that does. */
function statementsOf(text: string): string[] {
  return text
    .replace(comment, '')
    .split(/\n(?=(?:export|import|declare)\b)/)
    .map((statement) => statement.replace(/\n\s*\n/g, '\n').trim())
    .filter((statement) => statement !== '');
}

/** Parses `A, type B as C` into pairs of the name there and the name here. */
function namesIn(list: string): [there: string, here: string][] {
  return list
    .split(',')
    .map((one) => one.trim().replace(/^type /, ''))
    .filter((one) => one !== '')
    .map((one) => one.split(' as ') as [string, string?])
    .map(([there, here = there]) => [there, here]);
}

function read(file: string): Declarations {
  const own = new Map<string, string[]>();
  const from = new Map<string, { file: string; name: string }>();
  const imported = new Map<string, { file: string; name: string }>();
  const whole: string[] = [];
  const target = (specifier: string) => normalize(join(dirname(file), specifier)).replace(/\.[jt]s$/, '.d.ts');
  for (const statement of statementsOf(readFileSync(file, 'utf8'))) {
    const list = /^(import|export)(?: type)? \{([^}]*)\}(?: from '([^']+)')?;$/s.exec(statement);
    const star = /^export (?:type )?\* from '([^']+)';$/.exec(statement);
    if (star !== null) whole.push(target(star[1]!));
    else if (list !== null) {
      const [, keyword, names, specifier] = list;
      for (const [there, here] of namesIn(names!)) {
        if (specifier === undefined) from.set(here, { file, name: there });
        else if (!specifier.startsWith('.')) continue;
        else (keyword === 'import' ? imported : from).set(here, { file: target(specifier), name: there });
      }
    } else {
      const name = named.exec(statement)?.[1];
      if (name !== undefined) own.set(name, [...(own.get(name) ?? []), statement]);
    }
  }
  return { own, from, whole, imported };
}

/** The declaration files below a folder, read when they are asked for. */
class Package {
  readonly #files = new Map<string, Declarations>();

  file(path: string): Declarations {
    let found = this.#files.get(path);
    if (found === undefined) {
      if (!existsSync(path)) throw new Error(`${path} was not emitted`);
      found = read(path);
      this.#files.set(path, found);
    }
    return found;
  }

  /** Returns every name that a file exports. */
  exportsOf(path: string): string[] {
    const { own, from, whole } = this.file(path);
    const exported = [...own].filter(([, statements]) => statements.some((one) => one.startsWith('export')));
    return [...exported.map(([name]) => name), ...from.keys(), ...whole.flatMap((other) => this.exportsOf(other))];
  }

  /** Returns the declaration of a name that a file exports or imports. */
  declarationOf(path: string, name: string): { readonly file: string; readonly name: string } | undefined {
    const { own, from, whole, imported } = this.file(path);
    if (own.has(name)) return { file: path, name };
    const listed = from.get(name);
    // `export { name };` of something that this file imports.
    const next = listed?.file === path && listed.name === name ? imported.get(name) : (listed ?? imported.get(name));
    if (next !== undefined) return this.declarationOf(next.file, next.name);
    for (const other of whole) {
      const found = this.declarationOf(other, name);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

/** Members that only the declaration emit has: private ones, and constructors users cannot call. */
const hidden = /^\s+(?:#private;|private .*|private constructor\(\);)\n?/gm;

interface Report {
  readonly text: string;
  /** `subpath: Name uses Other`, for types that users meet and cannot name. */
  readonly unnamed: readonly string[];
}

/** Returns the report on declarations that were emitted to `folder`. */
export function reportOn(folder: string, exports: Readonly<Record<string, { readonly types: string }>>): Report {
  const declarations = new Package();
  const entries = Object.entries(exports).map(([subpath, { types }]) => ({
    subpath: `handfast${subpath.slice(1)}`,
    file: join(folder, types.replace('./dist/', '')),
  }));
  const key = ({ file, name }: { file: string; name: string }) => `${file}#${name}`;
  const reachable = new Set(
    entries.flatMap(({ file }) =>
      declarations.exportsOf(file).flatMap((name) => {
        const found = declarations.declarationOf(file, name);
        return found === undefined ? [] : [key(found)];
      }),
    ),
  );
  const unnamed = new Set<string>();
  const shown = new Map<string, string>();
  const sections = entries.map(({ subpath, file }) => {
    const parts = [...new Set(declarations.exportsOf(file))].sort().map((name) => {
      const found = declarations.declarationOf(file, name);
      if (found === undefined) throw new Error(`${subpath} exports ${name}, which is declared nowhere`);
      const before = shown.get(key(found));
      if (before !== undefined) return `${name}: see ${before}`;
      shown.set(key(found), subpath);
      const { own, imported } = declarations.file(found.file);
      const text = own
        .get(found.name)!
        .join('\n')
        .replace(hidden, '')
        .replace(/^export (?:declare )?/gm, '');
      for (const word of new Set(text.match(/\b[A-Z]\w+\b/g))) {
        if (word === found.name || (!own.has(word) && !imported.has(word))) continue;
        const used = declarations.declarationOf(found.file, word);
        if (used !== undefined && !reachable.has(key(used)))
          unnamed.add(
            `${subpath}: ${name} uses ${word} of ${used.file.slice(folder.length + 1).replace('.d.ts', '.ts')}`,
          );
      }
      return text;
    });
    return `## \`${subpath}\`\n\n\`\`\`ts\n${parts.join('\n')}\n\`\`\`\n`;
  });
  const head =
    '# Public interface\n\nThe exports of each subpath of the package, as the compiler declares them. Written by `npm run generate`; a difference here is\na change of the public interface.\n';
  return { text: [head, ...sections].join('\n'), unnamed: [...unnamed].sort() };
}

/** Emits the declarations of the sources and reports on them. */
export function apiReport(root: string): Report {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-api-'));
  try {
    const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const { status, stdout } = spawnSync(
      process.execPath,
      [compiler, '-p', 'tsconfig.build.json', '--emitDeclarationOnly', '--outDir', folder],
      { cwd: root, encoding: 'utf8' },
    );
    if (status !== 0) throw new Error(`the declarations cannot be emitted:\n${stdout}`);
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    return reportOn(folder, manifest.exports);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the text of `api.md`. Throws when a public declaration uses a type that no subpath exports. */
export function apiPage(root: string): string {
  const { text, unnamed } = apiReport(root);
  if (unnamed.length > 0) throw new Error(`users cannot name these types:\n${unnamed.join('\n')}`);
  return text;
}
