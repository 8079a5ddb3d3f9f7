/**
 * The redactor's removals from messages, and the parts that it leaves: planted secrets in every form, and words that
 * only look like them.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { hasPlaceholder, Redactor } from '../../src/recording/redactor.ts';
import { isSecretName, isSecretVariable } from '../../src/recording/secret-names.ts';

const SECRET = 'canary/4711+"ünïcode"-Zz9';
const known = { secrets: [{ rule: 'env:CANARY', value: SECRET }] };

/** Asserts that no piece of the secret of six characters is in the redacted message. */
function clean(message: object, secret = SECRET, redactor = new Redactor(known)): string {
  const text = JSON.stringify(redactor.message(message));
  for (let at = 0; at + 6 <= secret.length; at++) {
    const piece = JSON.stringify(secret.slice(at, at + 6)).slice(1, -1);
    assert.ok(!text.includes(piece), `${piece} is in ${text}`);
  }
  assert.ok(hasPlaceholder(text), text);
  return text;
}

describe('a known secret', () => {
  test('is found alone, inside a text, as a member name, and in lists', () => {
    clean({ a: SECRET });
    clean({ a: { b: [`before ${SECRET} behind`] } });
    clean({ [SECRET]: 1 });
  });

  test('is found inside JSON in a text, several levels deep', () => {
    clean({ a: JSON.stringify({ b: SECRET }) });
    clean({ a: JSON.stringify({ b: JSON.stringify({ c: [SECRET] }) }) });
    clean({ a: `not JSON: ${JSON.stringify({ b: JSON.stringify({ c: SECRET }) })}` });
  });

  test('is found in a URL, in hex, and in base64 at each of its three places', () => {
    clean({ a: `https://host/?q=${encodeURIComponent(SECRET)}&r=1` });
    clean({ a: Buffer.from(SECRET).toString('hex') });
    for (const before of ['', 'x', 'xy']) {
      const encoded = Buffer.from(`${before}${SECRET}xyz`).toString('base64');
      const text = JSON.stringify(new Redactor(known).message({ a: encoded }));
      assert.ok(hasPlaceholder(text));
      const rest = text.replace(/\[redacted:[^\]]*\]/g, '');
      assert.ok(!Buffer.from(rest, 'base64').includes(SECRET.slice(4, 12)));
    }
  });

  test('is found in both normal forms of Unicode', () => {
    clean({ a: SECRET.normalize('NFD') }, SECRET.normalize('NFD'));
  });

  test('is found in pieces of a stream', () => {
    const redactor = new Redactor(known);
    for (const [start, end] of [
      ['the key is ', ' and so on'],
      ['', ''],
    ]) {
      for (let cut = 6; cut <= SECRET.length - 6; cut++) {
        clean({ pieces: [`${start}${SECRET.slice(0, cut)}`] }, SECRET, redactor);
        clean({ pieces: [`${SECRET.slice(cut)}${end}`] }, SECRET, redactor);
      }
    }
    clean({ middle: SECRET.slice(6, 14) });
  });

  test('has one placeholder, wherever it stands, and another secret has another one', () => {
    const secrets = [
      { rule: 'env:ONE', value: 'first-secret-1' },
      { rule: 'env:ONE', value: 'second-secret-2' },
    ];
    const redactor = new Redactor({ secrets });
    const seen = redactor.message({ a: 'first-secret-1', b: 'second-secret-2', c: 'x first-secret-1 y' });
    assert.deepEqual(seen, { a: '[redacted:env:ONE:1]', b: '[redacted:env:ONE:2]', c: 'x [redacted:env:ONE:1] y' });
    assert.deepEqual(redactor.message({ a: 'second-secret-2' }), { a: '[redacted:env:ONE:2]' });
    assert.deepEqual(redactor.redacted, [{ rule: 'env:ONE', count: 4, values: 2 }]);
  });

  test('that is short is not searched for, and the manifest says so', () => {
    const redactor = new Redactor({ secrets: [{ rule: 'env:PIN', value: 'tool' }] });
    assert.deepEqual(redactor.message({ a: 'a tool' }), { a: 'a tool' });
    assert.equal(redactor.skipped[0]?.rule, 'env:PIN');
  });

  test('that is a word counts only where it stands alone, and never in the type of a message', () => {
    const redactor = new Redactor({ secrets: [{ rule: 'env:WEAK', value: 'handshake' }] });
    const message = { type: 'handshake/req', a: 'handshakes', b: 'my handshake is', handshake: 1 };
    assert.deepEqual(redactor.message(message), {
      type: 'handshake/req',
      a: 'handshakes',
      b: 'my [redacted:env:WEAK:1] is',
      handshake: 1,
    });
  });
});

