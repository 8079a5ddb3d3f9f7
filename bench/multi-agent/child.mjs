/** A plain child of `fork`: replies to each task, or sends as many events as one says. It imports nothing else. */
import { wordsIn } from './words.mjs';

process.on('message', ({ id, text, events }) => {
  if (events === undefined) return process.send({ id, result: { words: wordsIn(text) } });
  for (let at = 0; at < events; at++)
    process.send({ id, event: 'progress', content: { message: `step ${at}`, percent: 1 } });
});
