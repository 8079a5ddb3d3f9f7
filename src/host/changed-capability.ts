/**
 * Notifies agents that the offer or the lists of a capability changed, by the extension handfast/capabilities.
 *
 * Called by `host.ts` for plugins, and when rights or losses of stored data change.
 */
import { capabilitiesChanged, EXTENSION_CAPABILITIES } from '../protocol/a2e.ts';
import type { Principal } from '../session/principal.ts';
import type { Session } from '../session/session.ts';
import type { PluginRuntime } from './plugin-runtime.ts';
import { offerOf } from './routes.ts';

/** True where the agent of a session agreed to be notified. */
export const hearsChanges = ({ terms }: Pick<Session, 'terms'>): boolean =>
  terms.extensions.has(EXTENSION_CAPABILITIES);

/** Notifies those of some sessions that were granted the capability which `plugins` serve, and whose principal it concerns. */
export function notifyChanged(
  capability: string,
  plugins: readonly PluginRuntime[],
  sessions: Iterable<Session | undefined>,
  concerns: (principal: Principal) => boolean = () => true,
): void {
  for (const session of sessions) {
    if (session?.granted(capability) !== true || !hearsChanges(session) || !concerns(session.principal)) continue;
    const metadata = offerOf(plugins, { principal: session.principal, session });
    session.push(capabilitiesChanged, { capability, enabled: metadata !== undefined, metadata: metadata ?? {} });
  }
}
