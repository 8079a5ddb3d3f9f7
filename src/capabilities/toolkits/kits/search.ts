/**
 * The toolkit `search`: lines by pattern, and passages by words, ranked. Searches run in a thread and are ended at their
 * timeout.
 */
import { grep, searchFiles } from '../../tools/builtin/search-tools.ts';
import { defineToolkit } from '../toolkit.ts';

export const search = defineToolkit({
  name: 'search',
  description: 'Search of the workspace: lines by pattern, passages by words, the best first',
  category: 'search',
  tags: ['search', 'file'],
  enabled: true,
  tools: [grep, searchFiles],
});
