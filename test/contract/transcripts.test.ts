/**
 * Every golden transcript over every transport: the same messages from the agent, the same replies from the host, and
 * every reply valid by the published schema.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { root } from '../rules/scan.ts';
import type { Message } from '../support/raw-agent.ts';
import { allTransports, Site } from '../support/sites.ts';
import { replay, transcripts } from '../transcripts/replay.ts';

/** Message type → validator, from the published schemas. */
const published = new Map<string, ValidateFunction>();
before(() => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  for (const file of ['a2e.json', 'tools.json']) {
    const schema = JSON.parse(readFileSync(join(root, 'schema', file), 'utf8'));
    ajv.addSchema(schema, file);
    for (const [name, shape] of Object.entries<Message>(schema.$defs)) {
      const type = shape.properties?.type?.const;
      const validate = ajv.getSchema(`${file}#/$defs/${name}`);
      if (typeof type === 'string' && validate !== undefined) published.set(type, validate);
    }
  }
});

const all = transcripts('a2e');

for (const name of allTransports) {
  describe(`transcripts over ${name}`, () => {
    const site = new Site(name);
    after(() => site.stop());

    for (const transcript of all) {
      test(`${transcript.name}: ${transcript.title}`, async () => {
        const peer = await site.dial(transcript.host);
        for (const message of await replay(transcript, peer)) {
          const validate = published.get(message.type);
          assert.ok(validate !== undefined, `${message.type} has no published schema`);
          assert.ok(validate(message), `${message.type}: ${JSON.stringify(validate.errors)}`);
        }
        peer.cut();
      });
    }
  });
}
