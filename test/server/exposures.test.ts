/**
 * Exposures for operators: the principals who may run programs that nothing covers, by the shell, by rules of `proc` of the
 * host or of a grant.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadConfig } from '../../src/config/config.ts';
import { exposingPrincipals } from '../../src/server/exposures.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

test('principals that may run programs are named where nothing covers protected paths, and no others', async (t) => {
  const cwd = temporaryFolder(t);
  const token = (name: string, grants: string): string =>
    `    - { name: ${name}, token: token-of-${name}-0123456789, ${grants} }`;
  const named = async (programs: string): Promise<string[]> => {
    const tokens = [
      token('admin', 'admin: true'),
      token('none', 'capabilities: [tools, memory]'),
      token('sheller', 'tools: { allow: [shell] }'),
      token('starter', 'capabilities: [proc]'),
      token('granted', 'grants: { proc: { programs: ["npm test"] } }'),
      token('empty', 'grants: { proc: { programs: [] } }'),
    ];
    const plugins = `plugins:\n  - tools\n  - use: proc\n    options: { programs: [${programs}] }`;
    writeFileSync(join(cwd, 'handfast.yaml'), `auth:\n  tokens:\n${tokens.join('\n')}\n${plugins}\n`);
    const config = await loadConfig('handfast.yaml', { env: { HANDFAST_HOME: join(cwd, 'home') }, cwd });
    assert.deepEqual(await exposingPrincipals(config, () => true), []);
    return (await exposingPrincipals(config, () => false)).map((line) => line.split(' ')[0] as string);
  };
  assert.deepEqual(await named(''), ['sheller', 'granted']);
  assert.deepEqual(await named('ls'), ['sheller', 'starter', 'granted']);
});
