/**
 * Measures one edge in a separate process, so that no other edge is in its heap: prints a JSON line for each sample,
 * and one with the figures at the end. Arguments: the name of the edge, the units and the number of samples.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sample } from './edge.ts';
import { EDGES } from './edges.ts';

const [name = '', units = '', samples = ''] = process.argv.slice(2);
const kind = EDGES[name];
if (kind === undefined || global.gc === undefined)
  throw new Error('usage: node --expose-gc edge-process.ts EDGE UNITS SAMPLES');
const { gc } = global;

const folder = mkdtempSync(join(tmpdir(), 'handfast-growth-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
process.on('SIGTERM', () => process.exit(1));

/** Returns the bytes that this process has written by system calls; 0 if the system does not report them. */
function writtenBytes(): number {
  try {
    return Number(/^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

function diskBytes(): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  return files.reduce((sum, { parentPath, name }) => sum + sizeOf(join(parentPath, name)), 0);
}

const print = (line: object): boolean => process.stdout.write(`${JSON.stringify(line)}\n`);

const edge = await kind.open(folder);
const step = Math.max(1, Math.floor(Number(units) / Number(samples)));
// The code is compiled, and caches are filled, before anything is counted.
await edge.run(Math.ceil(step / 2));
for (let done = 0; done < Number(units); ) {
  gc();
  const written = writtenBytes();
  const cpu = process.cpuUsage();
  const started = performance.now();
  await edge.run(step);
  const wallUs = (performance.now() - started) * 1000;
  const { user, system } = process.cpuUsage(cpu);
  const after = writtenBytes();
  done += step;
  gc();
  const { heapUsed, rss } = process.memoryUsage();
  const sample: Sample = {
    units: done,
    cpuUs: (user + system) / step,
    wallUs: wallUs / step,
    writtenBytes: (after - written) / step,
    heapBytes: heapUsed,
    rssBytes: rss,
    diskBytes: diskBytes(),
  };
  print({ sample });
}
const figures = await edge.finish?.();
if (figures !== undefined) print({ figures });
await edge.close();
process.exit(0);
