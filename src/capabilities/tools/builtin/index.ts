/**
 * The built-in tools of a host, sufficient for an agent's work: files, search, the web and a shell.
 *
 * Hosts take the list from {@link builtinTools}; authors of other hosts may pick single tools by name.
 */
import type { AnyTool } from '../tool.ts';
import { httpGet, shell } from './external-tools.ts';
import { editFile, listDir, readFile, writeFile } from './file-tools.ts';
import { glob, grep } from './search-tools.ts';

export { editFile, glob, grep, httpGet, listDir, readFile, shell, writeFile };

export interface BuiltinToolsOptions {
  /** Lets `http_get` reach loopback, private and other special addresses. Default false. */
  readonly allowPrivateAddresses?: boolean;
  /** False leaves out `shell`, which runs programs with the rights of the host's user, outside any sandbox. */
  readonly shell?: boolean;
}

/**
 * Returns all built-in tools of a host.
 *
 * @example
 * const tools = builtinTools({ shell: false });
 */
export function builtinTools(options: BuiltinToolsOptions = {}): AnyTool[] {
  const { allowPrivateAddresses = false, shell: withShell = true } = options;
  const web = httpGet(allowPrivateAddresses ? { addressAllowed: () => true } : {});
  return [readFile, writeFile, editFile, listDir, glob, grep, web, ...(withShell ? [shell()] : [])];
}
