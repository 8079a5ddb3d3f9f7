/**
 * The parts that the scenes of `handfast demo` share.
 */
import type { DemoHost } from './demo-host.ts';

/** Parts that a scene works with. */
export interface Stage {
  readonly host: DemoHost;
  /** Working folder of the host. */
  readonly workspace: string;
  /** A folder for the files of a scene. */
  readonly folder: string;
  /** Starts another host, with a separate home and workspace, that ends with the demo at the latest. */
  another(name: string): Promise<DemoHost>;
  /** Prints one line about an event. `kind` is for programs. */
  say(kind: string, text: string): void;
}
