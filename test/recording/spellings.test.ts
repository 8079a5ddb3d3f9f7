/** A known secret in each spelling that a decoder of its place undoes: in texts, in names of members, in pieces. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { eachView, MAX_VIEWS } from '../../src/recording/decoded-views.ts';
import { Redactor } from '../../src/recording/redactor.ts';

const SECRETS = ['Zx9QmV7rT2pL8wKd4Yb6Nc3H', 'tr0ub4dor/&3 horse+battery=st%20aple\\n"q', 'pässwörd-日本-🦆-4711'];

const bytes = (text: string): number[] => [...Buffer.from(text)];
const units = (text: string): number[] => Array.from({ length: text.length }, (_, at) => text.charCodeAt(at));
const hex = (value: number, digits = 2): string => value.toString(16).padStart(digits, '0');
const percent = (text: string): string =>
  bytes(text)
    .map((byte) => `%${hex(byte)}`)
    .join('');
const mixedCase = (text: string): string => text.replaceAll(/(.)(.)/g, (_, one, other) => one + other.toUpperCase());
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const jsonUnits = (text: string): string =>
  units(text)
    .map((unit) => `\\u${hex(unit, 4)}`)
    .join('');
const base32 = (text: string): string =>
  bytes(text)
    .map((byte) => byte.toString(2).padStart(8, '0'))
    .join('')
    .replaceAll(/.{1,5}/g, (five) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[Number.parseInt(five.padEnd(5, '0'), 2)]!);
const jsonIn = (text: string, levels: number): string =>
  levels === 0 ? text : jsonIn(JSON.stringify(text).slice(1, -1), levels - 1);

/** Spellings in which nothing of the value is seen. */
const spellings: Readonly<Record<string, (secret: string) => string>> = {
  'percent-encoding of all characters, small digits': (s) => `https://h/p?t=${percent(s)}&x=1`,
  'percent-encoding of all characters, capital digits': (s) => `https://h/p/${percent(s).toUpperCase()}/x`,
  'percent-encoding of one character': (s) => `https://h/p?t=%${hex(s.charCodeAt(0))}${encodeURIComponent(s.slice(1))}`,
  'percent-encoding in a form, with a plus for a space': (s) =>
    `a=1&t=${new URLSearchParams({ t: s }).toString().slice(2)}`,
  'percent-encoding, twice': (s) => percent(percent(s)),
  'percent-encoding, three times': (s) => `x ${encodeURIComponent(encodeURIComponent(percent(s)))}`,
  'percent-encoding in the userinfo of a URL': (s) => `https://user:${percent(s)}@host/`,
  'percent-encoding of units': (s) =>
    units(s)
      .map((unit) => `%u${hex(unit, 4)}`)
      .join(''),
  'escapes of JSON': (s) => `{"a":"${jsonUnits(s)}"}`,
  'escapes of JSON with capital digits in a text that is no JSON': (s) =>
    `said: "${jsonUnits(s)
      .replaceAll(/[a-f]/g, (digit) => digit.toUpperCase())
      .replaceAll('\\U', '\\u')}"`,
  'one escape of JSON': (s) => `x: "${jsonUnits(s[0]!)}${jsonIn(s.slice(1), 1)}"`,
  'escapes of JSON, three levels deep': (s) => `see ${jsonIn(`"${jsonUnits(s)}"`, 2)}`,
  "escapes of bytes in C and in $'…' of a shell": (s) =>
    `$'${bytes(s)
      .map((byte) => `\\x${hex(byte)}`)
      .join('')}'`,
  'octal escapes': (s) =>
    `$'${bytes(s)
      .map((byte) => `\\${byte.toString(8).padStart(3, '0')}`)
      .join('')}'`,
  'long escapes of TOML and YAML': (s) => `a: "${[...s].map((one) => `\\U${hex(one.codePointAt(0)!, 8)}`).join('')}"`,
  'escapes in braces': (s) => `"${[...s].map((one) => `\\u{${hex(one.codePointAt(0)!)}}`).join('')}"`,
  'a backslash before each character of a shell': (s) => [...s].map((one) => `\\${one}`).join(''),
  'decimal entities': (s) => [...s].map((one) => `&#${one.codePointAt(0)};`).join(''),
  'hexadecimal entities without a semicolon': (s) => [...s].map((one) => `&#X${hex(one.codePointAt(0)!)}`).join(''),
  'entities in percent-encoding': (s) => encodeURIComponent([...s].map((one) => `&#${one.codePointAt(0)};`).join('')),
  'quoted-printable': (s) =>
    bytes(s)
      .map((byte) => `=${hex(byte).toUpperCase()}`)
      .join(''),
  'quoted-printable with a soft line break': (s) =>
    bytes(s)
      .map((byte, at) => `=${hex(byte).toUpperCase()}${at % 5 === 4 ? '=\r\n' : ''}`)
      .join(''),
  'base64 in lines': (s) => base64(`a text before it: ${s} and one behind it`).replaceAll(/.{20}/g, '$&\n'),
  'base64 in percent-encoding': (s) => encodeURIComponent(base64(`??>${s}??>`)),
  'base64 of percent-encoding': (s) => base64(`t=${percent(s)}`),
  'base64url of escapes of JSON': (s) => Buffer.from(`"${jsonUnits(s)}"`).toString('base64url'),
  'hex with digits of both cases': (s) => mixedCase(Buffer.from(s).toString('hex')),
  'hex in percent-encoding': (s) => percent(Buffer.from(s).toString('hex')),
  'hex in pairs': (s) =>
    bytes(s)
      .map((byte) => hex(byte))
      .join(':'),
  'a list of bytes': (s) =>
    bytes(s)
      .map((byte) => `0x${hex(byte)}`)
      .join(', '),
  'escapes of LDAP': (s) =>
    bytes(s)
      .map((byte) => `\\${hex(byte)}`)
      .join(''),
  'base64 of UTF-16': (s) => Buffer.from(s, 'utf16le').toString('base64'),
  'base64 of UTF-16 with the high byte first': (s) => Buffer.from(s, 'utf16le').swap16().toString('base64'),
  'base64 of gzip': (s) => gzipSync(`a ${s} b ${s}`).toString('base64'),
  'base64 of gzip in a data URL': (s) => `data:application/gzip;base64,${gzipSync(s).toString('base64')}`,
  'base64 of gzip whose end is missing': (s) => gzipSync(`${s} `.repeat(40)).subarray(0, -8).toString('base64'),
  'base64url of zlib': (s) => deflateSync(`${s} ${s}`).toString('base64url'),
  'base64 of raw deflate': (s) => deflateRawSync(`${s} ${s}`).toString('base64'),
  'base64 of brotli': (s) => brotliCompressSync(`x ${s} ${s} ${s}`).toString('base64'),
  'base64 of zstd': (s) => zstdCompressSync(`x ${s} ${s} ${s}`).toString('base64'),
  'base64 of gzip of escapes of JSON': (s) => gzipSync(`"${jsonUnits(s)}"`).toString('base64'),
  'base64 of hex': (s) => base64(Buffer.from(s).toString('hex')),
  'hex of base64': (s) => Buffer.from(base64(s)).toString('hex'),
  'hex of hex': (s) => Buffer.from(Buffer.from(s).toString('hex')).toString('hex'),
  'hex of UTF-16': (s) => Buffer.from(s, 'utf16le').toString('hex'),
  'hex in groups of four digits': (s) => Buffer.from(s).toString('hex').replaceAll(/.{4}/g, '$& '),
  'decimal numbers': (s) => bytes(s).join(', '),
  'decimal numbers of a buffer in JSON': (s) => JSON.stringify({ type: 'Buffer', data: bytes(s) }),
  'base32 of a longer text': (s) => base32(`a ${s}!`),
  'base32 in small letters': (s) => base32(s).toLowerCase(),
  'names of code points in braces': (s) => [...s].map((one) => `\\N{U+${hex(one.codePointAt(0)!, 4)}}`).join(''),
  'calls that make characters of bytes': (s) =>
    bytes(s)
      .map((byte) => `chr(${byte})`)
      .join(' . '),
  'octal escapes with a zero': (s) =>
    bytes(s)
      .map((byte) => `\\0${byte.toString(8).padStart(3, '0')}`)
      .join(''),
  'escapes of style sheets': (s) => [...s].map((one) => `\\${hex(one.codePointAt(0)!)} `).join(''),
};

