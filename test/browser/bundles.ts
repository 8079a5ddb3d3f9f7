/**
 * Bundles for pages, by the bundlers people use. Each gets its unchanged entry and the setting for browsers, and finds
 * the imports itself; an unresolved import fails.
 */
import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { rolldown } from 'rolldown';

const source = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Entries: the parts that a page tests, and each entry point of the package alone, for its size. */
export const entries = {
  page: source('./page.ts'),
  agent: source('../../src/agent.browser.ts'),
  control: source('../../src/control.browser.ts'),
};

/** The files of a bundle by name. Code that a page loads later, such as the client of a capability, is a separate file. */
export interface Bundle {
  readonly entry: string;
  readonly files: ReadonlyMap<string, string>;
  /** The files that the entry imports statically, itself included. */
  readonly atOnce: readonly string[];
}

interface File {
  readonly code: string;
  /** Static and dynamic imports. Each must be a file of the bundle. */
  readonly imports: readonly string[];
  readonly lazy: readonly string[];
}

/** Returns the bundle of an entry out of all files; unreached files are left out. */
function bundleOf(entry: string, made: Readonly<Record<string, File>>): Bundle {
  const closure = (next: (file: File) => readonly string[]): string[] => {
    const reached = new Set([entry]);
    for (const name of reached) {
      const file = made[name];
      assert.ok(file !== undefined, `${name} is left over`);
      for (const imported of next(file)) reached.add(imported);
    }
    return [...reached];
  };
  const files = new Map(
    closure(({ imports, lazy }) => [...imports, ...lazy]).map((name) => [name, (made[name] as File).code]),
  );
  return { entry, files, atOnce: closure(({ imports }) => imports) };
}

export const bundlers: Readonly<Record<string, (entry: string) => Promise<Bundle>>> = {
  async rolldown(entry) {
    const bundle = await rolldown({ input: entry, platform: 'browser', logLevel: 'silent' });
    const { output } = await bundle.generate({ format: 'esm', minify: true });
    await bundle.close();
    const chunks = output.filter((each) => each.type === 'chunk');
    const files = chunks.map(({ fileName, code, imports, dynamicImports: lazy }) => [
      fileName,
      { code, imports, lazy },
    ]);
    return bundleOf(output[0].fileName, Object.fromEntries(files));
  },
  async esbuild(entry) {
    const { outputFiles, metafile } = await build({
      entryPoints: [entry],
      bundle: true,
      splitting: true,
      outdir: 'out',
      format: 'esm',
      platform: 'browser',
      minify: true,
      write: false,
      metafile: true,
      logLevel: 'silent',
    });
    const made = Object.entries(metafile.outputs);
    const files = made.map(([path, { imports }]): [string, File] => {
      const code = outputFiles.find((file) => basename(file.path) === basename(path))?.text as string;
      const named = (kind: string) => imports.filter((each) => each.kind === kind).map((each) => basename(each.path));
      return [basename(path), { code, imports: named('import-statement'), lazy: named('dynamic-import') }];
    });
    const [first] = made.find(([, { entryPoint }]) => entryPoint?.endsWith(basename(entry))) ?? [''];
    const bundle = bundleOf(basename(first), Object.fromEntries(files));
    const inputs = made.filter(([path]) => bundle.files.has(basename(path))).map(([, output]) => output.inputs);
    assert.deepEqual(
      // Reached and tree-shaken code has no bytes here.
      inputs
        .flatMap((of) => Object.entries(of))
        .filter(([input, { bytesInOutput }]) => input.includes('node_modules') && bytesInOutput > 0),
      [],
    );
    return bundle;
  },
};

/** Returns the bytes of a file over the network, as servers send them. */
export const gzipped = (code: string): number => gzipSync(code, { level: 9 }).length;
