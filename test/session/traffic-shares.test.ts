import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Throttled, Traffic } from '../../src/connection/traffic.ts';
import type { Principal } from '../../src/session/principal.ts';
import { type TrafficLimits, TrafficShares } from '../../src/session/traffic-shares.ts';
import type { Link } from '../../src/transport/link.ts';

const roomy: TrafficLimits = {
  maxConnections: 100,
  maxConnectionsPerPrincipal: 100,
  maxInFlight: 100,
  maxInFlightPerPrincipal: 100,
  requestsPerSecond: 100,
  totalRequestsPerSecond: 1_000,
  bytesPerSecond: 100,
  totalBytesPerSecond: 1_000,
  receiveBufferBytes: 1_000,
  totalReceiveBufferBytes: 10_000,
};

const link = (): Link => ({ transport: 'tcp' }) as Link;

/** A link of a principal whose reading state the test sees. */
class Reader implements Throttled {
  readonly link = link();
  paused = false;
  throttle(paused: boolean): void {
    this.paused = paused;
  }
}

function sharesOf(limits: Partial<TrafficLimits>) {
  const clock = { ms: 0 };
  const shares = new TrafficShares({ ...roomy, ...limits }, () => clock.ms);
  const of = (principal: Principal) => {
    const traffic = shares.of(principal, link());
    assert.ok(traffic !== undefined);
    return traffic;
  };
  /** Attaches a link, as a handshake does. */
  const joined = (principal: Principal): Reader => {
    const [traffic, reader] = [of(principal), new Reader()];
    traffic.mustHaveRoom();
    traffic.join(reader, reader.link);
    return reader;
  };
  return { clock, shares, of, joined };
}

const ann: Principal = { name: 'ann' };
const bob: Principal = { name: 'bob' };
const root: Principal = { name: 'root', admin: true };

/** Returns the number of admitted requests of the given number. */
const admitted = (traffic: Traffic, asked: number): number => {
  let count = 0;
  for (let at = 0; at < asked; at++) if (traffic.admit(false) === undefined) count++;
  return count;
};

test('links: the share of one principal, and past the sum an equal part of it', () => {
  const { of, joined, shares } = sharesOf({ maxConnections: 6, maxConnectionsPerPrincipal: 4 });
  const own = [1, 2, 3, 4].map(() => joined(ann));
  assert.throws(() => joined(ann), {
    code: 'over_capacity',
    detail: { share: 'connections', limit: 4, retry_after_ms: 1_000 },
  });
  joined(bob);
  joined(root);
  // The sum is used up: an equal part of it is two for each of the three.
  joined(bob);
  assert.throws(() => joined(bob), { code: 'over_capacity' });
  joined(root);
  assert.throws(() => joined(root), { code: 'over_capacity' });
  joined({ name: 'new' });
  for (const reader of own) of(ann).leave(reader);
  of(ann).leave(own[0] as Reader);
  assert.equal(shares.usage.connections.used, 5);
  joined(root);
  assert.equal(shares.usage.connections.principals.root, 3);
  assert.equal(shares.usage.connections.principals.ann, undefined);
  assert.equal(shares.usage.connections.refused_by.ann, 1);
  assert.equal(shares.of(ann, { transport: 'memory' }), undefined);
});

test('requests in flight: over all links of a principal, and past the sum an equal part of it', () => {
  const { of, joined, shares } = sharesOf({ maxInFlight: 8, maxInFlightPerPrincipal: 6 });
  for (const principal of [ann, ann, bob, root]) joined(principal);
  assert.equal(admitted(of(ann), 10), 6);
  assert.deepEqual(of(ann).admit(false)?.detail, { share: 'in_flight', limit: 6, retry_after_ms: 100 });
  assert.equal(of(ann).admit(true), undefined, 'what ends other work is not refused');
  assert.equal(admitted(of(bob), 10), 3, 'one to the sum, then up to an equal part');
  assert.equal(admitted(of(root), 10), 3);
  for (let at = 0; at < 7; at++) of(ann).ended();
  assert.equal(admitted(of(root), 10), 2, 'administrators have no share of their own, only of the sum');
  assert.equal(shares.usage.in_flight.used, 8);
  assert.equal(of(ann).used('in_flight'), 0);
});

test('requests a second: one principal is refused until its share is there again, administrators are not', () => {
  const { of, joined, clock } = sharesOf({
    requestsPerSecond: 50,
    maxInFlight: 10_000,
    maxInFlightPerPrincipal: 10_000,
  });
  for (const principal of [ann, bob, root]) joined(principal);
  assert.equal(admitted(of(ann), 80), 50);
  const { code, detail } = of(ann).admit(false) ?? {};
  assert.deepEqual([code, detail], ['over_capacity', { share: 'requests_per_second', limit: 50, retry_after_ms: 100 }]);
  assert.equal(admitted(of(bob), 50), 50);
  assert.equal(admitted(of(root), 500), 500);
  clock.ms = 200;
  assert.equal(admitted(of(ann), 80), 10);
  assert.equal(of(ann).refused.requests_per_second, 30 + 1 + 70);
});

