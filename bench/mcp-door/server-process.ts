/**
 * The contenders of the MCP endpoint: `server-process.ts FILE stdio|sessions|stateless`. Over HTTP the port is the
 * first line of its output; it ends with its input.
 *
 * The official SDKs are served as their documentation shows: a transport for each session, and for requests that stand
 * alone a server for each of them; over `node:http` without a framework, with JSON replies, which is the faster of
 * their two ways.
 */
import type { Served } from '../contenders/contender.ts';
import type { Way } from './echo.ts';

interface Contender {
  serve(way: Way): Promise<Served>;
}

const [file, way] = process.argv.slice(2);
const { serve } = (await import(`./${file}.ts`)) as Contender;
const { port } = await serve(way as Way);
if (port !== undefined) {
  process.stdin.resume().on('end', () => process.exit(0));
  process.stdout.write(`${port}\n`);
}
