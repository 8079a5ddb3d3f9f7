/**
 * The toolkit `search`: lines by pattern. Searches run in a thread and are ended at their time
 * limit.
 *
 * Listed in `kits/index.ts`.
 */
import { grep } from '../../tools/builtin/search-tools.ts';
import { defineToolkit } from '../toolkit.ts';

export const search = defineToolkit({
  name: 'search',
  description: 'Search of the workspace: lines by pattern',
  category: 'search',
  tags: ['search', 'file'],
  enabled: true,
  tools: [grep],
});
