/**
 * The child of the stdio tests. `link`: opens the stdio link and obeys the commands of the control connection, see
 * `remote-link.ts`. `raw`: passes bytes between the control connection and its stdio.
 */
import { connect, Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { stdioLink } from '../../src/transport/stdio.ts';
import { toAscii } from '../../src/wire/ascii.ts';

const [, , mode, port, maxMessageBytes] = process.argv;
const control = connect({ port: Number(port), host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
control.on('error', () => process.exit(3));

if (mode === 'raw') {
  // Node never ends `process.stdout`; a separate socket can be ended.
  const output = new Socket({ fd: 1, readable: false, writable: true });
  output.on('error', () => process.exit(4));
  control.pipe(output);
  process.stdin.pipe(control);
} else {
  const link = stdioLink(maxMessageBytes ? { maxMessageBytes: Number(maxMessageBytes) } : {});
  const report = (event: object): void => {
    control.write(`${toAscii(JSON.stringify(event))}\n`);
  };
  const receiver = {
    message: (text: unknown) => report({ event: 'message', text }),
    malformed: (problem: object) => report({ event: 'malformed', problem }),
    ended: () => report({ event: 'ended' }),
    closed: (cause: object) => {
      report({ event: 'closed', cause });
      control.end();
    },
  };
  createInterface({ input: control })
    .on('line', async (line) => {
      const command = JSON.parse(line);
      switch (command.do) {
        case 'open':
          link.open(receiver);
          break;
        case 'send':
          link.send(command.message);
          break;
        case 'pause':
          link.pause(command.paused);
          break;
        case 'limit':
          link.setMaxMessageBytes(command.bytes);
          break;
        case 'drained':
          await link.drained(command.lowWaterBytes);
          break;
        case 'close':
          await link.close(command.reason, command.graceMs);
          break;
        case 'destroy':
          link.destroy(command.reason);
      }
      if (command.id !== undefined && !control.writableEnded) {
        report({ event: 'done', id: command.id, buffered: link.buffered });
      }
    })
    // The test is over, or was ended.
    .on('close', () => process.exit(0));
}
