/** `handfast config check`: is the configuration right, and what does it amount to? */
import { formatProblem } from '../../config/config.ts';
import { checkApprovalRules } from '../../server/control/approval-rules.ts';
import { exposedPaths, exposingPrincipals } from '../../server/exposures.ts';
import { configOf } from '../config-file.ts';
import type { Terminal } from '../output/terminal.ts';

/** Reads a file that is not trusted, too: nothing in it is acted upon. Fails with `config_invalid` and every problem; prints warnings and the most important settings. */
export async function configCheck(file: string | undefined, terminal: Terminal): Promise<void> {
  const config = await configOf(file, { unchecked: true });
  await checkApprovalRules(config);
  const { listen, workspace, plugins, warnings } = config;
  const exposed = [...exposedPaths(config), ...(await exposingPrincipals(config))];
  if (terminal.json) {
    const uses = plugins.map(({ use }) => use);
    return terminal.document({
      ok: true,
      file: config.file ?? null,
      listen,
      workspace,
      plugins: uses,
      warnings,
      exposed,
    });
  }
  for (const warning of [...warnings.map(formatProblem), ...exposed]) terminal.note(`warning: ${warning}`);
  terminal.line(`${config.file ?? 'no file: the defaults'}: fine`);
  terminal.line(`  listen     ${listen.join(', ')}`);
  terminal.line(`  workspace  ${workspace}`);
  terminal.line(`  plugins    ${plugins.map(({ use }) => use).join(', ') || 'none'}`);
}
