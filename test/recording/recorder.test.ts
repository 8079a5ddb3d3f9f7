/**
 * The recorder between real agents and hosts, on every transport: the stored messages, and that it changes no forwarded
 * message.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { connect } from 'handfast';
import { testHost } from 'handfast/testing';
import { messageOf, type Recording } from '../../src/recording/format.ts';
import { readBundle } from '../../src/recording/read-bundle.ts';
import { Recorder } from '../../src/recording/recorder.ts';
import type { Link } from '../../src/transport/link.ts';
import { memoryPair } from '../../src/transport/memory.ts';
import { echo, flood, patient } from '../support/tools.ts';
import { cleanUp, freshFolder, scratchFile, startRecorder } from './recorded.ts';

after(cleanUp);

const typesOf = ({ entries }: Recording): string[] =>
  entries.flatMap((entry) => ('from' in entry ? [`${entry.from} ${messageOf(entry)?.type}`] : []));

describe('a session is recorded', () => {
  const addresses = ['tcp://127.0.0.1:0', `unix://${scratchFile('a.sock')}`, 'http://127.0.0.1:0'];
  for (const at of addresses) {
    for (const scheme of at.startsWith('http') ? ['http', 'ws'] : ['']) {
      test(`with its client on ${scheme || at.split(':')[0]}, in the order in which it passed`, async () => {
        await using host = await testHost({ tools: [echo, flood] });
        const recorded = await startRecorder((await host.listen()).address, { at });
        const address = scheme === 'ws' ? `${recorded.address.replace('http', 'ws')}/ws` : recorded.address;
        const agent = await connect(address, { capabilities: ['tools'], token: host.token });
        const { data } = await agent.tools.call('echo', { text: 'grüße ✓' });
        assert.deepEqual(data, { text: 'grüße ✓' });
        const call = agent.tools.call('flood', { count: 3 });
        const events = await Array.fromAsync(call);
        assert.equal(events.length, 3);
        await agent.close();
        const recording = await recorded.finish();
        const { manifest } = recording;
        assert.deepEqual(typesOf(recording), [
          'client handshake/req',
          'host handshake/resp',
          'client tool/call/req',
          'host tool/call/resp',
          'client tool/call/req',
          ...Array(3).fill('host tool/event'),
          'host tool/call/resp',
          'client shutdown',
        ]);
        assert.deepEqual([manifest.complete, manifest.protocol, manifest.messages], [true, 'a2e', 10]);
        assert.ok(manifest.volatile.client.includes('/id'));
        const bytes = readdirSync(recorded.folder).map((name) => readFileSync(join(recorded.folder, name), 'utf8'));
        assert.ok(!bytes.join('').includes(host.token), 'the token is nowhere');
        assert.equal(statSync(join(recorded.folder, 'messages.ndjson')).mode & 0o777, 0o600);
      });
    }
  }
});

test('a client and a host of one process are recorded over links in memory', async () => {
  await using host = await testHost({ tools: [echo] });
  const folder = freshFolder();
  const recorder = await Recorder.start({ folder });
  const through = {
    accept(client: Link) {
      const [ours, theirs] = memoryPair();
      host.host.accept(theirs);
      void recorder.connect(client, ours);
    },
  };
  const agent = await connect(through, { capabilities: ['tools'], token: host.token });
  await agent.tools.call('echo', { n: 1 });
  await agent.close();
  await recorder.finish();
  assert.equal(readBundle(folder).manifest.messages, 5);
});

test('the end of the input is passed on, and answers behind it still arrive', async () => {
  const slow = patient();
  await using host = await testHost({ tools: [slow.tool, echo] });
  const recorded = await startRecorder((await host.listen()).address);
  const { createConnection } = await import('node:net');
  const socket = createConnection({ port: Number(new URL(recorded.address).port), allowHalfOpen: true });
  const lines = [
    { type: 'handshake/req', id: '1', agent_caps: ['tools'], auth_token: host.token },
    { type: 'tool/call/req', id: '2', tool_name: 'echo', arguments: { n: 7 } },
  ];
  socket.end(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const text = (await socket.setEncoding('utf8').toArray()).join('');
  assert.match(text, /"req_id":"2".*"n":7/);
  const { entries } = await recorded.finish();
  assert.deepEqual(entries.at(-1), { ...entries.at(-1), event: 'closed', by: 'client', clean: true });
});

test('a line that is no message is stored as text and passed on, and one that is not UTF-8 is refused by the host', async () => {
  await using host = await testHost({ tools: [echo] });
  const recorded = await startRecorder((await host.listen()).address);
  const { createConnection } = await import('node:net');
  const socket = createConnection({ port: Number(new URL(recorded.address).port), allowHalfOpen: true });
  const handshake = { type: 'handshake/req', id: '1', agent_caps: ['tools'], auth_token: host.token };
  socket.write(`${JSON.stringify(handshake)}\nno message, password=hunter2hunter2\n[1]\n`);
  socket.write(Buffer.from([0xc3, 0x28, 10]));
  socket.end(`${JSON.stringify({ type: 'ping', id: '9' })}\n`);
  const text = (await socket.setEncoding('utf8').toArray()).join('');
  assert.equal(text.match(/"code":"(?:parse_error|invalid_message)"/g)?.length, 3);
  assert.match(text, /"pong".*"req_id":"9"/);
  const { entries } = await recorded.finish();
  const odd = entries.filter((entry) => 'from' in entry && entry.from === 'client' && messageOf(entry) === undefined);
  assert.deepEqual(
    odd.map((entry) => ('text' in entry ? entry.text : 'malformed' in entry && entry.malformed)),
    ['no message, password=[redacted:pattern:assignment:1]', '[1]', 'bad_utf8'],
  );
});

test('a reader that is slow makes the recorder read no faster', async () => {
  await using host = await testHost({ tools: [flood] });
  const recorded = await startRecorder((await host.listen()).address);
  const agent = await connect(recorded.address, { capabilities: ['tools'], token: host.token });
  const call = agent.tools.call('flood', { count: 10_000 });
  const events = await Array.fromAsync(call);
  assert.deepEqual(
    events.map(({ seq }) => seq),
    Array.from({ length: 10_000 }, (_, seq) => seq),
  );
  await agent.close();
  assert.equal((await recorded.finish()).manifest.messages, 10_005);
});

test('a link that breaks breaks the other one, and resuming passes through', async () => {
  await using host = await testHost({ tools: [flood, echo] });
  const recorded = await startRecorder((await host.listen()).address, { cutAfter: 50 });
  const agent = await connect(recorded.address, { capabilities: ['tools'], token: host.token });
  const call = agent.tools.call('flood', { count: 200 });
  const seen = (await Array.fromAsync(call)).map(({ seq }) => seq);
  assert.deepEqual(
    seen,
    Array.from({ length: 200 }, (_, seq) => seq),
  );
  await agent.close();
  const { manifest, entries } = await recorded.finish();
  assert.equal(manifest.connections, 2);
  const ends = entries.flatMap((entry) => ('event' in entry && entry.event === 'closed' ? [entry.clean] : []));
  assert.deepEqual(ends, [false, true]);
});

test('a folder with something in it is refused', async () => {
  const { folder, finish } = await startRecorder('tcp://127.0.0.1:1');
  await assert.rejects(Recorder.start({ folder }), { code: 'usage' });
  await finish();
});

test('a volatile field that is no JSON Pointer is refused before anything is written', async () => {
  const folder = freshFolder();
  await assert.rejects(Recorder.start({ folder, volatile: ['id'] }), { code: 'recording.invalid' });
  assert.throws(() => statSync(folder));
});
