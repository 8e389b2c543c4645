// What is stored can be read with the right key, in its own place, unchanged, and in no other way.
import { assert } from 'chai';
import { createSecretKey, randomBytes } from 'node:crypto';
import { deriveKey, deriveStoreKeys } from '../../src/store/key-derivation.ts';
import { createEncryption, type RingKey } from '../../src/store/encryption.ts';

const nameKey = createSecretKey(randomBytes(32));
const ringKey = (id: number): RingKey => ({ id, key: createSecretKey(randomBytes(32)) });
const first = ringKey(1);
const second = ringKey(2);
const PLACE = 'thing:name';

describe('a encrypted value', () => {
  const encryption = createEncryption({ nameKey, ring: [first] });
  const encrypted = encryption.encrypt(PLACE, { text: 'naïve 門' });

  it('opens in the place it was encrypted for, and in no other', () => {
    assert.deepEqual(encryption.decrypt(PLACE, encrypted), { text: 'naïve 門' });
    assert.isUndefined(encryption.decrypt('thing:other', encrypted));
  });
  it('does not open when any byte was changed, cut off or added', () => {
    for (let i = 0; i < encrypted.length; i++) {
      const changed = Buffer.from(encrypted);
      changed[i] = (changed[i] ?? 0) ^ 1;
      assert.isUndefined(encryption.decrypt(PLACE, changed), `byte ${i}`);
      assert.isUndefined(encryption.decrypt(PLACE, encrypted.subarray(0, i)), `cut at ${i}`);
    }
    assert.isUndefined(encryption.decrypt(PLACE, Buffer.concat([encrypted, Buffer.of(0)])));
  });
  it('never looks the same twice', () => {
    const envelopes = Array.from({ length: 100 }, () =>
      encryption.encrypt(PLACE, 1).toString('hex'),
    );
    assert.equal(new Set(envelopes).size, 100);
  });
  it('carries the version of its envelope and the id of its key', () => {
    assert.deepEqual(
      [
        ...createEncryption({ nameKey, ring: [second] })
          .encrypt(PLACE, 1)
          .subarray(0, 2),
      ],
      [1, 2],
    );
  });
});

describe('a key ring', () => {
  it('opens what any of its keys encrypted, and encrypts with its first', () => {
    const old = createEncryption({ nameKey, ring: [first] }).encrypt(PLACE, 'old');
    const turned = createEncryption({ nameKey, ring: [second, first] });
    assert.equal(turned.decrypt(PLACE, old), 'old');
    assert.equal(
      createEncryption({ nameKey, ring: [second] }).decrypt(PLACE, turned.encrypt(PLACE, 'new')),
      'new',
    );
  });
  it('does not open what a key encrypted that it has not, or has another of the same id', () => {
    const encrypted = createEncryption({ nameKey, ring: [first] }).encrypt(PLACE, 1);
    assert.isUndefined(createEncryption({ nameKey, ring: [second] }).decrypt(PLACE, encrypted));
    assert.isUndefined(createEncryption({ nameKey, ring: [ringKey(1)] }).decrypt(PLACE, encrypted));
  });
  it('holds at least one key', () => {
    assert.throws(() => createEncryption({ nameKey, ring: [] }), TypeError);
  });
});

describe('a name', () => {
  const encryption = createEncryption({ nameKey, ring: [first] });

  it('shows the kind and hides the id, always in the same way', () => {
    assert.match(encryption.name('thing:secret'), /^thing:[\w-]{43}$/);
    assert.equal(encryption.name('thing:secret'), encryption.name('thing:secret'));
  });
  it('differs by kind, by id and by nameKey key', () => {
    const other = createEncryption({ nameKey: createSecretKey(randomBytes(32)), ring: [first] });
    const names = [
      encryption.name('a:1'),
      encryption.name('b:1'),
      encryption.name('a:2'),
      other.name('a:1'),
    ];
    assert.equal(new Set(names.map((name) => name.slice(2))).size, 4);
  });
  it('of a member differs from set to set', () => {
    assert.notEqual(encryption.field('set:a', 'ada'), encryption.field('set:b', 'ada'));
    assert.equal(encryption.field('set:a', 'ada'), encryption.field('set:a', 'ada'));
  });
  it('needs a kind', () => {
    for (const key of ['secret', ':secret', ''])
      assert.throws(() => encryption.name(key), TypeError);
  });
});

describe('the keys derived from the root secret', () => {
  it('are 32 bytes, the same every time, and different for each purpose and secret', () => {
    const key = deriveKey('a root secret', 'cookies');
    assert.lengthOf(key, 32);
    assert.deepEqual(deriveKey('a root secret', 'cookies'), key);
    assert.notDeepEqual(deriveKey('a root secret', 'forms'), key);
    assert.notDeepEqual(deriveKey('another secret', 'cookies'), key);
  });
  // Changing how keys are derived would lose every store there is.
  it('stay what they are from version to version', () => {
    const key = deriveKey('a root secret', 'cookies').toString('base64url');
    assert.equal(key, 'w06xQIgRMTvmxJ5TbIuZd7jSBQC9o3r_t2bONbbSVIk');
    const encryption = createEncryption(deriveStoreKeys({ secret: 'a root secret' }));
    assert.equal(encryption.name('thing:1'), 'thing:lgu95xhDyfhZ4oujUjkgNEtdaSlxvz-I6zEZq9mXdqU');
  });
  it('are not derived from an empty secret', () => {
    assert.throws(() => deriveKey('', 'cookies'), TypeError);
  });
});