describe('without knowing it, a secret is found', () => {
  test('by the name of its member, and from then on everywhere', () => {
    const redactor = new Redactor();
    const first = redactor.message({ type: 'handshake/req', auth_token: 'tok-1234-abcd', params: { password: 'x' } });
    assert.deepEqual(first, {
      type: 'handshake/req',
      auth_token: '[redacted:field:auth_token:1]',
      params: { password: '[redacted:field:password:1]' },
    });
    assert.deepEqual(redactor.message({ text: 'sent tok-1234-abcd' }), { text: 'sent [redacted:field:auth_token:1]' });
  });

  test('in headers and variables that are lists of pairs, and in JSON inside a text', () => {
    const redactor = new Redactor();
    const headers = [
      { name: 'Authorization', value: 'Bearer abcdefgh1' },
      { name: 'Accept', value: 'text/plain' },
    ];
    assert.deepEqual(redactor.message({ headers }), {
      headers: [
        { name: 'Authorization', value: 'Bearer [redacted:field:Authorization:1]' },
        { name: 'Accept', value: 'text/plain' },
      ],
    });
    assert.deepEqual(redactor.message({ body: '{"api_key":"0123456789x"}' }), {
      body: '{"api_key":"[redacted:field:api_key:1]"}',
    });
    assert.deepEqual(redactor.message({ env: { GITHUB_TOKEN: 'abc' } }), {
      env: { GITHUB_TOKEN: '[redacted:field:GITHUB_TOKEN:1]' },
    });
  });

  test('by the shape of a key in any text', () => {
    for (const secret of [
      'sk-proj-0123456789abcdefghij',
      'ghp_0123456789abcdefghijklmn',
      'AKIAIOSFODNN7EXAMPLE',
      'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N',
      '-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----',
    ]) {
      const text = JSON.stringify(new Redactor().message({ text: `see ${secret} there` }));
      assert.ok(!text.includes(secret.slice(8, 16)) && text.includes(' there'), text);
    }
    const redactor = new Redactor();
    const cases: [string, RegExp][] = [
      ['Authorization: Bearer abc123def456', /^Authorization: Bearer \[redacted:pattern:bearer:1\]$/],
      ['postgres://me:hunter2@db/x', /^postgres:\/\/me:\[redacted:pattern:url:1\]@db\/x$/],
      ['?access_token=0123456789', /^\?access_token=\[redacted:[^\]]+\]$/],
      ['password = "hunter2hunter2"', /^password = "\[redacted:pattern:assignment:1\]"$/],
    ];
    for (const [text, expected] of cases) assert.match((redactor.message({ text }) as { text: string }).text, expected);
  });
});

describe('in a text, a secret is found by the name in front of it', () => {
  const cases: readonly (readonly [name: string, text: string, kept: string])[] = [
    [
      'variables, as env prints them',
      "PATH=/bin\nDB_PASS=qwertz\nexport A_TOKEN='abc def'",
      "PATH=/bin\nDB_PASS=…\nexport A_TOKEN='…'",
    ],
    [
      'headers',
      'Host: h\r\nCookie: a=b; sid=0123456789\r\nX-Api-Key: abcdefg1',
      'Host: h\r\nCookie: …\r\nX-Api-Key: …',
    ],
    [
      'a header of a command',
      'curl -H "Authorization: Token abcdef12" http://h',
      'curl -H "Authorization: …" http://h',
    ],
    ['an option', 'tool --token abcdefg1 --password "open sesame" x', 'tool --token … --password "…" x'],
    ['JSON behind a text', 'got {"password":"open \\"sesame","n":1}', 'got {"password":"…","n":1}'],
    ['JSON lines', '{"token":"abc"}\n{"password":"def"}', '{"token":"…"}\n{"password":"…"}'],
    ['JSON in JSON', 'got {"a":"{\\"password\\":\\"sesame\\"}"}', 'got {"a":"{\\"password\\":\\"…\\"}"}'],
    ['a list of names in one word', 'a=b=password=hunter2hunter2', 'a=b=password=…'],
  ];
  for (const [name, text, kept] of cases) {
    test(name, () => {
      const { text: seen } = new Redactor().message({ text });
      assert.equal(seen.replaceAll(/\[redacted:pattern:assignment:\d+\]/g, '…'), kept);
    });
  }

  test('and in lists: options of commands, headers', () => {
    const message = { args: ['--token', 'abc', '--json'], headers: [['Cookie', 'sid=0123456789']], env: ['A_KEY=cde'] };
    assert.deepEqual(new Redactor().message(message), {
      args: ['--token', '[redacted:field:token:1]', '--json'],
      headers: [['Cookie', '[redacted:field:Cookie:1]']],
      env: ['A_KEY=[redacted:pattern:assignment:1]'],
    });
  });

  test('names without a value, references and prose stay', () => {
    const message = {
      text: 'API_KEY=$OTHER password: string; the token: see below. --token --json; secret = [1]; "token": null',
      allow: ['Authorization', 'Content-Type'],
      required: ['password', 'username-2'],
      args: ['--token', '--json'],
    };
    assert.equal(new Redactor().message(message), message);
  });
});

