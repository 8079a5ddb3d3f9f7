/**
 * Pages in a real Chromium, against a real `handfast up`: bundles of both clients connect over WebSocket with a token,
 * call tools, stream events, lose their link and resume, and drive a session. `npm run test:browser`.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { User } from '../cli/command.ts';
import { type Relay, startRelay } from '../support/relay.ts';
import { bundlers, entries, gzipped } from './bundles.ts';
import { Chromium, type Page, skip } from './chromium.ts';

/** Most KiB of an entry point, minified and gzipped. docs/browser.md has the same numbers. */
const BUDGET_KIB = { agent: 33, control: 30 };

/** Streams ten lines, one each tenth of a second. */
const COUNT = 'for n in 1 2 3 4 5 6 7 8 9 10; do echo line $n; sleep 0.1; done';

for (const [name, bundle] of Object.entries(bundlers)) {
  test(`a bundle by ${name} stays within the size of docs/browser.md`, async (t) => {
    const page = readFileSync(new URL('../../docs/browser.md', import.meta.url), 'utf8');
    for (const entry of ['agent', 'control'] as const) {
      const { files, atOnce } = await bundle(entries[entry]);
      const codes = atOnce.map((file) => files.get(file) as string);
      const kib = codes.reduce((sum, code) => sum + gzipped(code), 0) / 1024;
      t.diagnostic(
        `${name}: handfast/${entry} ${(codes.join('').length / 1024).toFixed(1)} KiB, gzip ${kib.toFixed(1)} KiB`,
      );
      assert.ok(kib <= BUDGET_KIB[entry], `${kib} KiB`);
      assert.match(page, new RegExp(`\\| \`handfast/${entry}\` \\| ${BUDGET_KIB[entry]} KiB \\|`));
    }
  });
}

