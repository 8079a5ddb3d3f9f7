/** A plugin with the tools that the official conformance suite expects of a server, under the names it calls. */
import { setTimeout as sleep } from 'node:timers/promises';
import { tool, toolsPlugin } from 'handfast';

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const SILENCE = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

const text = (value) => ({ type: 'text', text: value });
const image = { type: 'image', data: PIXEL, mimeType: 'image/png' };
const resource = (uri, mimeType, value) => ({ type: 'resource', resource: { uri, mimeType, text: value } });
/** A tool that gives blocks of content. */
const gives = (name, content) =>
  tool({ name, description: `Gives content: ${name}`, kind: 'mcp', risks: [], run: () => ({ content }) });

export const plugin = toolsPlugin({
  name: 'conformance',
  tools: [
    gives('test_simple_text', [text('This is a simple text response for testing.')]),
    gives('test_image_content', [image]),
    gives('test_audio_content', [{ type: 'audio', data: SILENCE, mimeType: 'audio/wav' }]),
    gives('test_embedded_resource', [
      resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.'),
    ]),
    gives('test_multiple_content_types', [
      text('Multiple content types test:'),
      image,
      resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ]),
    tool({
      name: 'test_error_handling',
      description: 'Fails',
      run() {
        throw new Error('This tool intentionally returns an error for testing');
      },
    }),
    tool({
      name: 'test_tool_with_logging',
      description: 'Logs',
      async run(_args, { emit }) {
        for (const message of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
          await emit('log', { level: 'info', message });
          await sleep(50);
        }
        return 'Tool with logging executed successfully';
      },
    }),
    tool({
      name: 'test_tool_with_progress',
      description: 'Reports progress',
      async run(_args, { emit }) {
        for (const pct of [0, 50, 100]) {
          await emit('progress', { pct, message: `Completed step ${pct} of 100` });
          await sleep(50);
        }
        return 'done';
      },
    }),
  ],
});
