/** The check of `handfast doctor` for the tier that the configuration names: it tries the sandbox. */
import type { CapabilityFinding } from '../../packages/capability.ts';
import { type SandboxChoice, sandboxOf } from './sandbox/choose.ts';

export async function checkTier(
  options: SandboxChoice,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<CapabilityFinding[]> {
  const { tier = 'quickjs' } = options;
  const sandbox = sandboxOf({ ...options, warm: 0 }, env);
  try {
    const { network } = await sandbox.probe();
    return [{ status: 'ok', message: `the code of skills runs in ${tier}; network ${network}` }];
  } catch (error) {
    const { message } = error as Error;
    const said = `skills with code do not run: ${tier}: ${message}`;
    // A configuration without a tier requires none: skills that are prompts work.
    if (options.tier === undefined) return [{ status: 'ok', message: `skills that are prompts; ${said}` }];
    return [{ status: 'fail', message: said, fix: 'choose another `tier`, or make it work' }];
  } finally {
    await sandbox.close();
  }
}
