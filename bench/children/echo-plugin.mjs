/** The plugin of the `handfast-stdio` contender: the tools of the workloads, as a user would write them. */
import { tool, toolsPlugin } from 'handfast';

const echo = tool({
  name: 'echo',
  description: 'Sends the text back',
  input: {
    type: 'object',
    properties: { text: { type: 'string' }, n: { type: 'integer' } },
    required: ['text', 'n'],
  },
  run: ({ text, n }) => ({ text, n }),
});

export const plugin = toolsPlugin({ tools: [echo] });
