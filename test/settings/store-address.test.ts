import { assert } from 'chai';
import { z } from 'zod';
import { parseStoreAddress } from '../../src/settings/addresses.ts';

const schema = z.string().transform(parseStoreAddress);

const two = [
  { host: 'one.example', port: 7000 },
  { host: '10.0.0.2', port: 7001 },
];

describe('a store address', () => {
  const read = {
    'sqlite:gatehouse.sqlite': { kind: 'sqlite', file: 'gatehouse.sqlite' },
    'sqlite:/var/lib/gate house/store.db': { kind: 'sqlite', file: '/var/lib/gate house/store.db' },
    'redis://localhost': { kind: 'redis', url: 'redis://localhost' },
    'redis://:p%40ss@localhost:6380/2': { kind: 'redis', url: 'redis://:p%40ss@localhost:6380/2' },
    'rediss://[::1]:6380': { kind: 'redis', url: 'rediss://[::1]:6380' },
    'redis+cluster://one.example:7000,10.0.0.2:7001': { kind: 'cluster', nodes: two, tls: false },
    'rediss+cluster://one.example:7000,10.0.0.2:7001': { kind: 'cluster', nodes: two, tls: true },
    'redis+cluster://:p%40ss@[fe80::1]:7000': {
      kind: 'cluster',
      nodes: [{ host: 'fe80::1', port: 7000 }],
      password: 'p@ss',
      tls: false,
    },
    'redis+sentinel://one.example:7000,10.0.0.2:7001/main': {
      kind: 'sentinel',
      nodes: two,
      name: 'main',
      tls: false,
    },
    'rediss+sentinel://gate:s%2Fcret@one.example:7000,10.0.0.2:7001/my-main.1': {
      kind: 'sentinel',
      nodes: two,
      name: 'my-main.1',
      username: 'gate',
      password: 's/cret',
      tls: true,
    },
    'redis://localhost?family=6': { kind: 'redis', url: 'redis://localhost?family=6' },
    'redis+sentinel://:a@one.example:7000/main?sentinelUsername=watcher&sentinelPassword=p+a%26b': {
      kind: 'sentinel',
      nodes: [{ host: 'one.example', port: 7000 }],
      name: 'main',
      password: 'a',
      sentinelUsername: 'watcher',
      sentinelPassword: 'p+a&b',
      tls: false,
    },
  };
  for (const [text, address] of Object.entries(read)) {
    it(`the store address ${text} is parsed`, () =>
      assert.deepEqual<unknown>(schema.parse(text), address));
  }

  const refused = [
    '',
    'gatehouse.sqlite',
    'sqlite:',
    'redis:localhost',
    'redis://',
    'redis://host:99999',
    'http://localhost:6379',
    'memory:',
    'redis+cluster://',
    'redis+cluster://one.example',
    'redis+cluster://one.example:7000,',
    'redis+cluster://one.example:70000',
    'redis+cluster://one.example:7000/main',
    'redis+sentinel://one.example:7000',
    'redis+sentinel://one.example:7000/',
    'redis+sentinel://one.example:7000/main/more',
    'redis+other://one.example:7000',
    'redis://localhost/three',
    'redis://localhost/3/4',
    'redis://localhost?db=3',
    'redis://localhost?connectTimeout=60000',
    'redis+cluster://one.example:7000?family=6',
    'redis+sentinel://one.example:7000/main?password=x',
    'redis+sentinel://one.example:7000/main?sentinelPassword=',
    'redis+sentinel://one.example:7000/main?sentinelPassword=a&sentinelPassword=b',
    'redis+sentinel://one.example:7000/main?sentinelPassword=p%zz',
    'redis://gate:p%zz@one.example:7000',
    'redis+cluster://gate:p%zz@one.example:7000',
    'redis+sentinel://gate:p%zz@one.example:7000/main',
    'rediss+sentinel://ga%te:pass@one.example:7000/main',
  ];
  for (const text of refused) {
    it(`the store address ${JSON.stringify(text)} is refused, and the message lists the valid forms`, () => {
      const { success, error } = schema.safeParse(text);
      assert.isFalse(success);
      assert.include(error?.issues[0]?.message, 'redis+cluster://host:port');
    });
  }
});
