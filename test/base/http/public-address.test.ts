import assert from 'node:assert/strict';
import { BlockList } from 'node:net';
import { test } from 'node:test';
import { isPublicAddress } from '../../../src/base/http/public-address.ts';
import fc from '../../support/properties.ts';

const refused = [
  '0.0.0.0',
  '10.1.2.3',
  '100.64.0.1',
  '100.100.100.200',
  '100.127.255.255',
  '127.0.0.1',
  '127.255.255.254',
  '168.63.129.16',
  '169.254.169.254',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.192',
  '192.168.1.1',
  '198.19.0.1',
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::127.0.0.1',
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '::FFFF:169.254.169.254',
  '0:0:0:0:0:ffff:a9fe:a9fe',
  '::ffff:0:127.0.0.1',
  '64:ff9b::127.0.0.1',
  '64:ff9b::a9fe:a9fe',
  '64:ff9b:1::1',
  '100::1',
  '2001::1',
  '2001:0:4136:e378:8000:63bf:3fff:fdd2',
  '2001:db8::1',
  '2002:7f00:1::',
  '2002:a9fe:a9fe::1',
  '2002:c0a8:101::1',
  '3fff:fff::1',
  'fc00::1',
  'fd00:ec2::254',
  'fe80::1',
  'fe80::1%eth0',
  'fec0::1',
  'ff02::1',
  '4000::1',
];
const allowed = [
  '1.1.1.1',
  '8.8.8.8',
  '100.63.255.255',
  '100.128.0.0',
  '126.255.255.255',
  '128.0.0.1',
  '172.15.255.255',
  '172.32.0.0',
  '192.167.255.255',
  '223.255.255.255',
  '::ffff:8.8.8.8',
  '64:ff9b::8.8.8.8',
  '2002:808:808::1',
  '2001:4860:4860::8888',
  '2606:4700:4700::1111',
  '2a00:1450:4001:81c::200e',
];

test('addresses of this machine, its network and special use are not public, in any form', () => {
  for (const address of refused) assert.equal(isPublicAddress(address), false, address);
});

test('addresses of the internet are public, in any form', () => {
  for (const address of allowed) assert.equal(isPublicAddress(address), true, address);
});

test('what is no address is not public', () => {
  for (const text of ['', 'localhost', '127.1', '0x7f000001', '1.1.1.1/8', '[::1]', '1.1.1.1%lo', '::1::2']) {
    assert.equal(isPublicAddress(text), false, text);
  }
});

test('every spelling of an IPv6 address is judged alike', () => {
  const group = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff }));
  fc.assert(
    fc.property(fc.array(group, { minLength: 8, maxLength: 8 }), (groups) => {
      const full = groups.map((value) => value.toString(16).padStart(4, '0')).join(':');
      const short = new URL(`http://[${full}]/`).hostname.slice(1, -1);
      const [a, b, c, d] = [groups[6]! >> 8, groups[6]! & 255, groups[7]! >> 8, groups[7]! & 255];
      const dotted = `${full.split(':').slice(0, 6).join(':')}:${a}.${b}.${c}.${d}`;
      assert.equal(isPublicAddress(short), isPublicAddress(full), short);
      assert.equal(isPublicAddress(dotted), isPublicAddress(full), dotted);
    }),
  );
});

test('no IPv4 address of a refused block is let through, mapped or not', () => {
  const blocks = new BlockList();
  for (const [block, bits] of [
    ['10.0.0.0', 8],
    ['127.0.0.0', 8],
    ['100.64.0.0', 10],
    ['169.254.0.0', 16],
    ['172.16.0.0', 12],
    ['192.168.0.0', 16],
    ['224.0.0.0', 3],
    ['0.0.0.0', 8],
  ] as const) {
    blocks.addSubnet(block, bits, 'ipv4');
  }
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      if (blocks.check(address, 'ipv4')) assert.equal(isPublicAddress(address), false, address);
      assert.equal(isPublicAddress(`::ffff:${address}`), isPublicAddress(address), address);
      assert.equal(isPublicAddress(`64:ff9b::${address}`), isPublicAddress(address), address);
    }),
    { numRuns: 500 },
  );
});