describe('a known secret is replaced, in a text and in the name of a member, spelt in', () => {
  for (const [name, spell] of Object.entries(spellings)) {
    test(name, () => {
      for (const secret of SECRETS) {
        const written = spell(secret);
        const redactor = new Redactor({ secrets: [{ rule: 'env:S', value: secret }] });
        const { text, members } = redactor.message({ text: written, members: { [written]: 1 } });
        for (const clean of [text, Object.keys(members)[0]!, redactor.text(JSON.stringify({ text: written }))]) {
          assert.match(clean, /\[redacted:(?:env:S|pattern:(?:base64|bytes)):1\]/, written);
          // Only the text around the secret remains.
          assert.ok(clean.replaceAll(/\[redacted:[^\]]*\]/g, '').length <= 72, clean);
        }
      }
    });
  }
});

test('a name of a host has no case, a fullwidth letter is a letter, and pieces in quotes are one word', () => {
  const [secret = ''] = SECRETS;
  const redactor = new Redactor({ secrets: [{ rule: 'env:S', value: secret }] });
  const wide = [...secret].map((one) => String.fromCharCode(one.charCodeAt(0) + 0xfee0)).join('');
  assert.equal(
    redactor.text(`https://${secret.toLowerCase()}.example.org/`),
    'https://[redacted:env:S:1].example.org/',
  );
  assert.equal(redactor.text(`https://${wide}.example.org/`), 'https://[redacted:env:S:1].example.org/');
  assert.doesNotMatch(redactor.text(`x='Zx9QmV'"7rT2pL"8wKd4Yb6Nc3H`), /Zx9|7rT|8wKd/);
  assert.equal(redactor.text(`"${secret.slice(0, 9)}\\\n${secret.slice(9)}"`), '"[redacted:env:S:1]"');
});

