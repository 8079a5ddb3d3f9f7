/** Names of tools of MCP servers: two tools never have one name, and a name identifies its server and tool. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mcpToolName, toolOfName } from '../../../src/capabilities/mcp/tool-name.ts';
import fc from '../../support/properties.ts';

const NAMES: readonly (readonly [server: string, tool: string, name: string])[] = [
  ['everything', 'get-sum', 'everything__get-sum'],
  ['a', 'dotted.name', 'a__dotted.name'],
  ['a', 'b__c', 'a__b__c'],
  ['a__b', 'c', 'a__b__.-.c'],
  ['a', '_plain', 'a___plain'],
  ['a_', 'plain', 'a___.-.plain'],
  ['a', 'get/user', 'a__get.-2f.user'],
  ['a', 'get user', 'a__get.-20.user'],
  ['a', 'get_user', 'a__get_user'],
  ['a', 'näme 1', 'a__n.-e4.me.-20.1'],
  ['a', '.-2f.', 'a__.-2e.-2f.'],
  ['a', '__.-.c', 'a____.-2e.-.c'],
  ['a', '__proto__', 'a____proto__'],
];

for (const [server, tool, name] of NAMES) {
  test(`the tool ${JSON.stringify(tool)} of ${server} is ${name}`, () => {
    assert.equal(mcpToolName({ server, tool }), name);
    assert.deepEqual(toolOfName(name), { server, tool });
  });
}

test('a name that no tool has names no server', () => {
  for (const name of ['', 'read_file', 'a__.-61.', 'a__.-.b', 'a__.-110000.', 'a__get/user']) {
    assert.equal(toolOfName(name), undefined, name);
  }
});

const server = fc.stringMatching(/^[A-Za-z0-9][ab_-]{0,6}$/);
const tool = fc.oneof(
  fc.string({ unit: fc.constantFrom('a', '_', '.', '-', '2', 'e', '/', ' ', 'ä', '😀', '\ud83d') }),
  fc.string({ unit: 'binary' }),
);

test('each pair of a server and a tool has a unique name of valid characters', () => {
  fc.assert(
    fc.property(server, tool, server, tool, (one, own, other, its) => {
      const name = mcpToolName({ server: one, tool: own });
      assert.match(name, /^[\w.-]+$/);
      assert.deepEqual(toolOfName(name), { server: one, tool: own });
      if (one !== other || own !== its) assert.notEqual(name, mcpToolName({ server: other, tool: its }));
    }),
    { numRuns: 2_000 },
  );
});
