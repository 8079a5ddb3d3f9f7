/**
 * What a host holds for one of its plugins while it runs: its store, its data folder, the checked grants of principals.
 * The plugin gets it as `PluginContext` at `start`; the context of each request asks it.
 *
 * Made by `host.ts`, one per plugin.
 */

import { JsonSchemas, type SchemaChecker } from '../base/json-schema.ts';
import type { Log } from '../base/log.ts';
import type { Principal, SessionView } from '../session/principal.ts';
import { grantOf } from '../session/rights.ts';
import { asError, fail } from '../wire/errors.ts';
import type { Plugin, PluginContext } from './plugin.ts';
import type { PluginStore, StateDatabase } from './store/store.ts';

/** What the plugins of one host share. */
export interface RuntimeDeps {
  readonly hostId: string;
  readonly workspace: string;
  readonly log: Log;
  /** Folder below which each plugin has one of its own; undefined: one in the temporary folder, removed at the end. */
  readonly dataDir: string | undefined;
  /** Notifies the agents that a capability changed. */
  changed(capability: string, session: SessionView | undefined): void;
}

export class PluginRuntime implements PluginContext {
  readonly plugin: Plugin;
  readonly #deps: RuntimeDeps;
  #store: PluginStore | undefined;
  #checkGrant: SchemaChecker | undefined;
  readonly #grants = new WeakMap<Principal, { readonly grant: unknown }>();
  #dataFolder: Promise<string> | undefined;

  constructor(plugin: Plugin, deps: RuntimeDeps) {
    this.plugin = plugin;
    this.#deps = deps;
  }

  get hostId(): string {
    return this.#deps.hostId;
  }

  get workspace(): string {
    return this.#deps.workspace;
  }

  get log(): Log {
    return this.#deps.log;
  }

  get store(): PluginStore {
    if (this.#store !== undefined) return this.#store;
    throw fail('usage', `the plugin ${JSON.stringify(this.plugin.name)} declares no store: add store: {} to it`);
  }

  /** Compiles the schema of the plugin's grants and opens its store. Called before `start`. */
  async prepare(state: () => Promise<StateDatabase>): Promise<void> {
    const { name, type, grant, store } = this.plugin;
    if (grant !== undefined) this.#checkGrant = await new JsonSchemas().compile(grant, `grant of ${type}`);
    if (store !== undefined) this.#store = (await state()).plugin(name, store);
  }

  /**
   * What the configuration grants a principal for this capability, with defaults filled in; undefined without a grant.
   * Throws `config_invalid` for one that does not fit the plugin's schema.
   */
  grantOf(principal: Principal): unknown {
    let known = this.#grants.get(principal);
    if (known === undefined) {
      const said = grantOf(principal, this.plugin.type);
      known = { grant: said === undefined ? undefined : this.#checked(principal, said) };
      this.#grants.set(principal, known);
    }
    return known.grant;
  }

  #checked(principal: Principal, grant: unknown): unknown {
    try {
      return this.#checkGrant === undefined ? grant : this.#checkGrant(grant);
    } catch (thrown) {
      const { message, detail } = asError(thrown);
      throw fail('config_invalid', `the grants of ${JSON.stringify(principal.name)} are not valid: ${message}`, detail);
    }
  }

  changed(session?: SessionView): void {
    this.#deps.changed(this.plugin.type, session);
  }

  dataFolder(): Promise<string> {
    this.#dataFolder ??= import('./data-folder.ts').then(({ makeDataFolder }) =>
      makeDataFolder(this.#deps.dataDir, this.plugin.name),
    );
    return this.#dataFolder;
  }

  /** Removes what was temporary. Called after `stop`. */
  async close(): Promise<void> {
    if (this.#dataFolder === undefined || this.#deps.dataDir !== undefined) return;
    const { removeDataFolder } = await import('./data-folder.ts');
    await removeDataFolder(await this.#dataFolder);
  }
}