test('colours of a terminal, characters without a width and a plus between texts do not hide a secret', () => {
  const [secret = ''] = SECRETS;
  const [start, end] = [secret.slice(0, 9), secret.slice(9)];
  for (const text of [
    `\u001b[01;31m\u001b[K${start}\u001b[m\u001b[K${end}`,
    `\u001b]8;;https://h\u0007${start}\u001b]8;;\u0007${end}`,
    `${start}\u200b${end}`,
    `\ufeff${start}\u00ad${end}`,
    `"${start}" + "${end}"`,
    `'${start}' . '${end}'`,
    `'${start}' || '${end}'`,
    `'${start}' '${end}'`,
    `data: ${start}\ndata: ${end}`,
    [...secret].join('\u034f'),
    [...secret].join('\ufe0f'),
    [...secret].join('\u{e0041}'),
    [...secret].join(' '),
    JSON.stringify([...secret]),
    Buffer.from(secret, 'utf16le').toString('latin1'),
  ]) {
    const redactor = new Redactor({ secrets: [{ rule: 'env:S', value: secret }] });
    assert.doesNotMatch(redactor.text(`a ${text} b`), /Zx9QmV|Kd4Yb6/);
  }
});

test('dumps of bytes are replaced with the column of their text', () => {
  const [secret = ''] = SECRETS;
  const given = `x=${secret}\n`;
  const rows = [0, 16].map((at) => Buffer.from(given).subarray(at, at + 16));
  const pairs = (row: Buffer) => row.toString('hex').match(/../g)!;
  const words = (row: Buffer) => row.toString('hex').match(/.{1,4}/g)!;
  const plain = (row: Buffer) => row.toString().replaceAll('\n', '.');
  for (const line of [
    (row: Buffer, at: number) => `${hex(at, 8)}: ${words(row).join(' ').padEnd(39)}  ${plain(row)}`,
    (row: Buffer, at: number) =>
      `${hex(at, 8)}  ${pairs(row).slice(0, 8).join(' ')}  ${pairs(row).slice(8).join(' ')}  |${plain(row)}|`,
    (row: Buffer, at: number) => `${at.toString(8).padStart(7, '0')} ${pairs(row).join(' ')}`,
    (row: Buffer, at: number) => `${at.toString(8).padStart(7, '0')}   ${[...plain(row)].join('   ')}`,
  ]) {
    const redactor = new Redactor({ secrets: [{ rule: 'env:S', value: secret }] });
    const clean = redactor.text(rows.map((row, index) => line(row, index * 16)).join('\n'));
    assert.match(clean, /\[redacted:env:S/);
    assert.doesNotMatch(clean, /QmV7|516d|51 6d|b6Nc|Q {3}m/, clean);
  }
});

test('a list of bytes with a secret is replaced as a whole, with or without signs; other lists stay', () => {
  for (const secret of SECRETS) {
    const redactor = new Redactor({ secrets: [{ rule: 'env:S', value: secret }] });
    const signed = bytes(`x ${secret}`).map((byte) => (byte > 127 ? byte - 256 : byte));
    for (const data of [bytes(secret), signed, [...gzipSync(secret)]]) {
      assert.match(
        JSON.stringify(redactor.message({ type: 'Buffer', data })),
        /"data":"\[redacted:pattern:bytes:\d\]"/,
      );
    }
    const other = { data: bytes('nothing that is a secret'), sizes: [1, 2, 300, 4, 5, 6, 7, 8, 9] };
    assert.deepEqual(redactor.message(other), other);
  }
});

test('hex and base64 that are cut over two messages are replaced in both', () => {
  const [secret = ''] = SECRETS;
  for (const whole of [Buffer.from(secret).toString('hex'), base64(secret), base64(`x${secret}yz`)]) {
    for (let cut = 10; cut <= whole.length - 10; cut += 1) {
      const redactor = new Redactor({ secrets: [{ rule: 'env:S', value: secret }] });
      const both = redactor.text(`out: ${whole.slice(0, cut)}`) + redactor.text(`${whole.slice(cut)} end`);
      assert.ok(!both.includes(whole.slice(4, cut)) && !both.includes(whole.slice(cut, -4)), both);
    }
  }
});

test('pieces of a stream with few characters are replaced from the sixth character on, of each stream', () => {
  const [secret = ''] = SECRETS;
  const event = (session: string, text: string) => ({
    jsonrpc: '2.0',
    method: 'event',
    params: { type: 'session.stream.chunk', payload: { session_id: session, chunk: { answerText: text } } },
  });
  for (const size of [1, 2, 3, 4, 5, 6, 7, 11]) {
    const redactor = new Redactor({ secrets: [{ rule: 'env:S', value: secret }] });
    const said = `the key is ${secret}, keep it`;
    const heard = { a: '', b: '' };
    for (const piece of said.match(new RegExp(`.{1,${size}}`, 'g'))!) {
      for (const session of ['a', 'b'] as const) {
        heard[session] += redactor.message(event(session, piece)).params.payload.chunk.answerText;
      }
    }
    for (const text of Object.values(heard)) {
      const plain = text.replaceAll(/\[redacted:env:S(?:\.part)?:\d+\]/g, '');
      assert.ok(plain.startsWith('the key is ') && plain.endsWith(', keep it'), text);
      assert.ok(plain.length < said.length - secret.length + 6, text);
    }
  }
});

test('bytes that unpack to too much are replaced, and packed text without a secret stays', () => {
  const redactor = new Redactor({ secrets: [{ rule: 'env:S', value: SECRETS[0]! }] });
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024)).toString('base64');
  assert.equal(redactor.text(`x ${bomb}`), 'x [redacted:pattern:base64:1]');
  for (const packed of [gzipSync('a log without secrets'), brotliCompressSync('a log without secrets, twice')]) {
    assert.equal(redactor.text(packed.toString('base64')), packed.toString('base64'));
  }
});

