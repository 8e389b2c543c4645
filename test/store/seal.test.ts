// What is stored can be read with the right key, in its own place, unchanged, and in no other way.
import { assert } from 'chai';
import { createSecretKey, randomBytes } from 'node:crypto';
import { deriveKey, deriveKeys } from '../../src/store/keys.ts';
import { openSealer, type RingKey } from '../../src/store/seal.ts';

const naming = createSecretKey(randomBytes(32));
const ringKey = (id: number): RingKey => ({ id, key: createSecretKey(randomBytes(32)) });
const first = ringKey(1);
const second = ringKey(2);
const PLACE = 'thing:name';

describe('a sealed value', () => {
  const sealer = openSealer({ naming, ring: [first] });
  const sealed = sealer.seal(PLACE, { text: 'naïve 門' });

  it('opens in the place it was sealed for, and in no other', () => {
    assert.deepEqual(sealer.open(PLACE, sealed), { text: 'naïve 門' });
    assert.isUndefined(sealer.open('thing:other', sealed));
  });
  it('does not open when any byte was changed, cut off or added', () => {
    for (let i = 0; i < sealed.length; i++) {
      const changed = Buffer.from(sealed);
      changed[i] = (changed[i] ?? 0) ^ 1;
      assert.isUndefined(sealer.open(PLACE, changed), `byte ${i}`);
      assert.isUndefined(sealer.open(PLACE, sealed.subarray(0, i)), `cut at ${i}`);
    }
    assert.isUndefined(sealer.open(PLACE, Buffer.concat([sealed, Buffer.of(0)])));
  });
  it('never looks the same twice', () => {
    const seals = Array.from({ length: 100 }, () => sealer.seal(PLACE, 1).toString('hex'));
    assert.equal(new Set(seals).size, 100);
  });
  it('carries the version of its envelope and the id of its key', () => {
    assert.deepEqual(
      [
        ...openSealer({ naming, ring: [second] })
          .seal(PLACE, 1)
          .subarray(0, 2),
      ],
      [1, 2],
    );
  });
});

describe('a key ring', () => {
  it('opens what any of its keys sealed, and seals with its first', () => {
    const old = openSealer({ naming, ring: [first] }).seal(PLACE, 'old');
    const turned = openSealer({ naming, ring: [second, first] });
    assert.equal(turned.open(PLACE, old), 'old');
    assert.equal(
      openSealer({ naming, ring: [second] }).open(PLACE, turned.seal(PLACE, 'new')),
      'new',
    );
  });
  it('does not open what a key sealed that it has not, or has another of the same id', () => {
    const sealed = openSealer({ naming, ring: [first] }).seal(PLACE, 1);
    assert.isUndefined(openSealer({ naming, ring: [second] }).open(PLACE, sealed));
    assert.isUndefined(openSealer({ naming, ring: [ringKey(1)] }).open(PLACE, sealed));
  });
  it('holds at least one key', () => {
    assert.throws(() => openSealer({ naming, ring: [] }), TypeError);
  });
});

describe('a name', () => {
  const sealer = openSealer({ naming, ring: [first] });

  it('shows the kind and hides the id, always in the same way', () => {
    assert.match(sealer.name('thing:secret'), /^thing:[\w-]{43}$/);
    assert.equal(sealer.name('thing:secret'), sealer.name('thing:secret'));
  });
  it('differs by kind, by id and by naming key', () => {
    const other = openSealer({ naming: createSecretKey(randomBytes(32)), ring: [first] });
    const names = [sealer.name('a:1'), sealer.name('b:1'), sealer.name('a:2'), other.name('a:1')];
    assert.equal(new Set(names.map((name) => name.slice(2))).size, 4);
  });
  it('of a member differs from set to set', () => {
    assert.notEqual(sealer.field('set:a', 'ada'), sealer.field('set:b', 'ada'));
    assert.equal(sealer.field('set:a', 'ada'), sealer.field('set:a', 'ada'));
  });
  it('needs a kind', () => {
    for (const key of ['secret', ':secret', '']) assert.throws(() => sealer.name(key), TypeError);
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
    const sealer = openSealer(deriveKeys('a root secret'));
    assert.equal(sealer.name('thing:1'), 'thing:lgu95xhDyfhZ4oujUjkgNEtdaSlxvz-I6zEZq9mXdqU');
  });
  it('are not derived from an empty secret', () => {
    assert.throws(() => deriveKey('', 'cookies'), TypeError);
  });
});
