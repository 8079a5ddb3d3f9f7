/**
 * The server process of a pair: `server-process.ts CONTENDER TRANSPORT CONTROL_PORT`. The client process starts it; on
 * stdio the contender itself does.
 */
import type { TransportName } from './contenders/contender.ts';
import { loadContender } from './contenders/registry.ts';
import { reportTo } from './control.ts';

const [name = '', transport = '', controlPort = ''] = process.argv.slice(2);
const contender = await loadContender(name);
reportTo(Number(controlPort), await contender.serve(transport as TransportName));