test('several encodings at one place are undone together', () => {
  const redactor = new Redactor({ secrets: [{ rule: 'env:S', value: SECRETS[0]! }] });
  assert.equal(redactor.text('a=%5ax&#57;QmV7rT2pL8wKd4Yb6Nc3\\u0048.'), 'a=[redacted:env:S:1].');
});

test('an encoded secret that is cut over two messages is replaced, also where an escape is cut at the end', () => {
  const [secret = ''] = SECRETS;
  const whole = percent(secret);
  for (let cut = 18; cut <= whole.length - 18; cut += 1) {
    const redactor = new Redactor({ secrets: [{ rule: 'env:S', value: secret }] });
    const first = redactor.text(`t=${whole.slice(0, cut)}`);
    assert.ok(!first.includes('%5a%78'), first);
    const second = redactor.text(`${whole.slice(cut)}&x`);
    if (cut % 3 === 0) assert.ok(!second.includes('%33%48'), second);
  }
});

test('text that only looks encoded stays as it is', () => {
  const redactor = new Redactor({ secrets: SECRETS.map((value) => ({ rule: 'env:S', value })) });
  for (const text of [
    '100%25 of it',
    'C:\\new\\x41\\table',
    '&amp; &copy; &#65;',
    'a=3D=20\n',
    '%zz%',
    '\\',
    'caf\u00e9 %c3%a9',
    '00:1b:44:11:3a:b7:8c:99',
  ]) {
    assert.equal(redactor.text(text), text);
  }
  assert.deepEqual(new Redactor().redacted, []);
});

test('the decoded texts of a text have a bounded number of times its length', () => {
  const seeds = [
    '%5a',
    '%255a',
    '\\u005a',
    '\\\\',
    '&#90;',
    '%255a\\u005a&#x5a;=5A"\'\n',
    '=5A',
    '\ufdfa%20',
    `a'"`,
    'YWJj\n',
    '5a:',
  ];
  for (const seed of seeds) {
    const text = seed.repeat(Math.ceil(700_000 / seed.length));
    let units = 0;
    let views = 0;
    eachView(text, 24, (view) => {
      units += view.text.length;
      views += 1;
      assert.equal(view.starts.length, view.text.length);
    });
    assert.ok(views <= 3 * MAX_VIEWS, `${views} views of ${seed}`);
    assert.ok(units <= 1.1 * MAX_VIEWS * text.length, `${units} units of ${seed}`);
  }
});
