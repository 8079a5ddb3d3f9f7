/**
 * A contract host over stdio; `sites.ts` starts it with the kind of host as its argument. Reports of its tools go over
 * the IPC channel, because stdout belongs to the link.
 */
import { stdioLink } from '../../src/transport/stdio.ts';
import { contractHost, type HostKind } from './contract-host.ts';

const host = await contractHost(process.argv[2] as HostKind, (name) => process.send?.(name));
host.accept(stdioLink());