describe('a page', { skip }, () => {
  const user = new User();
  const pages = new Map<string, string>();
  const site = createServer((request, response) => {
    const script = pages.get(request.url ?? '');
    if (script !== undefined) response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(script);
    else {
      const html = `<!doctype html><script type="module" src="/${request.url?.slice(1)}.js"></script>`;
      response.writeHead(200, { 'Content-Type': 'text/html' }).end(html);
    }
  });
  let browser: Chromium;
  let relay: Relay;
  let origin = '';
  let token = '';

  before(async () => {
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
    origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
    user.write(
      'handfast.yaml',
      `plugins: [tools]\nhttp: { allowed_hosts: [127.0.0.1], allowed_origins: ["${origin}"] }\ncontrol: { backend: rehearsal }\n`,
    );
    const { ready } = await user.up(['--config', 'handfast.yaml']);
    token = readFileSync(ready.token_file as string, 'utf8').trim();
    relay = await startRelay({ host: '127.0.0.1', port: Number(new URL(ready.url).port) });
    for (const [name, bundle] of Object.entries(bundlers)) {
      const { entry, files } = await bundle(entries.page);
      for (const [file, code] of files) pages.set(`/${name}/${file}`, code);
      pages.set(`/${name}.js`, `export * from './${name}/${entry}';`);
    }
    browser = await Chromium.launch();
  });
  after(async () => {
    await browser?.close();
    await relay?.close();
    await user.leave();
    site.close();
  });

  /** Opens a page with a bundle; returns it with a function that runs the body of an async function in it. */
  async function open(bundler: string): Promise<{ page: Page; run: (body: string) => ReturnType<Page['run']> }> {
    const page = await browser.open(`${origin}/${bundler}`);
    const url = `ws://127.0.0.1:${relay.port}`;
    const known = `const url = ${JSON.stringify(url)}, token = ${JSON.stringify(token)}, count = ${JSON.stringify(COUNT)};`;
    return { page, run: (body) => page.run(`(async () => { ${known} ${body} })()`) };
  }

  for (const bundler of Object.keys(bundlers)) {
    test(`bundled by ${bundler} calls tools and streams events`, async () => {
      const { run } = await open(bundler);
      const seen = await run(`
        const host = await agent.connect(url + '/ws', { token, capabilities: ['tools'] });
        const tools = (await host.tools.list()).map(({ name }) => name);
        const call = host.tools.call('shell', { command: count });
        const lines = [];
        for await (const { data } of call) lines.push(JSON.stringify(data));
        const { data } = await call;
        const long = await host.tools.call('write_file', { path: 'long.txt', content: 'é'.repeat(100_000) });
        await host.close();
        return { tools, lines, stdout: data.stdout, long: long.success, state: host.state };
      `);
      assert.ok(seen.tools.includes('read_file'), seen.tools.join());
      assert.ok(seen.lines.length >= 5, `${seen.lines.length} events`);
      assert.match(seen.lines.join(), /line 10/);
      assert.match(seen.stdout, /^line 1\n[\s\S]*line 10\n$/);
      assert.deepEqual([seen.long, seen.state], [true, 'closed']);
    });

    test(`bundled by ${bundler} loses its link in a call and resumes: nothing is lost, nothing runs twice`, async () => {
      const { run } = await open(bundler);
      await run(`
        const states = [];
        const host = await agent.connect(url + '/ws', {
          token, capabilities: ['tools'], onState: ({ state }) => states.push(state),
        });
        const call = host.tools.call('shell', { command: 'echo once >> runs.txt; ' + count });
        const events = [];
        const some = Promise.withResolvers();
        const all = (async () => {
          for await (const event of call) { events.push(event); if (events.length === 2) some.resolve(); }
        })();
        globalThis.running = { host, states, call, events, all };
        await some.promise;
      `);
      relay.cut();
      const seen = await run(`
        const { host, states, call, events, all } = globalThis.running;
        await all;
        const { data } = await call;
        const runs = await host.tools.call('read_file', { path: 'runs.txt' });
        await host.tools.call('shell', { command: 'rm runs.txt' });
        await host.close();
        return { states, seqs: events.map(({ seq }) => seq), gaps: call.gaps, stdout: data.stdout, runs: runs.data.content };
      `);
      assert.deepEqual(seen.states.slice(0, 3), ['open', 'lost', 'resumed']);
      assert.deepEqual(
        seen.seqs,
        seen.seqs.map((_: number, at: number) => at),
      );
      assert.deepEqual(seen.gaps, []);
      assert.match(seen.stdout, /^line 1\n[\s\S]*line 10\n$/);
      assert.equal(seen.runs, 'once\n');
    });

    test(`bundled by ${bundler} drives a session, over a lost link too`, async () => {
      const { run } = await open(bundler);
      const first = await run(`
        const states = [];
        const client = await control.connect(url.replace('ws', 'http'), { token, onState: ({ state }) => states.push(state) });
        const session = await client.create({ title: 'from a page' });
        const types = [];
        const turn = await session.prompt('hello');
        for await (const event of turn) types.push(event.type);
        globalThis.driving = { client, session, states };
        return { types, ...(await turn.result()) };
      `);
      assert.ok(first.types.length > 2, first.types.join());
      assert.equal(first.error, undefined);
      relay.cut();
      const second = await run(`
        const { client, session, states } = globalThis.driving;
        const result = await (await session.prompt('hello again')).result();
        const listed = await Array.fromAsync(client.sessions());
        await client.close();
        return { result, states, titles: listed.map(({ title }) => title) };
      `);
      assert.equal(second.result.error, undefined);
      assert.deepEqual(second.states.slice(0, 3), ['open', 'lost', 'resumed']);
      assert.ok(second.titles.includes('from a page'));
    });
  }

  test('is refused without a token, from another origin, and at an address for programs', async () => {
    const { run } = await open('esbuild');
    const refusal = (dial: string): Promise<unknown> =>
      run(`return ${dial}.then(() => 'connected', ({ code, message }) => code + ': ' + message);`);
    assert.match(
      String(await refusal(`agent.connect(url)`)),
      /^auth_failed: the host demands a token and none was sent/,
    );
    assert.match(String(await refusal(`agent.connect('tcp://127.0.0.1:1')`)), /^usage: a page connects to ws\(s\):/);
    const other = await browser.open(`${origin.replace('127.0.0.1', 'localhost')}/esbuild`);
    const refused = await other.run(
      `agent.connect('ws://127.0.0.1:${relay.port}/ws', { token: ${JSON.stringify(token)} }).then(() => 'connected', ({ code }) => code)`,
    );
    assert.equal(refused, 'unreachable', 'a page is not told why: allowed_origins does not name it');
  });
});
