/**
 * Notifies agents that the offer or the lists of a capability changed, by the extension handfast/capabilities.
 *
 * Plugins announce changes; rights and losses of stored data can change too.
 */
import { capabilitiesChanged, EXTENSION_CAPABILITIES } from '../protocol/a2e.ts';
import type { Principal } from '../session/principal.ts';
import type { Session } from '../session/session.ts';
import type { PluginRuntime } from './plugin-runtime.ts';
import { offerOf } from './routes.ts';

/** Returns true if the agent of a session agreed to be notified. */
export const hearsChanges = ({ terms }: Pick<Session, 'terms'>): boolean =>
  terms.extensions.has(EXTENSION_CAPABILITIES);

/**
 * Notifies the agents of those sessions that were granted the capability of `plugins`, and whose principal the change
 * concerns.
 */
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
