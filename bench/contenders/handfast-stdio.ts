/**
 * `handfast-stdio`: the shipped command as a parent process starts it, `handfast stdio` with a plugin of the user and
 * all defaults, the audit among them. `handfast-stdio-noaudit` is the same without the audit.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { built } from './built.ts';
import { type Contender, childFile } from './contender.ts';
import { contender as library } from './handfast.ts';

/** Runs the command in this process, on this process's pipes. */
async function serveCommand(audit: boolean): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  process.env.HANDFAST_HOME = join(folder, 'home');
  const file = join(folder, 'handfast.yaml');
  const settings = [
    'plugins:',
    `  - use: ${childFile('echo-plugin.mjs')}`,
    'limits:',
    '  max_parallel: 64',
    ...(audit ? [] : ['audit:', '  enabled: false']),
  ];
  writeFileSync(file, `${settings.join('\n')}\n`);
  const { run } = await built<typeof import('../../src/cli/stdio/stdio.ts')>('cli/stdio/stdio');
  void run(['--config', file]).then((code) => process.exit(code));
}

const command = (name: string, audit: boolean): Contender => ({
  name,
  transports: ['stdio'],
  serve: async () => {
    await serveCommand(audit);
    return {};
  },
  connect: library.connect,
});

export const contender: Contender = command('handfast-stdio', true);

export const withoutAudit: Contender = command('handfast-stdio-noaudit', false);
