/** What the scenes of `handfast demo` share. */
import type { DemoHost } from './demo-host.ts';

/** What a scene works with. */
export interface Stage {
  readonly host: DemoHost;
  /** Working folder of the host. */
  readonly workspace: string;
  /** A folder for what a scene keeps. */
  readonly folder: string;
  /** Starts another host, with a home and a workspace of its own, that ends with the demo at the latest. */
  another(name: string): Promise<DemoHost>;
  /** Prints one line of what happens. `kind` is for programs. */
  say(kind: string, text: string): void;
}
