/**
 * Bundles for pages, by the bundlers people use. Each is given its entry as it is, told that it is for a browser, and left
 * to find what that reaches; an import that is left over fails.
 */
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { rolldown } from 'rolldown';

const source = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Entries: what a page tests, and each entry point of the package alone, for its size. */
export const entries = {
  page: source('./page.ts'),
  agent: source('../../src/agent.browser.ts'),
  control: source('../../src/control.browser.ts'),
};

export const bundlers: Readonly<Record<string, (entry: string) => Promise<string>>> = {
  async rolldown(entry) {
    const bundle = await rolldown({ input: entry, platform: 'browser', logLevel: 'silent' });
    const { output } = await bundle.generate({ format: 'esm', minify: true });
    await bundle.close();
    assert.equal(output.length, 1, 'one file');
    assert.deepEqual([...output[0].imports, ...output[0].dynamicImports], []);
    return output[0].code;
  },
  async esbuild(entry) {
    const { outputFiles, metafile } = await build({
      entryPoints: [entry],
      bundle: true,
      format: 'esm',
      platform: 'browser',
      minify: true,
      write: false,
      metafile: true,
      logLevel: 'silent',
    });
    assert.equal(outputFiles.length, 1, 'one file');
    const [made] = Object.values(metafile.outputs);
    assert.deepEqual(made?.imports, []);
    assert.deepEqual(
      // What is reached and shaken off has no bytes here.
      Object.entries(made?.inputs ?? {}).filter(([input, { bytesInOutput }]) => {
        return input.includes('node_modules') && bytesInOutput > 0;
      }),
      [],
    );
    return outputFiles[0]?.text as string;
  },
};

/** Bytes over the network, as servers send them. */
export const gzipped = (code: string): number => gzipSync(code, { level: 9 }).length;
