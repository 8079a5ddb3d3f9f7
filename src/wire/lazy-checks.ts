/**
 * Generated validators that are loaded when the first message arrives that they check: those of a capability with many messages
 * are most of its code, and a command that never uses it should not load them.
 *
 * Used by the `messages.ts` and clients of capabilities.
 */
import type { Check } from './check.ts';

/**
 * The validators of a generated module, by name.
 *
 * @param url `import.meta.url` of the module beside it
 * @param name its file without the ending: `./planning.generated`
 */
export function lazyChecks<Module extends object>(url: string, name: string): { readonly [N in keyof Module]: Check } {
  let module: Record<string, Check> | undefined;
  const load = (): Record<string, Check> => {
    const { createRequire } = process.getBuiltinModule('node:module');
    // The same ending as the module that asks: sources or what they were built into.
    return createRequire(url)(`${name}${url.endsWith('.ts') ? '.ts' : '.js'}`) as Record<string, Check>;
  };
  const checkOf = (key: string): Check => {
    const check: Check = (value) => {
      // A page cannot load it at once: what it sends is checked by the host, and it reads what its host sends.
      if (typeof process !== 'object') return true;
      module ??= load();
      const generated = module[key] as Check;
      const fits = generated(value);
      check.errors = generated.errors;
      return fits;
    };
    return check;
  };
  return new Proxy({} as { readonly [N in keyof Module]: Check }, { get: (_, key) => checkOf(String(key)) });
}
