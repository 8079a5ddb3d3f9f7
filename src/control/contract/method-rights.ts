/**
 * The right that each method of session RPC requires, for every method of the specification; methods of other parts name their
 * right beside their handler.
 *
 * @see docs/security/rights.md
 */
import { openMethods, readingMethods } from '../../protocol/session-rpc.ts';
import type { Action } from '../../session/rights.ts';
import { fail } from '../../wire/errors.ts';

/** An action that can be asked for without its object: any session at all, the settings, the fleet. */
export type GeneralAction = Exclude<Action, 'use' | 'call' | 'backend' | 'provider' | 'mcp_server' | 'folder' | 'work'>;

/** `none`: every principal that may connect. */
export type Right = GeneralAction | 'none';

const methods: { readonly [Name in Right]?: readonly string[] } = {
  none: openMethods,
  read: readingMethods,
  drive: [
    'session.create',
    'session.send',
    'session.steer',
    'session.interrupt',
    'session.queue.clear',
    'session.queue.remove',
    'session.load',
    'session.resume',
    'session.fork',
    'session.import',
    'session.close',
    'session.delete',
    'session.rename',
    'editor.next',
    'editor.reply',
    'session.configure',
    'history.clear_session',
    'command.execute',
    'model.select',
  ],
  approve: ['approval.answer'],
  settings: [
    'auth.set.openrouter_key',
    'auth.set.exa_key',
    'auth.set.api_key',
    'auth.connect.openai',
    'auth.connect.antigravity',
    'auth.cancel',
    'auth.logout',
    'onboarding.complete',
  ],
  administer: ['system.shutdown'],
};

const rights = new Map(
  Object.entries(methods).flatMap(([right, names]) => names.map((name) => [name, right as Right])),
);

/** Returns the right of a method. Throws `runtime_error` for one that is in no list: nothing is open by omission. */
export function rightOf(method: string): Right {
  const right = rights.get(method);
  if (right === undefined) throw fail('runtime_error', `no right is named for the method ${method}`);
  return right;
}
