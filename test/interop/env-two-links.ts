/**
 * A host with environments, with stdin and stdout for its starter and HTTP for others: `env-two-links.ts TOKEN FILE`
 * writes the address of its HTTP server into FILE. For two sessions of one agent where the link of the first is a pipe.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { envPlugin } from '../../src/capabilities/env/plugin.ts';
import { createHost } from '../../src/host/host.ts';
import { httpServer } from '../../src/server/http/http.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { httpSseEndpoint } from '../../src/transport/http/http-sse.ts';
import type { Link } from '../../src/transport/link.ts';
import { stdioLink } from '../../src/transport/stdio.ts';

const [token = '', file = ''] = process.argv.slice(2);
const link = stdioLink();
const auth = createAuthenticator([{ principal: { name: 'python', admin: true }, digests: [tokenDigest(token)] }]);
const host = createHost({ plugins: [envPlugin({ durability: 'none' })], auth });
await host.start();
const server = await httpServer({ endpoint: httpSseEndpoint({ accept: (each: Link) => host.accept(each) }) });
// Whole or not there.
writeFileSync(`${file}.new`, server.address);
renameSync(`${file}.new`, file);
host.accept(link);
// The server would keep this process alive after the program that started it has closed its end.
setInterval(() => {
  if (link.isClosed) process.exit(0);
}, 20);
