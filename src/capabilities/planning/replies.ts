/**
 * The checks of the replies, for the client: loaded when the first reply arrives.
 */
import { lazyChecks } from '../../wire/lazy-checks.ts';

export const replies = lazyChecks<typeof import('./planning.replies.generated.ts')>(
  import.meta.url,
  './planning.replies.generated',
);
