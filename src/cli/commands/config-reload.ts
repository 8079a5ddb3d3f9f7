/** `handfast config reload`: makes a running host read its tokens, roles and grants again. */
import type { Reloaded } from '../../server/serve.ts';
import { type ConnectFlags, findHost, operatorOf } from '../connect/find-host.ts';
import { askOperator } from '../connect/operator.ts';
import { interruptible } from '../interrupt.ts';
import type { Terminal } from '../output/terminal.ts';

/** Fails with `config_invalid` and every problem of the file, `unauthorized`, `not_configured`, and as `findHost` does. */
export async function configReload(flags: ConnectFlags, terminal: Terminal): Promise<void> {
  const found = await findHost(flags);
  const reloaded = await interruptible((signal) => askOperator<Reloaded>(operatorOf(found), '/reload', signal, 'POST'));
  if (terminal.json) return terminal.document(reloaded);
  terminal.line(`reloaded: ${reloaded.principals.join(', ') || 'no named tokens'}`);
  if (reloaded.restart.length > 0)
    terminal.note(`these sections changed too, and need a restart: ${reloaded.restart.join(', ')}`);
}
