/**
 * Loaded into the process of loaf's terminal client, which has its server inside: gives it the server on the pipes of
 * the program that `RPC_SERVER` names instead (a JSON list of words). Its own sources stay unchanged; this file
 * replaces only `rpc/inprocess-client.js`, with the same two functions, and forwards lines unchanged.
 */
import { spawn } from 'node:child_process';
import { registerHooks } from 'node:module';
import { createInterface } from 'node:readline';

registerHooks({
  resolve: (name, context, next) =>
    name.endsWith('/rpc/inprocess-client.js') ? { url: import.meta.url, shortCircuit: true } : next(name, context),
});

type Listener = (event: unknown) => void;

export async function createInProcessRpcClient() {
  const [program = '', ...words] = JSON.parse(process.env.RPC_SERVER ?? '[]') as string[];
  const child = spawn(program, words, { stdio: ['pipe', 'pipe', 'ignore'] });
  const calls = new Map<number, PromiseWithResolvers<unknown>>();
  const listeners = new Set<Listener>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { id, result, error, method, params } = JSON.parse(line);
    if (method === 'event') for (const listener of listeners) listener(params);
    else if (error !== undefined) calls.get(id)?.reject(Object.assign(new Error(error.message), error));
    else calls.get(id)?.resolve(result);
  });
  let last = 0;
  return {
    onEvent(listener: Listener): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    call(method: string, params?: unknown): Promise<unknown> {
      const id = ++last;
      const call = Promise.withResolvers<unknown>();
      calls.set(id, call);
      child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
      return call.promise;
    },
  };
}
