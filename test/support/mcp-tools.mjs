/** A plugin with the tools that tests of the MCP endpoint call: one of each thing that a call can do. */
import { setTimeout as sleep } from 'node:timers/promises';
import { tool, toolsPlugin } from 'handfast';
import { askModel, askPerson, askRoots } from 'handfast/tools';

const object = (properties = {}, required = Object.keys(properties)) => ({ type: 'object', properties, required });

export const plugin = toolsPlugin({
  name: 'trial',
  tools: [
    tool({
      name: 'shout',
      description: 'Upper-cases a text',
      input: object({ text: { type: 'string' } }),
      output: object({ text: { type: 'string' } }),
      idempotent: true,
      risks: [],
      run: ({ text }) => ({ text: text.toUpperCase() }),
    }),
    tool({ name: 'plain', description: 'Gives a text', risks: ['exec'], run: () => 'just text' }),
    tool({
      name: 'count',
      description: 'Counts up with progress and log messages',
      input: object({ to: { type: 'integer' } }),
      async run({ to }, { emit }) {
        for (let done = 1; done <= to; done++) {
          await emit('progress', { pct: Math.round((100 * done) / to), message: `step ${done}` });
          await sleep(50);
          await emit('log', { level: done === to ? 'error' : 'debug', message: `line ${done}` });
        }
        return { counted: to };
      },
    }),
    tool({
      name: 'hang',
      description: 'Waits until it is cancelled, and writes that to its standard error',
      async run(_args, { signal, emit }) {
        await emit('progress', { pct: 1, message: 'hanging' });
        try {
          await sleep(600_000, undefined, { signal });
        } catch {
          process.stderr.write(`cancelled: ${signal.reason?.code}\n`);
          throw signal.reason;
        }
        return {};
      },
    }),
    tool({
      name: 'greet',
      description: 'Asks the person for a name, then for a colour',
      async run(_args, context) {
        const name = await askPerson(context, {
          name: 'name',
          message: 'Who are you?',
          schema: object({ name: { type: 'string' } }),
        });
        if (name.action !== 'accept') return `no name: ${name.action}`;
        const colour = await askPerson(context, {
          message: 'Which colour?',
          schema: object({ colour: { type: 'string' } }),
        });
        return `Hello ${name.content.name}, in ${colour.content?.colour ?? colour.action}`;
      },
    }),
    tool({
      name: 'consult',
      description: 'Asks a model, a person and for folders at once',
      async run(_args, context) {
        const [thought, sign, roots] = await Promise.all([
          askModel(context, { messages: 'think', maxTokens: 10 }),
          askPerson(context, { message: 'Sign', url: 'https://example.com/sign' }),
          askRoots(context),
        ]);
        return { thought: thought.content.text, sign: sign.action, roots: roots.map(({ uri }) => uri) };
      },
    }),
    tool({
      name: 'insist',
      description: 'Asks a person, and waits for half a second alone',
      async run(_args, context) {
        return (await askPerson(context, { message: 'Now!', timeoutMs: 500 })).action;
      },
    }),
    tool({
      name: 'fails',
      description: 'Fails',
      run() {
        throw new Error('the disk is on fire');
      },
    }),
    tool({
      name: 'grow',
      description: 'Adds a tool',
      run() {
        void plugin.add([tool({ name: 'grown', description: 'Was not there before', run: () => ({}) })]);
        return {};
      },
    }),
  ],
});
