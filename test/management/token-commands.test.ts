import { assert, expect } from 'chai';
import { decodeJwt } from 'jose';
import { rotateSigningKeys } from '../../src/keys/signing-keys.ts';
import { findMintedToken, recordLastUse } from '../../src/links/minted-tokens.ts';
import { accessTo, gatehouse, MINT, useCommandLine } from './command-line.ts';
import { ACCESS_TOKEN_LIFETIME, RESOURCE_URL } from './management-host.ts';

const NOW = Math.floor(Date.now() / 1000);

describe('the command line', () => {
  const { host, done, json } = useCommandLine();

  it('token update renames a minted token and makes it expire earlier, and never later', async () => {
    const { id } = await json(...MINT);
    const stdout = await done('token', 'update', id, '--name', 'Weekly', '--expires', '7d');
    expect(stdout).to.match(new RegExp(`^Changed "Weekly" \\(${id}\\)\\. It expires \\d{4}-`));
    const expiresAt = host().now() + 7 * 86_400;
    expect(await findMintedToken(host().store, id)).to.include({ name: 'Weekly', expiresAt });
    const later = await gatehouse(['token', 'update', id, '--expires', '8d'], accessTo(host()));
    expect([later.code, later.stdout]).to.deep.equal([1, '']);
    expect(later.stderr).to.include('expiresAt: at most');
  });

  describe('token mint', () => {
    it('token mint prints the token and how to use it', async () => {
      const stdout = await done(...MINT);
      const token = /Authorization: Bearer (\S+)$/m.exec(stdout)?.[1] ?? '';
      expect(decodeJwt(token).aud).to.equal(`${RESOURCE_URL}/mcp`);
      expect(stdout).to.match(/^Minted a token\. It is shown only once\./);
      expect(stdout).to.include('Report').and.include('analytics');
      const id = /gatehouse token revoke (\S+)$/m.exec(stdout)?.[1] ?? '';
      expect(await findMintedToken(host().store, id)).to.include({
        name: 'Report',
        level: 'analytics',
        lastFour: token.slice(-4),
      });
    });

    it('token mint prints the limit on calls', async () => {
      expect(await done(...MINT, '--calls', '5/1m')).to.match(/^ {2}calls +5\/1m$/m);
    });

    it('token mint prints a complete mcp.json', async () => {
      const stdout = await done(...MINT);
      const [token] = /\beyJ\S+$/m.exec(stdout) ?? [];
      const [settings = ''] = /^\{.*^\}$/ms.exec(stdout) ?? [];
      expect(JSON.parse(settings)).to.deep.equal({
        mcpServers: {
          gatehouse: {
            type: 'http',
            url: `${RESOURCE_URL}/mcp`,
            headers: { Authorization: `Bearer ${token}` },
          },
        },
      });
    });

    it('token mint prints exactly the minted token with --json', async () => {
      const minted = await json(...MINT, '--expires', '30d');
      expect(minted).to.have.all.keys('id', 'name', 'level', 'token', 'expiresAt');
      expect(minted).to.include({ name: 'Report', level: 'analytics' });
      const { iat = 0, exp = 0 } = decodeJwt(minted.token);
      expect(exp - iat).to.equal(30 * 86_400);
    });

    it('--expires accepts a time or a day and defaults to 90 days', async () => {
      const moment = new Date((NOW + 40 * 86_400) * 1000).toISOString();
      expect(await json(...MINT, '--expires', moment)).to.include({ expiresAt: moment });
      const day = moment.slice(0, 10);
      const expiresAt = `${day}T00:00:00.000Z`;
      expect(await json(...MINT, '--expires', day)).to.include({ expiresAt });
      const usual = Date.parse((await json(...MINT)).expiresAt) / 1000;
      expect(usual - host().now()).to.equal(90 * 86_400);
    });
  });

  describe('token list and revoke', () => {
    it('the list is a table with one line for each token and marks tokens whose key was replaced', async () => {
      const moment = '2100-01-01T00:00:00Z';
      host().clock.ahead = Date.parse('2099-12-01T00:00:00Z') / 1000 - host().now();
      const dead = await json(...MINT, '--expires', moment);
      const rotation = { accessTokenLifetime: ACCESS_TOKEN_LIFETIME, atOnce: true };
      await rotateSigningKeys(host().store, rotation, host().now());
      host().clock.ahead += 1;
      const alive = await json(...MINT, '--expires', moment);
      const record = await findMintedToken(host().store, alive.id);
      assert(record);
      await recordLastUse(host().store, record, Date.parse('2099-12-24T18:00:00Z') / 1000);
      const stdout = await done('token', 'list');
      expect(stdout.trimEnd().split('\n')).to.deep.equal([
        'ID                                NAME    LEVEL      ENDS IN  LAST USED             EXPIRES',
        `${dead.id}  Report  analytics  …${dead.token.slice(-4)}    never                 key replaced: mint again`,
        `${alive.id}  Report  analytics  …${alive.token.slice(-4)}    2099-12-24 18:00 UTC  2100-01-01 00:00 UTC`,
      ]);
      for (const { token } of [dead, alive]) expect(stdout).to.not.include(token);
    });

    it('the list with --json has the records without the tokens themselves', async () => {
      const { token, ...minted } = await json(...MINT);
      const { items } = await json('token', 'list');
      const [{ createdAt }] = items;
      expect(items).to.deep.equal([
        { ...minted, createdAt, by: 'key:default', lastFour: token.slice(-4) },
      ]);
    });

    it('token revoke revokes a token once', async () => {
      const { id } = await json(...MINT);
      expect(await done('token', 'revoke', id))
        .to.include('Revoked "Report"')
        .and.include(id);
      expect(await findMintedToken(host().store, id)).to.equal(undefined);
      const { id: other } = await json(...MINT);
      expect(await json('token', 'revoke', other)).to.include({ id: other, name: 'Report' });
    });
  });
});
