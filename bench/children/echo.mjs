// The yardstick of `bench:env-wire`: a process that answers each chunk with as many bytes as a step's reply has, and does nothing else.
import { createServer } from 'node:net';

const reply = `${'x'.repeat(Number(process.argv[2]) - 1)}\n`;
const server = createServer({ noDelay: true }, (socket) => socket.on('data', () => socket.write(reply, 'latin1')));
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
