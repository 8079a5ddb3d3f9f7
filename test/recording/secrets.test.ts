/**
 * The places of a secret in a session, and whether a recording has it: with a real agent and a real host, the files on
 * the disk are searched. Secrets that are not found are asserted too, as documented.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { connect, fail, tool } from 'handfast';
import { messageOf, type Recording } from '../../src/recording/format.ts';
import type { KnownSecret } from '../../src/recording/redactor.ts';
import { ReplayHost } from '../../src/recording/replay-host.ts';
import { cleanUp, freshFolder, recorded } from './recorded.ts';

after(cleanUp);

const SECRET = 'tr0ub4dor/&3 horse+battery=staple';
const known: readonly KnownSecret[] = [{ rule: 'env:CANARY', value: SECRET }];

/** Gives the host's side of everything: a text as data, as an error, or as events. */
const says = tool({
  name: 'says',
  description: 'Says a text',
  input: { type: 'object' },
  async run(
    { text, pieces = [], error, env }: { text?: string; pieces?: string[]; error?: string; env?: object },
    context,
  ) {
    if (error !== undefined) throw fail('runtime_error', error, { seen: error });
    for (const piece of pieces) await context.emit('log', { text: piece });
    return { text, env };
  },
});

type Agent = Parameters<Parameters<typeof recorded>[1]>[0];

/** Returns the text on the disk after a session, with the recording itself. */
async function kept(
  script: (agent: Agent) => Promise<unknown>,
  secrets: readonly KnownSecret[] = known,
): Promise<{ text: string; recording: Recording }> {
  const folder = freshFolder();
  const recording = await recorded({ tools: [says] }, script, { folder, secrets });
  const text = ['manifest.json', 'messages.ndjson'].map((name) => readFileSync(join(folder, name), 'utf8')).join('');
  return { text, recording };
}

const say = (args: Record<string, unknown>) => async (agent: Agent) => {
  await Array.fromAsync(agent.tools.call('says', args)).catch(() => {});
};

