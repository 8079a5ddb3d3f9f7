/**
 * `handfast config check`: checks the configuration, and shows its effect and the rights of its principals. It starts no
 * program, for the file may not be trusted.
 */
import { isCoverInstalled } from '../../base/workspace/path-cover.ts';
import { formatProblem } from '../../config/config.ts';
import { checkApprovalRules } from '../../server/control/approval-rules.ts';
import { exposedPaths, exposingPrincipals } from '../../server/exposures.ts';
import { checkGrants } from '../../server/grant-check.ts';
import { configOf } from '../config-file.ts';
import type { Terminal } from '../output/terminal.ts';
import { grantLines, principalNamed, principalsOf, printPrincipals, sessionsAtOnce } from './principals.ts';

/**
 * Reads a file that is not trusted, too: nothing in it is acted upon. Fails with `config_invalid` and every problem; prints
 * warnings and the most important settings.
 */
export async function configCheck(
  file: string | undefined,
  { as }: { readonly as?: string },
  terminal: Terminal,
): Promise<void> {
  const config = await configOf(file, { unchecked: true });
  await checkApprovalRules(config);
  await checkGrants(config);
  const { listen, workspace, plugins, warnings } = config;
  const exposed = [...exposedPaths(config), ...(await exposingPrincipals(config, isCoverInstalled))];
  if (terminal.json) {
    const uses = plugins.map(({ use }) => use);
    const principals = as === undefined ? principalsOf(config) : [principalNamed(config, as)];
    return terminal.document({
      ok: true,
      file: config.file ?? null,
      listen,
      workspace,
      plugins: uses,
      warnings,
      exposed,
      principals: principals.map((one) => ({
        name: one.name,
        grants: Object.fromEntries(grantLines(one)),
        sessions_at_once: sessionsAtOnce(one, config) ?? null,
      })),
    });
  }
  for (const warning of [...warnings.map(formatProblem), ...exposed]) terminal.note(`warning: ${warning}`);
  terminal.line(`${config.file ?? 'no file: the defaults'}: fine`);
  terminal.line(`  listen     ${listen.join(', ')}`);
  terminal.line(`  workspace  ${workspace}`);
  terminal.line(`  plugins    ${plugins.map(({ use }) => use).join(', ') || 'none'}`);
  terminal.line();
  printPrincipals(config, as, terminal);
}
