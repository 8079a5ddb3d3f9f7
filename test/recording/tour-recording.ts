/**
 * The tour with a recorder between it and its host, whose documents are always the same. A path of this machine counts
 * as a secret, so that a recording has none.
 *
 * For the tests of the stored recording, and for the command that renews it.
 */
import { join } from 'node:path';
import { prepareHost } from '../../examples/tour/host.ts';
import { User } from '../cli/command.ts';
import { tour } from '../examples/tour.ts';
import { root } from '../rules/scan.ts';

/** The stored recording, and the documents of its host. */
export const STORED = join(root, 'test/recordings/tour/session.ndjson');
const DOCUMENTS = join(root, 'test/recordings/tour/documents');

/** Members that differ in every run of the tour: the state of its program at the time of the request. */
const VOLATILE = ['/proc/state', '/proc/exit_code', '/proc/reason', '/proc/output'];

const words = (line: readonly string[]): string => line.map((word) => JSON.stringify(word)).join(' ');

/** A user whose working directory is the prepared host of the tour. */
export class TourUser extends User {
  /** The address that starts its host. */
  readonly host = `stdio:${words(this.line(['stdio']))}`;
  /** The value of each placeholder of the stored recording. */
  readonly secrets = this.write('secrets.json', JSON.stringify({ '[redacted:value:named:1]': process.execPath }));

  static async prepared(): Promise<TourUser> {
    const user = new TourUser();
    await prepareHost(user.cwd, user.environment(), DOCUMENTS);
    return user;
  }

  /** Runs the tour against an address, and gives the lines it printed. */
  tour(address: string, token?: string): Promise<string[]> {
    return tour(this.environment({ HOST: address, ...(token !== undefined && { TOKEN: token }) }), this.cwd);
  }

  /** Records a tour into a folder of the working directory, its client on this transport; gives the lines it printed. */
  async recorded(folder: string, transport: 'stdio' | 'tcp' | 'unix' | 'http' | 'ws' = 'stdio'): Promise<string[]> {
    const paths = this.write('paths', `${process.execPath}\n${this.folder}\n`);
    const flags = ['--out', folder, '--secrets', paths, ...VOLATILE.flatMap((pointer) => ['--volatile', pointer])];
    if (transport === 'stdio') {
      const line = this.line(['record', ...flags, '--', ...this.line(['stdio'])]);
      return this.tour(`stdio:${words(line)}`);
    }
    const { tcp, unix, http } = {
      tcp: 'tcp://127.0.0.1:0',
      unix: `unix://${join(this.folder, `${folder}.sock`)}`,
      http: 'http://127.0.0.1:0',
    };
    const at = { tcp, unix, http, ws: http }[transport];
    const recorder = this.start(['record', ...flags, '--listen', at, '--json', '--', ...this.line(['stdio'])]);
    await recorder.says('\n');
    const { address } = JSON.parse(recorder.stdout) as { address: string };
    const printed = await this.tour(transport === 'ws' ? `${address.replace('http', 'ws')}/ws` : address);
    recorder.child.kill('SIGINT');
    await recorder.ended();
    return printed;
  }
}
