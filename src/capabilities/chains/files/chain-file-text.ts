/** Writes a stored chain as the text of a chain file, which `loadChainFile` reads. */
import { yamlText } from '../../../config/yaml-tree.ts';
import type { StoredChain } from '../chains.schema.ts';

/** Returns YAML. Ends with a newline. */
export function chainFileText(chain: StoredChain): Promise<string> {
  const { name, description, entry_node, timeout, max_parallel, deadline, budget, nodes } = chain;
  const settings = { description, entry_node, timeout, max_parallel, deadline, budget };
  // An empty text stands for an absent setting.
  const given = Object.entries(settings).filter(([, value]) => value !== undefined && value !== '');
  return yamlText({ name, ...Object.fromEntries(given), nodes });
}