test('requests a second in sum: half of it is divided, so that no principal goes without', () => {
  const limits = { requestsPerSecond: 1_000, totalRequestsPerSecond: 100, maxInFlight: 10_000 };
  const { of, joined, clock } = sharesOf({ ...limits, maxInFlightPerPrincipal: 10_000 });
  joined(ann);
  joined(bob);
  for (const principal of [ann, bob]) admitted(of(principal), 500);
  clock.ms = 1_000;
  assert.equal(admitted(of(ann), 500), 25 + 50, 'its own quarter, and the half that is for all');
  assert.equal(admitted(of(bob), 500), 25);
  clock.ms = 2_000;
  assert.equal(admitted(of(bob), 500), 25 + 50);
  assert.equal(admitted(of(ann), 500), 25);
});

test('bytes a second: all links of the principal are read later, and no others', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { of, joined, clock } = sharesOf({ bytesPerSecond: 100 });
  const pass = (ms: number): void => {
    clock.ms += ms;
    t.mock.timers.tick(ms);
  };
  const [one, two, other, admin] = [joined(ann), joined(ann), joined(bob), joined(root)];
  assert.equal(admin.link.meter, undefined, 'what has no limit is not counted');
  one.link.meter?.(60, 0);
  assert.equal(one.paused, false);
  two.link.meter?.(240, 0);
  assert.deepEqual(
    [one, two, other, admin].map(({ paused }) => paused),
    [true, true, false, false],
  );
  const late = joined(ann);
  assert.equal(late.paused, true, 'a further link does not help');
  pass(1_000);
  assert.equal(one.paused, true);
  pass(1_100);
  assert.deepEqual([one.paused, two.paused, late.paused], [false, false, false]);
  assert.equal(of(ann).refused.bytes_per_second, 1);
  // A reconnect forgives nothing.
  one.link.meter?.(1_000, 0);
  for (const reader of [one, two, late]) of(ann).leave(reader);
  assert.equal(one.link.meter, undefined);
  assert.equal(joined(ann).paused, true);
});

test('bytes of incomplete messages: the link on which they grow too much ends, and no other', () => {
  const { joined, of, shares } = sharesOf({
    bytesPerSecond: 1e9,
    totalBytesPerSecond: 1e12,
    receiveBufferBytes: 1_000,
    totalReceiveBufferBytes: 1_200,
  });
  const reader = (principal: Principal): Reader & { ended: boolean } => {
    const made = Object.assign(joined(principal), { ended: false });
    made.link.destroy = () => {
      made.ended = true;
    };
    return made;
  };
  const [one, two, other, third] = [reader(ann), reader(ann), reader(bob), reader({ name: 'third' })];
  one.link.meter?.(600, 600);
  two.link.meter?.(400, 400);
  assert.deepEqual([one.ended, two.ended, of(ann).used('receive_buffer_bytes')], [false, false, 1_000]);
  two.link.meter?.(100, 500);
  assert.deepEqual([one.ended, two.ended, of(ann).used('receive_buffer_bytes')], [false, true, 600]);
  one.link.meter?.(100, 0);
  assert.equal(of(ann).used('receive_buffer_bytes'), 0, 'its message is complete');
  // Past the sum, an equal part for each.
  one.link.meter?.(900, 900);
  other.link.meter?.(400, 400);
  third.link.meter?.(400, 400);
  assert.deepEqual([other.ended, third.ended], [false, false]);
  one.link.meter?.(1, 901);
  assert.equal(one.ended, true);
  of(bob).leave(other);
  assert.deepEqual([shares.usage.receive_buffer_bytes.used, shares.usage.receive_buffer_bytes.refused], [400, 2]);
});

test('what nothing refuses, such as pings, is read later past the share', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { of, joined } = sharesOf({ requestsPerSecond: 10 });
  const reader = joined(ann);
  for (let at = 0; at < 10; at++) of(ann).arrived();
  assert.equal(reader.paused, false);
  of(ann).arrived();
  assert.equal(reader.paused, true);
});

test('limits of a principal count in place of those of the host, and change while links are open', () => {
  const small: Principal = { name: 'ann', limits: { maxConnections: 1, maxInFlight: 1, bytesPerSecond: 10 } };
  const { shares, of, joined } = sharesOf({});
  const reader = joined(small);
  assert.throws(() => joined(small), { code: 'over_capacity' });
  assert.equal(admitted(of(small), 5), 1);
  shares.rightsChanged(() => ({ name: 'ann', admin: true }));
  assert.equal(reader.link.meter, undefined);
  shares.rightsChanged(() => ({ ...root, name: 'ann', limits: { maxConnections: 2, bytesPerSecond: 5 } }));
  assert.notEqual(reader.link.meter, undefined, 'an administrator has the limits it was given');
  shares.rightsChanged(() => undefined);
});
