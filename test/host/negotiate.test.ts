import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type CapabilityOffer, negotiate } from '../../src/host/negotiate.ts';
import { type CapabilityName, capabilityNames, capabilityOf } from '../../src/protocol/a2e.ts';
import { may as mayDo } from '../../src/session/rights.ts';
import fc from '../support/properties.ts';

const aliases = { skills: 'skill', learn: 'learning', procs: 'proc', subagents: 'multi_agent', chain: 'chains' };

/** Names as agents may send them: standard ones, aliases, feature flags of old clients, and anything at all. */
const asked = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...capabilityNames) },
    { weight: 2, arbitrary: fc.constantFrom(...Object.keys(aliases)) },
    {
      weight: 1,
      arbitrary: fc.constantFrom('streaming', '__proto__', 'constructor', 'toString', '', 'Tools', 'tools '),
    },
    { weight: 1, arbitrary: fc.string() },
  ),
  { maxLength: 30 },
);

const offer = (name: CapabilityName): fc.Arbitrary<[string, CapabilityOffer]> =>
  fc
    .record({ name: fc.string(), priority: fc.integer(), exclusive: fc.boolean(), tier: fc.string() })
    .map((facts) => [name, { ...facts, type: name }]);

const available = fc
  .subarray([...capabilityNames])
  .chain((names) => fc.tuple(...names.map(offer)))
  .map((entries) => new Map(entries));

const allowed = fc.option(
  fc.array(
    fc.oneof(
      fc.constantFrom(...capabilityNames),
      fc.constantFrom(...Object.keys(aliases)),
      fc.string().filter((name) => name !== '*'),
    ),
  ),
  { nil: undefined },
);

const mayUse = (capabilities: string[] | undefined, name: string): boolean =>
  mayDo({ name: 'one', admin: true, ...(capabilities && { capabilities }) }, 'use', name);

/** Returns the result of the rules, written a second time: standard names requested, each once, in the requested order. */
function wanted(names: readonly string[]): CapabilityName[] {
  return [...new Set(names.map(capabilityOf).filter((name) => name !== undefined))];
}

describe('negotiation, for any requests, plugins and rights', () => {
  const holds = (
    property: (names: string[], loaded: Map<string, CapabilityOffer>, may: string[] | undefined) => void,
  ) => fc.assert(fc.property(asked, available, allowed, property), { numRuns: 500 });

  test('grants exactly what was asked for, is loaded, and is allowed', () =>
    holds((names, loaded, may) => {
      const { granted } = negotiate(names, {
        available: loaded,
        mayUse: (name) => mayUse(may, name),
      });
      const permitted = may?.map(capabilityOf);
      const expected = wanted(names).filter(
        (name) => loaded.has(name) && (permitted === undefined || permitted.includes(name)),
      );
      assert.deepEqual([...granted], expected);
    }));

  test('answers each standard name asked for once, in the order asked, and no other name ever', () =>
    holds((names, loaded, may) => {
      const { accepted } = negotiate(names, {
        available: loaded,
        mayUse: (name) => mayUse(may, name),
      });
      assert.deepEqual(
        accepted.map(({ capability }) => capability),
        wanted(names),
      );
      for (const { capability } of accepted) assert.ok((capabilityNames as readonly string[]).includes(capability));
    }));

  test('tells the facts of the plugin for what is granted, and the one true reason for what is not', () =>
    holds((names, loaded, may) => {
      const { accepted, granted } = negotiate(names, {
        available: loaded,
        mayUse: (name) => mayUse(may, name),
      });
      for (const { capability, enabled, metadata } of accepted) {
        assert.equal(enabled, granted.has(capability as CapabilityName));
        if (enabled) assert.deepEqual(metadata, loaded.get(capability));
        else {
          const reason = loaded.has(capability) ? 'not allowed for this principal' : 'no plugin loaded';
          assert.deepEqual(metadata, { reason });
        }
      }
    }));

  test('refuses with no_caps exactly when standard names were asked for and none is granted', () =>
    holds((names, loaded, may) => {
      const { refused, granted } = negotiate(names, {
        available: loaded,
        mayUse: (name) => mayUse(may, name),
      });
      assert.equal(refused, wanted(names).length > 0 && granted.size === 0 ? 'no_caps' : undefined);
    }));

  test('is pure: the same question has the same answer, and nothing given in is changed or shared', () =>
    holds((names, loaded, may) => {
      const before = JSON.stringify([names, [...loaded], may]);
      const first = negotiate(names, { available: loaded, mayUse: (name) => mayUse(may, name) });
      assert.deepEqual(negotiate(names, { available: loaded, mayUse: (name) => mayUse(may, name) }), first);
      for (const { metadata } of first.accepted) Object.assign(metadata ?? {}, { changed: true });
      assert.equal(JSON.stringify([names, [...loaded], may]), before);
    }));
});

test('every alias stands for its standard name', () => {
  for (const [alias, name] of Object.entries(aliases)) assert.equal(capabilityOf(alias), name);
  for (const name of capabilityNames) assert.equal(capabilityOf(name), name);
  for (const other of ['__proto__', 'constructor', 'hasOwnProperty', '']) assert.equal(capabilityOf(other), undefined);
});
