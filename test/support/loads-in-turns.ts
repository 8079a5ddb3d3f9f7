/**
 * Loads the plugin of a capability and prints the number of modules that each turn of the event loop loaded. Its
 * argument: the capability.
 */
import { registerHooks } from 'node:module';

const [, , name = ''] = process.argv;
let turn = 0;
const count = (): void => {
  turn++;
  setImmediate(count).unref();
};
setImmediate(count);
const { [name]: capability } = await import(`../../src/capabilities/${name}/capability.ts`);
const turns: number[] = [];
registerHooks({
  load(url, context, next) {
    turns.push(turn);
    return next(url, context);
  },
});
await capability.plugin({});
console.log(JSON.stringify([...Map.groupBy(turns, (at) => at).values()].map(({ length }) => length)));
