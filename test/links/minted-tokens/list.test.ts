import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import {
  listMintedTokens,
  type MintedToken,
  mintToken,
  recordLastUse,
  revokeMintedToken,
} from '../../../src/links/minted-tokens.ts';
import { openStore, type OpenedStore } from '../../../src/store/open.ts';
import { PATIENT_TIMEOUTS } from '../../support/scale-out/patient-timeouts.ts';

const SECRET = 'the root secret of the first day, long enough';
const ADDRESSES = { issuer: 'https://auth.example.com', resourceUrl: 'https://mcp.example.com' };
const now = () => Date.now() / 1000;

describe('The list of minted tokens', () => {
  let dataDir: string;
  let store: OpenedStore;
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-minted-'));
    store = await open(SECRET);
  });
  afterEach(async () => {
    await store.close();
    await rm(dataDir, { recursive: true });
  });

  function open(secret: string): Promise<OpenedStore> {
    const address = { kind: 'sqlite', file: 'minted.sqlite' } as const;
    return openStore(address, { secret, dataDir, timeouts: PATIENT_TIMEOUTS });
  }

  async function mintAt(moment: number, seconds: number, name = 'Report'): Promise<MintedToken> {
    const wanted = { name, level: 'analytics', expiresAt: moment + seconds } as const;
    return (await mintToken(store, wanted, ADDRESSES, moment)).record;
  }

  it('the list is sorted by age, to the millisecond', async () => {
    const start = Math.floor(now());
    for (const [name, moment] of [
      ['C', start + 0.003],
      ['A', start - 60],
      ['D', start + 60],
      ['B', start + 0.001],
    ] as const)
      await mintAt(moment, 3600, name);
    const names = (await listMintedTokens(store, start + 60)).map(({ name }) => name);
    expect(names).to.deep.equal(['A', 'B', 'C', 'D']);
  });

  it('a token is listed until the second it expires', async () => {
    const moment = Math.floor(now());
    const token = await mintAt(moment, 3600);
    expect(await listMintedTokens(store, moment + 3599.9)).to.deep.equal([token]);
    expect(await listMintedTokens(store, moment + 3600)).to.deep.equal([]);
  });

  it('a token whose record cannot be read stays in the list', async () => {
    const token = await mintAt(now(), 3600);
    const db = new DatabaseSync(join(dataDir, 'minted.sqlite'));
    const change = (operation: string) =>
      db.exec(`UPDATE entry SET value = CAST(${operation} AS BLOB) WHERE name LIKE 'minted%'`);
    db.exec('CREATE TEMP TABLE kept AS SELECT * FROM entry');
    change('substr(value, 2)');
    expect(await listMintedTokens(store, now())).to.deep.equal([]);
    change('(SELECT value FROM kept WHERE kept.name = entry.name)');
    db.close();
    const [listed] = await listMintedTokens(store, now());
    expect(listed).to.include(token);
  });

  it('a token that is used and revoked at the same time is not listed', async () => {
    const token = await mintAt(now(), 3600);
    await Promise.all([
      recordLastUse(store, token, now()),
      revokeMintedToken(store, token.id),
      recordLastUse(store, token, now()),
    ]);
    await recordLastUse(store, token, now() + 3000);
    expect(await listMintedTokens(store, now())).to.deep.equal([]);
  });
});
