/**
 * The list of all generated files in the tree: `scripts/generate.ts` walks it.
 *
 * A generator returns the files it owns and touches nothing itself, so that writing them and checking that they are
 * fresh are the same code path. Add a generator by appending it to {@link generators}.
 */
import { dirname } from 'node:path';
import { apiPage } from './generate-api.ts';
import { approvalsPage } from './generate-approvals.ts';
import { generateCli } from './generate-cli.ts';
import { generateConfig } from './generate-config.ts';
import { configurationPage } from './generate-configuration.ts';
import { errorsPage } from './generate-errors.ts';
import { fleetMembers, fleetPage, fleetSchema } from './generate-fleet.ts';
import { securityPage } from './generate-limits.ts';
import { protocolPage } from './generate-protocol.ts';
import { generateSessionRpc } from './generate-session-rpc.ts';
import { generateValidators } from './generate-validators.ts';

/** The root of the repository. */
export const root = dirname(import.meta.dirname);

/** Path from the root of the repository → whole text. */
export type GeneratedFiles = ReadonlyMap<string, string>;

export interface Generator {
  /** Subject of the generator in progress lines. */
  readonly name: string;
  /** Returns the files in their correct form. Same sources, same texts: no time, no randomness, no absolute path in them. */
  generate(): GeneratedFiles | Promise<GeneratedFiles>;
}

export const generators: readonly Generator[] = [
  { name: 'error reference', generate: () => new Map([['docs/errors.md', errorsPage()]]) },
  { name: 'validators and JSON Schema', generate: generateValidators },
  { name: 'configuration files', generate: generateConfig },
  { name: 'configuration reference', generate: () => new Map([['docs/configuration.md', configurationPage()]]) },
  { name: 'command line', generate: generateCli },
  { name: 'approval tables', generate: () => new Map([['docs/security/approvals.md', approvalsPage(root)]]) },
  { name: 'limits table', generate: () => new Map([['SECURITY.md', securityPage(root)]]) },
  { name: 'session RPC methods', generate: () => generateSessionRpc(root) },
  { name: 'message tables', generate: () => new Map([['docs/protocol/a2e.md', protocolPage(root)]]) },
  {
    name: 'fleet messages',
    generate: () =>
      new Map([
        ['docs/protocol/fleet.md', fleetPage(root)],
        ['schema/fleet.json', fleetSchema()],
        ['src/protocol/fleet.generated.ts', fleetMembers()],
      ]),
  },
  // Last: it compiles the sources, those that are generated included.
  { name: 'public interface', generate: () => new Map([['api.md', apiPage(root)]]) },
];
