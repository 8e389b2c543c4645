import { expect } from 'chai';
import {
  createConnector,
  deleteConnector,
  readAudit,
  revokeConnector,
} from '../support/management-api.ts';
import { requirePage } from '../support/browser.ts';
import { connect, obtainCode, redeem } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { authorizeUrl, refresh } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

type Body = { items?: { id: string }[]; error?: string; error_description?: string };

describe('A deleted connector', () => {
  const system = useSystem();

  async function manage(method: string, path: string, body?: object) {
    const { management, managementKey } = system();
    const answer = await fetch(`${management}/api/v1/connectors${path}`, {
      method,
      headers: { authorization: `Bearer ${managementKey}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return { status: answer.status, body: (await answer.json()) as Body };
  }

  async function deleted() {
    const connector = await createConnector(system());
    const connection = await connect(system(), connector);
    expect(await isAccepted(connector.link, connection.accessToken)).to.equal(true);
    const code = await obtainCode(system(), connector, { person: 'grace' });
    await revokeConnector(system(), connector.id);
    await deleteConnector(system(), connector.id);
    return { ...connection, connector, code };
  }

  it("CNX-03 a deleted connector's link, tokens and grants are rejected everywhere", async () => {
    const { connector, link, accessToken, refreshToken, server, client, browser, code } =
      await deleted();
    const { origin, pathname } = new URL(link);
    const document = `${origin}/.well-known/oauth-protected-resource${pathname}`;
    expect((await fetch(document)).status).to.equal(404);
    for (const token of [undefined, 'x', accessToken]) {
      const { status, headers } = await callTool(link, token, 'club_overview');
      expect([status, headers.has('www-authenticate')]).to.deep.equal([404, false]);
    }
    const { url } = authorizeUrl(server, client, { resource: link });
    expect(requirePage(await browser.visit(url)).status).to.equal(400);
    for (const { status, body } of [
      await refresh(server, client, refreshToken),
      await redeem(code),
    ])
      expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
    for (const [method, path] of [
      ['GET', `/${connector.id}`],
      ['DELETE', `/${connector.id}`],
      ['POST', `/${connector.id}/delete`],
    ] as const)
      expect((await manage(method, path)).status, method).to.equal(404);
    const { items } = (await manage('GET', '')).body;
    expect(items?.map(({ id }) => id)).to.not.include(connector.id);
    const events = (await readAudit(system())).filter((item) => item.connector === connector.id);
    expect(events.map(({ event }) => event).slice(-2)).to.deep.equal([
      'connector_revoked',
      'connector_deleted',
    ]);
  });

  it('CNX-03 no later connector gets the id of a deleted one', async () => {
    const { connector, accessToken, server, client, refreshToken } = await deleted();
    const { id, name, level } = connector;
    const again = await createConnector(system());
    expect(again.id).to.not.equal(id);
    expect(await isAccepted(again.link, accessToken)).to.equal(false);
    const refused = await manage('POST', '', { id, name, level });
    expect([refused.status, refused.body.error]).to.deep.equal([400, 'invalid_request']);
    for (const method of ['PUT', 'POST'])
      expect((await manage(method, `/${id}`, { name, level })).status, method).to.equal(405);
    expect((await manage('PATCH', `/${id}`, { name, level })).status).to.equal(404);
    expect((await manage('PATCH', `/${again.id}`, { id })).status).to.equal(400);
    expect((await refresh(server, client, refreshToken)).body.error).to.equal('invalid_grant');
  });

  it('a connector must be revoked or expired before it can be deleted', async () => {
    const connector = await createConnector(system());
    const { accessToken } = await connect(system(), connector);
    const { status, body } = await manage('POST', `/${connector.id}/delete`);
    expect([status, body.error]).to.deep.equal([409, 'still_in_use']);
    expect(body.error_description).to.include('revoke it before you delete it');
    expect(await isAccepted(connector.link, accessToken)).to.equal(true);
  });

  it('concurrent deletions of one connector delete it once', async () => {
    const { id } = await createConnector(system());
    await revokeConnector(system(), id);
    const deleting = Array.from({ length: 10 }, () => manage('POST', `/${id}/delete`));
    const statuses = (await Promise.all(deleting)).map(({ status }) => status);
    expect(statuses.sort()).to.deep.equal([200, ...Array(9).fill(404)]);
    const events = (await readAudit(system())).filter(({ event }) => event === 'connector_deleted');
    expect(events.filter(({ connector }) => connector === id)).to.have.length(1);
  });
});