/** Asserts that no piece of eight characters is there. */
function assertAbsent(text: string, secret: string): void {
  for (let at = 0; at + 8 <= secret.length; at++) {
    const piece = JSON.stringify(secret.slice(at, at + 8)).slice(1, -1);
    assert.ok(!text.includes(piece), `${piece} is in the recording`);
  }
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const lower = (text: string): string => text.replaceAll(/%[0-9A-F]{2}/g, (digits) => digits.toLowerCase());

describe('a known secret is in no recording', () => {
  const forms: Readonly<Record<string, (secret: string) => string>> = {
    'as it is': (secret) => secret,
    'in a sentence': (secret) => `the password is ${secret}, as always`,
    'in base64': base64,
    'in base64 for URLs': (secret) => Buffer.from(secret).toString('base64url'),
    'in the middle of a longer base64': (secret) => base64(`user:${secret}@host`),
    'in a query': (secret) => `https://h/?k=${encodeURIComponent(secret)}&x=1`,
    'in a query with small digits': (secret) => `https://h/?k=${lower(encodeURIComponent(secret))}`,
    'in a path': (secret) => `https://h/${encodeURI(secret)}`,
    'in a form': (secret) => `k=${encodeURIComponent(secret).replaceAll('%20', '+')}`,
    'in hex': (secret) => Buffer.from(secret).toString('hex'),
    'in JSON in a text': (secret) => JSON.stringify({ output: JSON.stringify({ secret }) }),
  };
  for (const [name, form] of Object.entries(forms)) {
    test(`${name}: as an argument, as a tool's output, in an error, in an event`, async () => {
      const written = form(SECRET);
      for (const args of [{ text: written }, { error: `cannot use ${written}` }, { pieces: [written] }]) {
        const { text, recording } = await kept(say(args));
        assertAbsent(text, SECRET);
        const replies = recording.entries.filter((entry) => 'from' in entry && entry.from === 'host');
        assert.match(JSON.stringify(replies), /\[redacted:env:CANARY:1\]/, 'the host said it too');
        if (!name.startsWith('in the middle')) assert.ok(!text.includes(written), text);
        // Decoded base64 texts do not contain it either.
        for (const [word] of text.matchAll(/[\w+/-]{16,}={0,2}/g))
          assertAbsent(Buffer.from(word, 'base64').toString(), SECRET);
      }
    });
  }

  test('cut over two events, wherever both pieces have six characters', async () => {
    for (let cut = 6; cut <= SECRET.length - 6; cut += 3) {
      const { text } = await kept(say({ pieces: [`it is ${SECRET.slice(0, cut)}`, `${SECRET.slice(cut)}, see`] }));
      for (const piece of [SECRET.slice(0, cut), SECRET.slice(cut)]) assert.ok(!text.includes(piece), piece);
    }
  });

  test('in the environment of an MCP server, of any variable', async () => {
    const { text } = await kept(say({ env: { EVERYTHING: SECRET, OTHER: `x${SECRET}` } }));
    assertAbsent(text, SECRET);
  });
});

describe('a secret that was not named', () => {
  test('is found in the environment of an MCP server by the name of its variable, and from then on anywhere', async () => {
    const secret = 'quiet-river-9182-stone';
    const { text } = await kept(async (agent) => {
      await say({ env: { GITHUB_TOKEN: secret } })(agent);
      await say({ error: `denied for ${base64(secret)}` })(agent);
    }, []);
    assertAbsent(text, secret);
    assert.ok(!text.includes(base64(secret)));
  });

  test('is found in an error and in an output by its shape', async () => {
    const { text } = await kept(async (agent) => {
      await say({ error: 'wrong key sk-proj-0123456789abcdefghij' })(agent);
      await say({ text: 'export API_KEY=0a1b2c3d4e5f6a7b' })(agent);
      await say({ text: base64('ghp_0123456789abcdefghijklmn') })(agent);
    }, []);
    assert.doesNotMatch(text, /sk-proj|0a1b2c3d4e5f/);
    assert.ok(!text.includes(base64('ghp_0123456789abcdefghijklmn')));
  });
});

/** An entry of a zip archive: bytes in front of packed ones. */
const ZIP = Buffer.concat([Buffer.from('PK\u0003\u0004\u0014\0\0\0'), deflateRawSync(SECRET.repeat(2))]);

describe('what is not found, as the documentation says', () => {
  const stays: readonly (readonly [name: string, args: Record<string, unknown>, seen: string])[] = [
    ['a piece shorter than six characters', { pieces: [SECRET.slice(0, 5), 'and nothing else'] }, SECRET.slice(0, 5)],
    ['a file of a zip archive', { text: ZIP.toString('base64') }, ZIP.toString('base64')],
    ['a word behind a name, without a digit', { text: 'password=correcthorse' }, 'password=correcthorse'],
    ['the text backwards', { text: [...SECRET].reverse().join('') }, [...SECRET].reverse().join('')],
  ];
  for (const [name, args, seen] of stays) {
    test(name, async () => {
      const { text } = await kept(say(args));
      assert.ok(text.includes(JSON.stringify(seen).slice(1, -1)), text);
    });
  }

  test('a secret in front of the field that tells', async () => {
    const secret = 'quiet-river-9182-stone';
    const { text } = await kept(async (agent) => {
      await say({ text: `early ${secret}` })(agent);
      await say({ env: { GITHUB_TOKEN: secret } })(agent);
    }, []);
    assert.ok(text.includes(`early ${secret}`));
  });
});

test('both sides are redacted before they are compared: another secret finds the recorded request', async () => {
  const { recording } = await kept((agent) =>
    agent.tools.call('says', { text: SECRET, env: { GITHUB_TOKEN: 'quiet-river-9182-stone' } }),
  );
  const request = recording.entries.map(messageOf).find((message) => message?.type === 'tool/call/req');
  assert.match(JSON.stringify(request), /"text":"\[redacted:env:CANARY:1\]","env":\{"GITHUB_TOKEN":"\[redacted:field:/);
  const logged: string[] = [];
  const replay = new ReplayHost(recording, { log: (line) => logged.push(line) });
  const agent = await connect(replay, { capabilities: ['tools'] });
  const live = { text: 'another password', env: { GITHUB_TOKEN: 'another-token-4711' } };
  assert.deepEqual((await agent.tools.call('says', live)).data, live);
  // A miss shows no secret of the live side either.
  await assert.rejects(agent.tools.call('says', { ...live, text: 'Bearer abc123def456' }), (error: Error) => {
    assert.doesNotMatch(error.message + logged.join(), /abc123def456|another-token/);
    return true;
  });
  await agent.close();
});
