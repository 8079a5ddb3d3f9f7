/** A link that fails on command: cut in the middle of a conversation, or one that swallows everything without an end. */
import type { Link } from '../transport/link.ts';

export interface FaultyLink {
  /** The link for the code under test. */
  readonly link: Link;
  /** Drops the link at once: both ends are notified. */
  cut(): void;
  /** Drops everything in both directions without notice, as a dead router does. */
  blackHole(): void;
}

/** Wraps a link; without further calls it passes everything. */
export function faultyLink(link: Link): FaultyLink {
  let swallowing = false;
  let received: number | undefined;
  const open: Link['open'] = (receiver) =>
    link.open({
      message: (message) => (swallowing ? undefined : receiver.message(message)),
      malformed: (problem) => (swallowing ? undefined : receiver.malformed(problem)),
      ended: () => (swallowing ? undefined : receiver.ended()),
      closed: (cause) => receiver.closed(cause),
    });
  const send: Link['send'] = (message) => (swallowing ? undefined : link.send(message));
  const wrapped = new Proxy(link, {
    get(target, name) {
      if (name === 'open') return open;
      if (name === 'send') return send;
      // The counter of arrivals does not change, and a transport's own ping gets no reply.
      if (name === 'received' && swallowing) return received;
      if (name === 'probe' && swallowing) return () => {};
      // Called on the link itself: its private members are not those of the wrapper.
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return {
    link: wrapped,
    cut: () => link.destroy('cut by the test'),
    blackHole: () => {
      received = link.received;
      swallowing = true;
    },
  };
}
