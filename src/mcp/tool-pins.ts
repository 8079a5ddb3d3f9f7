/**
 * Decides which definitions of a server's tools may be called: those it had when it was first listed, and those
 * accepted since. A server whose tools change behind a user's back could turn an accepted tool into another one.
 *
 * The caller that creates the server stores the digests, else they last as long as the server.
 */
import { digestOfJson } from '../base/canonical-json.ts';
import type { McpTool } from './definition.ts';

/** Digest of each accepted definition by the name of its tool. */
export type Pins = Readonly<Record<string, string>>;

/** The store for the digests of a server. */
export interface PinStore {
  /** Reads the digests; undefined if the server was never listed. */
  read(): Promise<Pins | undefined>;
  write(pins: Pins): Promise<void>;
}

/** `new`: its name is not one that was accepted, be it a known definition under another name. */
export type PinState = 'accepted' | 'changed' | 'new';

export interface PinnedTool extends McpTool {
  readonly digest: string;
  readonly pin: PinState;
}

/** Digests in memory. */
export function memoryPins(): PinStore {
  let pins: Pins | undefined;
  return {
    read: async () => pins,
    async write(changed) {
      pins = changed;
    },
  };
}

/** Returns the tools with the state of their definitions. All tools of a server that was never listed are accepted. */
export async function pinned(tools: readonly McpTool[], store: PinStore): Promise<readonly PinnedTool[]> {
  const listed = tools.map((tool) => ({ ...tool, digest: digestOf(tool) }));
  let pins = await store.read();
  if (pins === undefined) {
    pins = Object.fromEntries(listed.map(({ name, digest }) => [name, digest]));
    await store.write(pins);
  }
  return listed.map((tool) => ({ ...tool, pin: stateOf(tool, pins) }));
}

/** Accepts the present definitions: those named, or all. Accepted tools that are not listed now stay accepted. */
export async function acceptTools(
  tools: readonly PinnedTool[],
  store: PinStore,
  names: readonly string[] = tools.map(({ name }) => name),
): Promise<readonly PinnedTool[]> {
  const accepted = tools.filter(({ name }) => names.includes(name)).map(({ name, digest }) => [name, digest]);
  const pins: Pins = { ...(await store.read()), ...Object.fromEntries(accepted) };
  await store.write(pins);
  return tools.map((tool) => ({ ...tool, pin: stateOf(tool, pins) }));
}

function stateOf({ name, digest }: { readonly name: string; readonly digest: string }, pins: Pins): PinState {
  if (!Object.hasOwn(pins, name)) return 'new';
  return pins[name] === digest ? 'accepted' : 'changed';
}

/** Returns the digest of the members by which a model or a user decides: not, for example, icons. */
const digestOf = ({ name, title, description, inputSchema, outputSchema, annotations }: McpTool): string =>
  digestOfJson({ name, title, description, inputSchema, outputSchema, annotations });
