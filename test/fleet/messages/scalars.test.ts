/**
 * The scalar classes of the fleet protocol: names, ids and timestamps.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatTimestamp, parseTimestamp } from '../../../src/base/timestamp.ts';
import { canonicalName, isAgentId, isBlank, isId, isName } from '../../../src/fleet/messages/names.ts';
import fc from '../../support/properties.ts';

const invisible = [
  '\u0000',
  '\n',
  '\u007f',
  '\u0085',
  '\u200b',
  '\u200e',
  '\u2028',
  '\u202e',
  '\u2066',
  '\ufeff',
  '\u061c',
];

describe('a name', () => {
  test('is compared trimmed, in small ASCII letters, with - and space as _', () => {
    for (const spelling of ['context_mode', 'context-mode', 'Context Mode', ' CONTEXT_MODE ', 'Context-mode']) {
      assert.equal(canonicalName(spelling), 'context_mode');
    }
    assert.equal(canonicalName('İstanbul-É'), 'İstanbul_É', 'only ASCII letters are made small');
    assert.equal(canonicalName('a.b_c9'), 'a.b_c9');
  });

  test('in canonical form stays as it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const once = canonicalName(text);
        // An inner blank that becomes `_` can no longer be trimmed away, so the second time changes nothing.
        assert.equal(canonicalName(once), once);
      }),
    );
  });

  test('has 1 to 128 code points and nothing that cannot be seen', () => {
    assert.ok(isName('x'.repeat(128)) && isName('😀'.repeat(128)) && isName(` ${'x'.repeat(128)} `));
    assert.ok(!isName('x'.repeat(129)) && !isName('😀'.repeat(129)) && !isName('') && !isName('   '));
    for (const character of invisible) assert.ok(!isName(`a${character}b`), JSON.stringify(character));
    assert.ok(!isName('\ud800') && isName('größe'));
  });
});

describe('an id', () => {
  test('has 1 to 256 code points, no blank at either end and nothing that cannot be seen', () => {
    assert.ok(isId('t-1') && isId('a b') && isId('handshake:hermes-switch') && isId('задача 7'));
    assert.ok(isId('x'.repeat(256)) && isId('😀'.repeat(256)) && isId(`${'x'.repeat(255)}😀`));
    assert.ok(!isId('x'.repeat(257)) && !isId('😀'.repeat(257)) && !isId(''));
    for (const text of [' a', 'a ', '\u00a0a', 'a\u3000', '\ud800', 'a\udc00b']) assert.ok(!isId(text), text);
    for (const character of invisible) assert.ok(!isId(`a${character}b`), JSON.stringify(character));
  });

  test('of an agent can stand in a subject, a file name and a log', () => {
    assert.ok(isAgentId('claude-code') && isAgentId('a') && isAgentId('0.a_b:c@d-e') && isAgentId('a'.repeat(128)));
    for (const text of ['', '-a', '.a', 'a b', 'a/b', 'a*', 'é', 'a\n', 'a'.repeat(129)])
      assert.ok(!isAgentId(text), text);
  });
});

test('a text is blank when there is nothing to see in it', () => {
  for (const text of ['', ' ', '\n\t', '\u00a0\u2003\u3000', '\u0085', '\u200b\u2060', '\ufeff'])
    assert.ok(isBlank(text));
  for (const text of ['.', ' x ', '\u00a0é']) assert.ok(!isBlank(text));
});

describe('a timestamp', () => {
  const read = (text: string): string | undefined => {
    const time = parseTimestamp(text);
    return time === undefined ? undefined : formatTimestamp(time);
  };

  test('is RFC 3339 with an offset, read as UTC with milliseconds', () => {
    const rows: Readonly<Record<string, string>> = {
      '2026-06-01T12:00:00Z': '2026-06-01T12:00:00.000Z',
      '2026-06-01t12:00:00z': '2026-06-01T12:00:00.000Z',
      '2026-06-01T23:30:00.250+05:30': '2026-06-01T18:00:00.250Z',
      '2026-06-01T12:00:00-00:00': '2026-06-01T12:00:00.000Z',
      '2026-06-01T00:30:00+23:59': '2026-05-31T00:31:00.000Z',
      '2026-06-01T12:00:00.1Z': '2026-06-01T12:00:00.100Z',
      '2026-06-01T12:00:00.99999999999999999999Z': '2026-06-01T12:00:00.999Z',
      '2016-12-31T23:59:60Z': '2017-01-01T00:00:00.000Z',
      '2016-12-31T23:59:60.5Z': '2017-01-01T00:00:00.500Z',
      '2024-02-29T00:00:00Z': '2024-02-29T00:00:00.000Z',
      '2000-02-29T00:00:00Z': '2000-02-29T00:00:00.000Z',
      '0000-01-01T00:00:00Z': '0000-01-01T00:00:00.000Z',
      '0099-01-01T00:00:00Z': '0099-01-01T00:00:00.000Z',
      '1969-12-31T23:59:59.999Z': '1969-12-31T23:59:59.999Z',
      '9999-12-31T23:59:59.999Z': '9999-12-31T23:59:59.999Z',
    };
    for (const [text, expected] of Object.entries(rows)) assert.equal(read(text), expected, text);
  });

  test('of another form, or of a day that does not exist, is none', () => {
    const wrong = [
      '',
      'tomorrow',
      '2026-06-01',
      '2026-06-01T12:00:00',
      '2026-06-01 12:00:00Z',
      '2026-06-01T12:00Z',
      '2026-06-01T12:00:00.Z',
      '2026-06-01T12:00:00,5Z',
      '2026-06-01T12:00:00+0530',
      '2026-06-01T12:00:00+24:00',
      '2026-06-01T12:00:00+05:60',
      '2026-06-01T24:00:00Z',
      '2026-06-01T12:60:00Z',
      '2026-06-01T12:00:61Z',
      '2026-02-30T00:00:00Z',
      '2025-02-29T00:00:00Z',
      '1900-02-29T00:00:00Z',
      '2026-00-01T00:00:00Z',
      '2026-13-01T00:00:00Z',
      '2026-06-00T00:00:00Z',
      '2026-06-31T00:00:00Z',
      '+002026-06-01T00:00:00Z',
      '26-06-01T00:00:00Z',
      ' 2026-06-01T00:00:00Z',
      '2026-06-01T00:00:00Z\n',
      '٢٠٢٦-06-01T00:00:00Z',
      '２026-06-01T00:00:00Z',
      '0000-01-01T00:00:00+00:01',
      '9999-12-31T23:59:59-00:01',
      '9999-12-31T23:59:60Z',
    ];
    for (const text of wrong) assert.equal(read(text), undefined, text);
  });

  test('is the moment Date.parse means, wherever both know one', () => {
    const noInvalid = { noInvalidDate: true, min: new Date('0001-01-01'), max: new Date('9998-12-31') };
    fc.assert(
      fc.property(fc.date(noInvalid), fc.integer({ min: -1439, max: 1439 }), (date, offset) => {
        const local = new Date(date.getTime() + offset * 60_000).toISOString().slice(0, -1);
        const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
        const two = (number: number) => String(number).padStart(2, '0');
        const text = `${local}${offset < 0 ? '-' : '+'}${two(hours)}:${two(minutes)}`;
        assert.equal(parseTimestamp(text), date.getTime(), text);
        assert.equal(Date.parse(text), date.getTime(), text);
      }),
    );
  });
});
