/** `p-graph` runs a graph of functions in memory: `p-graph.mjs PACKAGES`. Nothing is stored, nothing is checked. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { serveLines, timed } from './lines.ts';

const packages = createRequire(join(process.argv[2], 'package.json'));
const { PGraph } = await import(pathToFileURL(packages.resolve('p-graph')).href);

await serveLines(async ({ shape, nodes, parallel }) => {
  const seconds = await timed(async () => {
    const run = async () => {};
    const graph = Object.fromEntries(Array.from({ length: nodes }, (_, at) => [`n${at}`, { run }]));
    const edges = shape === 'row' ? Array.from({ length: nodes - 1 }, (_, at) => [`n${at}`, `n${at + 1}`]) : [];
    await new PGraph(graph, edges).run({ concurrency: parallel });
  });
  return { seconds };
});
