/** A host with the learning capability, and agents of it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { type LearningOptions, learningPlugin } from '../../../src/capabilities/learning/plugin.ts';
import { connect } from '../../../src/connect.ts';
import { createHost, type Host } from '../../../src/host/host.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import type { Principal } from '../../../src/session/principal.ts';

const hosts: Host[] = [];
const folders: string[] = [];
after(async () => {
  await Promise.all(hosts.map((one) => one.close(0)));
  for (const folder of folders) rmSync(folder, { recursive: true });
});

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-learning-'));
  folders.push(folder);
  return folder;
}

/** Starts a host; principals by name, whose token is their name. */
export async function startHost(
  options: LearningOptions = {},
  principals: readonly Principal[] = [{ name: 'p', admin: true }],
): Promise<Host> {
  const auth = createAuthenticator(
    principals.map((principal) => ({ principal, digests: [tokenDigest(principal.name)] })),
  );
  const host = createHost({ plugins: [learningPlugin(options)], auth });
  await host.start();
  hosts.push(host);
  return host;
}

export const agentOf = (host: Host, agentId = 'tester', token = 'p') =>
  connect(host, { capabilities: ['learning'], token, agentId });
