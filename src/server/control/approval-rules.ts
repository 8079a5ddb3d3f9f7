/**
 * The approval rules of a configuration, checked with their examples: problems are reported with file, line and column. They
 * are checked when a server is assembled, and in `handfast config check`.
 */
import type { HostConfig } from '../../config/config.ts';

/** Fails with `config_invalid` and every rule that cannot be used. */
export async function checkApprovalRules(config: HostConfig): Promise<void> {
  const { rules } = config.control.approvals;
  if (rules.length === 0) return;
  const { ruleErrors } = await import('../../control/approvals/policy-rules.ts');
  const found = ruleErrors(rules).map(({ message, detail }) => {
    const { rule, member = 'when' } = detail as { rule?: number; member?: string };
    const path = ['control.approvals.rules', rule === undefined ? '' : `[${rule}]`, member === '' ? '' : `.${member}`];
    return { path: path.join(''), message };
  });
  if (found.length === 0) return;
  // Rules come from a file, whose reader is loaded by then; a server without one loads none.
  const { configRefusal } = await import('../../config/config.ts');
  throw configRefusal(config, found);
}
