// A stdio server on vscode-jsonrpc for the `start` workload: answers `initialize`, has an `echo`.
import { createMessageConnection, RequestType, StreamMessageReader, StreamMessageWriter } from 'vscode-jsonrpc/node';

const connection = createMessageConnection(
  new StreamMessageReader(process.stdin),
  new StreamMessageWriter(process.stdout),
);
connection.onRequest(new RequestType('initialize'), () => ({ capabilities: ['tools'] }));
connection.onRequest(new RequestType('echo'), ({ text, n }) => ({ text, n }));
connection.listen();
