/**
 * The HTTP + SSE transport for the contract suite: the endpoint behind the real HTTP port, dialled by the real client.
 */
import { httpServer } from '../../src/server/http/http.ts';
import { connectHttp } from '../../src/transport/http/http-client.ts';
import { httpSseEndpoint } from '../../src/transport/http/http-sse.ts';
import { DEFAULT_MAX_MESSAGE_BYTES, type Link } from '../../src/transport/link.ts';
import { within } from './recorder.ts';
import type { TransportFactory } from './transports.ts';

export const httpTransport: TransportFactory = {
  name: 'http',
  halfCloses: false,
  async pair({ maxMessageBytes = DEFAULT_MAX_MESSAGE_BYTES } = {}) {
    const accepted = Promise.withResolvers<Link>();
    const listener = await httpServer({ endpoint: httpSseEndpoint({ accept: accepted.resolve, maxMessageBytes }) });
    const client = await connectHttp(listener.address, { maxMessageBytes });
    const server = await within(accepted.promise, 'a link to be accepted');
    return {
      client,
      server,
      sync: async () => {},
      async dispose() {
        client.destroy();
        server.destroy();
        await listener.close();
      },
    };
  },
};
