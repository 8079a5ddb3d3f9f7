/**
 * The interface for toolkit authors: `defineToolkit({ name, description, config, tools })`. A toolkit is a bundle of tools that
 * share a configuration, which each session sets for itself.
 *
 * @see docs/toolkits.md#writing-a-toolkit
 */
import type { JsonSchema } from '../../base/json-schema.ts';
import { valueKind } from '../../base/value-kind.ts';
import type { CallContext } from '../../host/context.ts';
import { fail } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';
import { type AnyTool, checkTool } from '../tools/tool.ts';

/** A secret of the host. */
export interface Secret {
  readonly value: string;
  /** Origins it may be sent to, such as `https://api.example.com`. Empty: the toolkit knows. */
  readonly origins: readonly string[];
}

/** Gives the tools of a toolkit the configuration of a call's session. */
export interface ToolkitAccess<Config> {
  /** Returns the configuration of the session, with defaults filled in. Fields of format `secret` hold the name of a secret. */
  config(context: Pick<CallContext, 'session'>): Config;
  /**
   * Returns the secret that a field of format `secret` names; undefined if the field is not set. Read from the host at each
   * call; do not store it. Fails with `toolkits.secret`.
   */
  secret(context: Pick<CallContext, 'session'>, field: keyof Config & string): Secret | undefined;
}

/** A toolkit, as its author defines it. */
export interface Toolkit<Config extends object = Record<string, unknown>> {
  /** Unique in its host: letters, digits, `_`, `-`, `.`; at most 64 characters. */
  readonly name: string;
  /** Its purpose, for people and models. */
  readonly description: string;
  readonly alias?: string;
  /** Free label for filters of clients. */
  readonly category?: string;
  readonly tags?: readonly string[];
  /** Default `1.0.0`. */
  readonly version?: string;
  readonly iconSvg?: string;
  /**
   * JSON Schema of its configuration, an object. A field of `format: 'secret'` is a text: the name of a secret in the host's
   * configuration. A schema with required fields makes a toolkit that must be configured before it is enabled.
   */
  readonly config?: JsonSchema;
  /** True: enabled in every session of principals that may use it. Default false: a session enables it. */
  readonly enabled?: boolean;
  /** True: plain lists of tools leave its tools out until a search has found them. Default false. */
  readonly deferred?: boolean;
  /** Its tools. Their names must be unique among all toolkits of the plugin. */
  readonly tools: readonly AnyTool[] | ((access: ToolkitAccess<Config>) => readonly AnyTool[]);
}

/** A toolkit of any configuration, as lists hold it. */
// biome-ignore lint/suspicious/noExplicitAny: a configuration is checked against its schema before a tool sees it
export type AnyToolkit = Toolkit<any>;

/**
 * Declares a toolkit. Throws `config_invalid` for an invalid one, with the mistake.
 *
 * @example
 * const weather = defineToolkit<{ units: 'metric' | 'imperial' }>({
 *   name: 'weather',
 *   description: 'Weather of today',
 *   config: { type: 'object', properties: { units: { enum: ['metric', 'imperial'], default: 'metric' } } },
 *   tools: ({ config }) => [
 *     tool({ name: 'weather_now', description: 'The weather now', run: (_, context) => ({ units: config(context).units }) }),
 *   ],
 * });
 */
export function defineToolkit<Config extends object = Record<string, unknown>>(
  toolkit: Toolkit<Config>,
): Toolkit<Config> {
  if (!isObject(toolkit))
    throw invalid(`a toolkit is an object { name, description, tools }, got ${valueKind(toolkit)}`);
  const { name, description, tools, config } = toolkit;
  if (typeof name !== 'string' || !/^[\w.-]{1,64}$/.test(name)) {
    throw invalid(`toolkit name ${valueKind(name)} must be 1 to 64 letters, digits, "_", "-" or "."`);
  }
  if (typeof description !== 'string') {
    throw invalid(`toolkit "${name}" needs a description, got ${valueKind(description)}`);
  }
  if (Array.isArray(tools)) for (const each of tools) checkTool(each);
  else if (typeof tools !== 'function') {
    throw invalid(`toolkit "${name}": tools must be a list or a function, got ${valueKind(tools)}`);
  }
  if (config !== undefined && !isObject(config)) {
    throw invalid(`toolkit "${name}": config must be a JSON Schema, got ${valueKind(config)}`);
  }
  return toolkit;
}

const invalid = (message: string) => fail('config_invalid', message);

/** Returns the fields of a configuration that hold the name of a secret. */
export function secretFields({ config }: Pick<AnyToolkit, 'config'>): string[] {
  const properties = isObject(config?.properties) ? config.properties : {};
  return Object.entries(properties).flatMap(([field, schema]) =>
    isObject(schema) && schema.format === 'secret' ? [field] : [],
  );
}
