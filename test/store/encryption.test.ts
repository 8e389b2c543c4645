import { assert } from 'chai';
import { createSecretKey, randomBytes } from 'node:crypto';
import { deriveKey } from '../../src/store/key-derivation.ts';
import { createEncryption, type RingKey } from '../../src/store/encryption.ts';
import { keysOfVersion1 } from './version-1-store.ts';

const nameKey = createSecretKey(randomBytes(32));
const ringKey = (id: number): RingKey => ({ id, key: createSecretKey(randomBytes(32)) });
const first = ringKey(1);
const second = ringKey(2);
const NAME = 'thing:name';

describe('An encrypted value', () => {
  const encryption = createEncryption({ nameKey, ring: [first] });
  const encrypted = encryption.encrypt(NAME, { text: 'naïve 門' });

  it('an encrypted value is decrypted only under the name it was encrypted for', () => {
    assert.deepEqual(encryption.decrypt(NAME, encrypted), { text: 'naïve 門' });
    assert.isUndefined(encryption.decrypt('thing:other', encrypted));
  });
  it('an encrypted value with a changed, missing or extra byte is not decrypted', () => {
    for (let i = 0; i < encrypted.length; i++) {
      const changed = Buffer.from(encrypted);
      changed[i] = (changed[i] ?? 0) ^ 1;
      assert.isUndefined(encryption.decrypt(NAME, changed), `byte ${i}`);
      assert.isUndefined(encryption.decrypt(NAME, encrypted.subarray(0, i)), `cut at ${i}`);
    }
    assert.isUndefined(encryption.decrypt(NAME, Buffer.concat([encrypted, Buffer.of(0)])));
  });
  it('encrypting the same value twice gives different bytes', () => {
    const envelopes = Array.from({ length: 100 }, () =>
      encryption.encrypt(NAME, 1).toString('hex'),
    );
    assert.equal(new Set(envelopes).size, 100);
  });
  it('an encrypted value starts with the format version and the key id', () => {
    assert.deepEqual(
      [
        ...createEncryption({ nameKey, ring: [second] })
          .encrypt(NAME, 1)
          .subarray(0, 2),
      ],
      [1, 2],
    );
  });
});

describe('The encryption key ring', () => {
  it('the key ring decrypts with any of its keys and encrypts with the first', () => {
    const old = createEncryption({ nameKey, ring: [first] }).encrypt(NAME, 'old');
    const rotated = createEncryption({ nameKey, ring: [second, first] });
    assert.equal(rotated.decrypt(NAME, old), 'old');
    assert.equal(
      createEncryption({ nameKey, ring: [second] }).decrypt(NAME, rotated.encrypt(NAME, 'new')),
      'new',
    );
  });
  it('the key ring does not decrypt values of a missing key, or of another key with the same id', () => {
    const encrypted = createEncryption({ nameKey, ring: [first] }).encrypt(NAME, 1);
    assert.isUndefined(createEncryption({ nameKey, ring: [second] }).decrypt(NAME, encrypted));
    assert.isUndefined(createEncryption({ nameKey, ring: [ringKey(1)] }).decrypt(NAME, encrypted));
  });
  it('a key ring without keys is rejected', () => {
    assert.throws(() => createEncryption({ nameKey, ring: [] }), TypeError);
  });
});

describe('The name of a record', () => {
  const encryption = createEncryption({ nameKey, ring: [first] });

  it('the name of a record shows the kind, hides the id and is deterministic', () => {
    assert.match(encryption.name('thing:secret'), /^thing:[\w-]{43}$/);
    assert.equal(encryption.name('thing:secret'), encryption.name('thing:secret'));
  });
  it('the name of a record depends on the kind, the id and the name key', () => {
    const other = createEncryption({ nameKey: createSecretKey(randomBytes(32)), ring: [first] });
    const names = [
      encryption.name('a:1'),
      encryption.name('b:1'),
      encryption.name('a:2'),
      other.name('a:1'),
    ];
    assert.equal(new Set(names.map((name) => name.slice(2))).size, 4);
  });
  it('the name of a member depends on its set', () => {
    assert.notEqual(encryption.field('set:a', 'ada'), encryption.field('set:b', 'ada'));
    assert.equal(encryption.field('set:a', 'ada'), encryption.field('set:a', 'ada'));
  });
  it('a key without a kind is rejected', () => {
    for (const key of ['secret', ':secret', ''])
      assert.throws(() => encryption.name(key), TypeError);
  });
});

describe('Keys derived from the root secret', () => {
  it('a derived key has 32 bytes, is deterministic, and depends on the purpose and the secret', () => {
    const key = deriveKey('a root secret', 'cookies');
    assert.lengthOf(key, 32);
    assert.deepEqual(deriveKey('a root secret', 'cookies'), key);
    assert.notDeepEqual(deriveKey('a root secret', 'forms'), key);
    assert.notDeepEqual(deriveKey('another secret', 'cookies'), key);
  });
  // A change of the derivation would make every existing store unreadable.
  it('derived keys do not change between versions', () => {
    const key = deriveKey('a root secret', 'cookies').toString('base64url');
    assert.equal(key, 'w06xQIgRMTvmxJ5TbIuZd7jSBQC9o3r_t2bONbbSVIk');
    const encryption = createEncryption(keysOfVersion1(['a root secret']));
    assert.equal(encryption.name('thing:1'), 'thing:lgu95xhDyfhZ4oujUjkgNEtdaSlxvz-I6zEZq9mXdqU');
  });
  it('an empty root secret is rejected', () => {
    assert.throws(() => deriveKey('', 'cookies'), TypeError);
  });
});
