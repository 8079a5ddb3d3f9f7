// An MCP server of the official kind, on stdio, with the resources and prompts that the official conformance suite expects of a server.
// The tool `change` adds a prompt.
import { acceptedContent, inputRequired, ProtocolError, Server } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const INVALID_PARAMS = -32_602;
const user = (content) => ({ role: 'user', content });
const text = (value) => ({ type: 'text', text: value });
const argument = (name) => ({ name, description: name, required: true });

const resources = {
  'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
  'test://static-binary': { mimeType: 'image/png', blob: PIXEL },
  'test://watched-resource': { mimeType: 'text/plain', text: 'Watched resource content.' },
};

const prompts = {
  test_simple_prompt: { give: () => [user(text('This is a simple prompt for testing.'))] },
  test_prompt_with_arguments: {
    arguments: [argument('arg1'), argument('arg2')],
    give: ({ arg1, arg2 }) => [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
  },
  test_prompt_with_embedded_resource: {
    arguments: [argument('resourceUri')],
    give: ({ resourceUri: uri }) => [
      user({
        type: 'resource',
        resource: { uri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' },
      }),
      user(text('Please process the embedded resource above.')),
    ],
  },
  test_prompt_with_image: {
    give: () => [
      user({ type: 'image', data: PIXEL, mimeType: 'image/png' }),
      user(text('Please analyze the image above.')),
    ],
  },
  test_input_required_result_prompt: {
    give(_args, responses) {
      const said = acceptedContent(responses, 'user_context');
      if (said !== undefined) return [user(text(`In the context of ${said.context}`))];
      const schema = { type: 'object', properties: { context: { type: 'string' } }, required: ['context'] };
      const message = 'What context should the prompt use?';
      return inputRequired({
        inputRequests: { user_context: inputRequired.elicit({ message, requestedSchema: schema }) },
      });
    },
  },
};

serveStdio(
  () => {
    const capabilities = {
      tools: {},
      resources: { subscribe: true, listChanged: true },
      prompts: { listChanged: true },
      completions: {},
    };
    const server = new Server({ name: 'contents', version: '1.0.0' }, { capabilities });
    server.setRequestHandler('tools/list', () => ({
      tools: [{ name: 'change', description: 'Adds a prompt', inputSchema: { type: 'object' } }],
    }));
    server.setRequestHandler('tools/call', async () => {
      prompts[`added_${Object.keys(prompts).length}`] = { give: () => [user(text('added'))] };
      await server.sendPromptListChanged();
      return { content: [text('changed')] };
    });
    server.setRequestHandler('resources/list', () => ({
      resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, mimeType, name: uri.slice(7) })),
    }));
    server.setRequestHandler('resources/templates/list', () => ({
      resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }],
    }));
    server.setRequestHandler('resources/read', ({ params: { uri } }) => {
      const [, id] = /^test:\/\/template\/([^/]+)\/data$/.exec(uri) ?? [];
      if (id !== undefined) {
        const data = { id, templateTest: true, data: `Data for ID: ${id}` };
        return { contents: [{ uri, mimeType: 'application/json', text: JSON.stringify(data) }] };
      }
      if (resources[uri] === undefined) throw new ProtocolError(INVALID_PARAMS, 'Resource not found', { uri });
      return { contents: [{ uri, ...resources[uri] }] };
    });
    server.setRequestHandler('resources/subscribe', () => ({}));
    server.setRequestHandler('resources/unsubscribe', () => ({}));
    server.setRequestHandler('prompts/list', () => ({
      prompts: Object.entries(prompts).map(([name, prompt]) => ({
        name,
        description: name,
        arguments: prompt.arguments ?? [],
      })),
    }));
    server.setRequestHandler('prompts/get', ({ params: { name, arguments: args = {} } }, { mcpReq }) => {
      const given = prompts[name].give(args, mcpReq.inputResponses);
      return Array.isArray(given) ? { messages: given } : given;
    });
    server.setRequestHandler('completion/complete', ({ params: { argument: asked } }) => {
      const values = ['paris', 'park', 'party'].filter((value) => value.startsWith(asked.value));
      return { completion: { values, total: values.length, hasMore: false } };
    });
    return server;
  },
  { legacy: 'reject' },
);
