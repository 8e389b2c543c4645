import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createProof, generateProofKey, type ProofKey } from '../support/dpop.ts';
import { createConnector } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { startSystem, type System } from '../support/system.ts';
import { exchangeJwt, type Platform, startPlatform } from '../support/workload-platform.ts';

describe('Workloads and DPoP', () => {
  let platform: Platform;
  let system: System;
  let link = '';
  let key: ProofKey;
  before(async () => {
    platform = await startPlatform();
    key = await generateProofKey();
    const workloads = [
      { id: 'any', match: { subject: 'job' }, connector: 'Jobs', level: 'operations' },
    ];
    const trusted = { id: 'ci', issuer: platform.issuer, workloads, singleUse: true };
    const authorization = { trustedIssuers: [trusted], requireDpop: 'operations' };
    system = await startSystem({ file: { authorization } });
    link = (await createConnector(system, { name: 'Jobs', level: 'admin' })).link;
  });
  after(async () => {
    await system?.stop();
    await platform?.stop();
  });

  const signed = (jti: string) => {
    const iat = Math.floor(Date.now() / 1000);
    return platform.sign({
      iss: platform.issuer,
      sub: 'job',
      aud: system.auth,
      iat,
      exp: iat + 300,
      jti,
    });
  };
  const prove = () => createProof(key, { url: `${system.auth}/oauth/token` });

  it('WIF-21 a level that requires DPoP is given with a proof alone, and the token is bound to its key', async () => {
    const without = { assertion: await signed('plain'), resource: link };
    expect((await exchangeJwt(system.auth, without)).body).to.include({
      scope: 'analytics',
      token_type: 'Bearer',
    });
    const form = { assertion: await signed('bound'), resource: link };
    const { status, body } = await exchangeJwt(system.auth, form, { dpop: await prove() });
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(body).to.include({ scope: 'operations', token_type: 'DPoP' });
    const token = String(body['access_token']);
    expect(decodeJwt(token)['cnf']).to.deep.equal({ jkt: key.thumbprint });
    expect((await callTool(link, token, 'club_overview')).status).to.equal(401);
  });

  it('WIF-21 a proof that was used before is refused, and uses up no JWT', async () => {
    const proof = await prove();
    const first = { assertion: await signed('first'), resource: link };
    expect((await exchangeJwt(system.auth, first, { dpop: proof })).status).to.equal(200);
    const second = { assertion: await signed('second'), resource: link };
    const { status, body } = await exchangeJwt(system.auth, second, { dpop: proof });
    expect([status, body['error']]).to.deep.equal([400, 'invalid_dpop_proof']);
    expect((await exchangeJwt(system.auth, second, { dpop: await prove() })).status).to.equal(200);
  });
});
