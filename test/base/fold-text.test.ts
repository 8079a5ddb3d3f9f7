/** Texts fold as Unicode folds them: full case folding, marks of all scripts, ignorable characters. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { folded } from '../../src/base/fold-text.ts';

test('texts that Unicode holds for one have one folded form', () => {
  for (const [one, other] of [
    ['Straße', 'STRASSE'],
    ['GROẞ', 'gross'],
    ['ΟΔΟΣ', 'οδος'],
    ['Σίσυφος', 'ΣΙΣΥΦΟΣ'],
    ['ᾳ', 'ΑΙ'],
    ['İstanbul', 'istanbul'],
    ['ﬁne', 'FINE'],
    ['ŉ', 'ʼN'],
    ['և', 'ԵՒ'],
    ['ꭰ', 'Ꭰ'],
    ['ა', 'Ა'],
    ['ᲀ', 'В'],
    ['ǅ', 'ǆ'],
    ['e\u0301', 'É'],
    ['ａｂｃ', 'ABC'],
    ['кафе\u0301', 'КАФЕ'],
    ['مُحَمَّد', 'محمد'],
    ['محـــمد', 'محمد'],
    ['שָׁלוֹם', 'שלום'],
    ['ไม้', 'ไม'],
    ['ज़', 'ज'],
    ['a\u20d7', 'a'],
    ['a\u1dc4', 'a'],
    ['می\u200cخواهم', 'میخواهم'],
    ['co\u00adop', 'COOP'],
    ['\ufeffa\u2060b', 'ab'],
    ['❤️', '❤'],
  ] as const) {
    assert.equal(folded(one), folded(other), `${one} and ${other}`);
  }
});

test('other words stay other words', () => {
  for (const [one, other] of [
    ['हिन्दी', 'हनद'],
    ['กา', 'กิ'],
    ['か', 'が'],
    ['ısı', 'isi'],
    ['a b', 'ab'],
    ['straße', 'strase'],
  ] as const) {
    assert.notEqual(folded(one), folded(other), `${one} and ${other}`);
  }
});

test('the case of no character counts, and folding again changes nothing', () => {
  for (let code = 0; code < 0x1e960; code += 1) {
    if ((code >= 0xd800 && code < 0xe000) || code === 0x131) continue;
    const character = String.fromCodePoint(code);
    const form = folded(character);
    assert.equal(folded(character.toLowerCase()), form, `lower case of ${code.toString(16)}`);
    assert.equal(folded(character.toUpperCase()), form, `upper case of ${code.toString(16)}`);
    assert.equal(folded(form), form, code.toString(16));
  }
});