test('base64 of a text with a secret is replaced, also base64 of base64; any other base64 stays', () => {
  const encoded = (text: string, times: number): string =>
    times === 0 ? text : encoded(Buffer.from(text).toString('base64'), times - 1);
  for (const times of [1, 2, 3]) {
    const redactor = new Redactor(known);
    for (const secret of [
      `is ${SECRET}`,
      '{"password":"sesame"}',
      'key: ghp_0123456789abcdefghijklmn',
      'API_KEY=sesame-opens',
    ]) {
      const { text } = redactor.message({ text: `see ${encoded(secret, times)} there` });
      assert.match(text, /^see \S*\[redacted:\S+ there$/, `${secret} ${times}`);
      if (times > 1) assert.match(text, /^see \[redacted:pattern:base64:\d+\] there$/);
    }
  }
  const other = {
    text: encoded('nothing to see here, not even twice', 2),
    image: Buffer.alloc(99, 200).toString('base64'),
  };
  assert.equal(new Redactor(known).message(other), other);
});

test('long texts that repeat the start of a secret are looked through once', { timeout: 20_000 }, () => {
  for (const piece of ['eyJ-', 'secret=', 'password:', '--token ', '?token=', '"password":"', '://a', 'sk-'])
    new Redactor(known).message({ text: piece.repeat(400_000 / piece.length) });
});

test('a client that sends a new token with each message slows nothing down, and the manifest says from when on they are not searched for', {
  timeout: 20_000,
}, () => {
  const redactor = new Redactor(known);
  for (let at = 0; at < 1200; at++) redactor.message({ auth_token: `token-number-${at}-of-many` });
  assert.deepEqual(redactor.message({ text: 'token-number-17-of-many, and token-number-1100-of-many stays' }), {
    text: '[redacted:field:auth_token:18], and token-number-1100-of-many stays',
  });
  assert.equal(redactor.skipped.length, 1);
  assert.match(redactor.skipped[0]?.reason ?? '', /more than 1000 values/);
});

test('what is no secret stays as it is', () => {
  const message = {
    type: 'tool/list/resp',
    usage: { tokens: 12, max_tokens: 4000, prompt_tokens: '7' },
    page_token: 'b2Zmc2V0',
    progressToken: 'p-1',
    input_schema: { properties: { password: { type: 'string', description: 'the password: required' } } },
    text: 'Bearer authentication and Basic authentication; keys are secret: see the docs',
    session_id: '4c9722173a866ca7ca746cb835e8f008',
    auth_token: '',
    token: null,
  };
  const redactor = new Redactor();
  assert.equal(redactor.message(message), message, 'the same object');
  assert.deepEqual(redactor.redacted, []);
});

test('what was redacted is not redacted again', () => {
  const redactor = new Redactor();
  const once = redactor.message({ auth_token: 'tok-1234-abcd', text: 'Bearer abc123def456' });
  assert.deepEqual(new Redactor().message(once), once);
});

test('names of secrets are recognised in every spelling', () => {
  for (const name of ['token', 'auth_token', 'accessToken', 'API-Key', 'X-Api-Key', 'clientSecret', 'db.password']) {
    assert.ok(isSecretName(name), name);
  }
  for (const name of ['tokens', 'page_token', 'key', 'keyboard', 'author', 'secretary', 'path', 'PATH']) {
    assert.ok(!isSecretName(name), name);
  }
  assert.ok(isSecretVariable('OPENAI_API_KEY') && isSecretVariable('PGPASSWORD') && !isSecretVariable('PATH'));
});
