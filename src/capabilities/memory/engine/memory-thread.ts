/**
 * The thread of the memory engine: does the operations it receives and sends back their results. Its data are {@link
 * EngineOptions}.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { type FailingStore, failingStores, onStoresChanged } from '../../../base/failing-stores.ts';
import type { DatabaseLoss } from '../../../base/sqlite/losses.ts';
import { asError } from '../../../wire/errors.ts';
import { MemoryService } from './service.ts';
import type { Asker, EngineOptions, OperationName } from './types.ts';

/** A request to the thread; without an operation: close, and end. */
export interface ThreadRequest {
  readonly id: number;
  readonly name?: OperationName;
  readonly asker: Asker;
  readonly args: unknown;
}

/** The loss of writes in a database that is opened. */
export interface ThreadLoss {
  readonly loss: DatabaseLoss;
}

/** The databases that cannot be opened or written now. */
export interface ThreadStores {
  readonly failing: readonly FailingStore[];
}

/** The reply to a request. */
export interface ThreadReply {
  readonly id: number;
  readonly value?: unknown;
  /** The bytes now stored for the principal, after a request that may have changed them. */
  readonly stored?: { readonly principal: string; readonly bytes: number };
  readonly error?: {
    readonly code: string;
    readonly message: string;
    readonly detail: Record<string, unknown>;
    readonly retryable: boolean;
    readonly capability: string;
    /** For the log of the host alone. */
    readonly cause: string | undefined;
  };
}

/** Operations after which a principal may have more or fewer bytes; `init` is the first of a session. */
const COUNTED: ReadonlySet<OperationName> = new Set(['init', 'store', 'forget', 'publish', 'endSession']);

const TRY_MS = 2_000;

const port = parentPort;
if (port !== null) {
  onStoresChanged(() => port.postMessage({ failing: failingStores() } satisfies ThreadStores));
  // The query itself finds the databases that work again.
  setInterval(failingStores, TRY_MS).unref();
  const service = new MemoryService(workerData as EngineOptions, (loss) =>
    port.postMessage({ loss } satisfies ThreadLoss),
  );
  port.on('message', ({ id, name, asker, args }: ThreadRequest) => {
    if (name === undefined) {
      service.close();
      port.postMessage({ id } satisfies ThreadReply);
      port.close();
      return;
    }
    void (async () => {
      try {
        const value = await service.run(name, asker, args as never);
        const { principal } = asker;
        const stored = COUNTED.has(name) ? { principal, bytes: await service.bytesOf(asker) } : undefined;
        port.postMessage({ id, value, ...(stored && { stored }) } satisfies ThreadReply);
      } catch (thrown) {
        const { code, message, detail, retryable, capability, cause } = asError(thrown);
        const reason = cause instanceof Error ? cause.stack : undefined;
        port.postMessage({
          id,
          error: { code, message, detail, retryable, capability, cause: reason },
        } satisfies ThreadReply);
      }
    })();
  });
}
