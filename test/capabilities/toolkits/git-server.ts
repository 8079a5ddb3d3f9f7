/** A bare repository behind HTTP, by git's own program for it. */
import { execFileSync, spawn } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

export interface GitServer {
  /** The address of the repository. */
  readonly url: string;
  /** The received requests, with the user of `Authorization`, if any. */
  readonly requests: readonly string[];
}

/** Serves `folder/repository.git`. */
export async function gitServer(t: TestContext, folder: string): Promise<GitServer> {
  execFileSync('git', ['init', '-q', '--bare', '-b', 'main', 'repository.git'], { cwd: folder });
  execFileSync('git', ['config', 'http.receivepack', 'true'], { cwd: `${folder}/repository.git` });
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const { pathname, search } = new URL(request.url ?? '/', 'http://localhost');
    const { authorization = '', cookie = '' } = request.headers;
    requests.push(`${request.method} ${pathname} ${authorization}${cookie}`.trim());
    const child = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env.PATH ?? '',
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        REQUEST_METHOD: request.method ?? 'GET',
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        REMOTE_USER: 'test',
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    request.pipe(child.stdin);
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.on('close', () => {
      const reply = Buffer.concat(chunks);
      const end = reply.indexOf('\r\n\r\n');
      for (const line of reply.toString('latin1', 0, end).split('\r\n')) {
        const [, name = '', value = ''] = /^([^:]+): (.*)$/.exec(line) ?? [];
        if (name === 'Status') response.statusCode = Number.parseInt(value, 10);
        else if (name !== '') response.setHeader(name, value);
      }
      response.end(reply.subarray(end + 4));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => new Promise((resolve) => server.close(resolve).closeAllConnections()));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/repository.git`, requests };
}
