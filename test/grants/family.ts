// One client's grant and all that was issued under it, as the tests of grants see it.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, readAudit, type AuditItem } from '../support/management-api.ts';
import { connect, type Connection, type ConnectOptions } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh, type Parameters, type TokenResponse } from '../support/oauth.ts';
import type { System } from '../support/system.ts';

/** A connection that stays. */
export type Family = Connection & { refreshToken: string };

/** On a connector of its own, unless one is given. */
export async function startFamily(
  system: System,
  wishes: ConnectOptions = {},
  connector?: { link: string },
): Promise<Family> {
  const connection = await connect(system, connector ?? (await createConnector(system)), wishes);
  const { refreshToken } = connection;
  if (refreshToken === undefined) throw new Error('the client was given no refresh token');
  return { ...connection, refreshToken };
}

export function present(
  { server, client }: Pick<Family, 'server' | 'client'>,
  token: string | undefined,
  more: Parameters = {},
): Promise<TokenResponse> {
  return refresh(server, client, token, more);
}

export type Tokens = { accessToken: string; refreshToken: string };

/** What a refresh gave. Throws when it was refused. */
export async function rotate(family: Family, token: string): Promise<Tokens> {
  return tokensOf(await present(family, token));
}

export function tokensOf({ status, body }: TokenResponse): Tokens {
  const { access_token: accessToken, refresh_token: refreshToken } = body;
  if (!accessToken || !refreshToken) throw new Error(`${status} ${JSON.stringify(body)}`);
  return { accessToken, refreshToken };
}

/** Neither the access tokens nor the refresh tokens given are good for anything. */
export async function expectEnded(
  family: Pick<Family, 'link' | 'server' | 'client'>,
  { accessTokens, refreshTokens }: { accessTokens: string[]; refreshTokens: string[] },
): Promise<void> {
  for (const token of accessTokens) expect(await isAccepted(family.link, token)).to.equal(false);
  for (const token of refreshTokens) {
    const { status, body } = await present(family, token);
    expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
  }
}

/** The tokens work; the grant goes on. */
export async function expectAlive(family: Family, tokens: Tokens): Promise<void> {
  expect(await isAccepted(family.link, tokens.accessToken)).to.equal(true);
  const next = await rotate(family, tokens.refreshToken);
  expect(await isAccepted(family.link, next.accessToken)).to.equal(true);
}

/** The audit items about the grant of this access token, whatever they say. */
export async function auditOf(system: System, accessToken: string): Promise<AuditItem[]> {
  const { grant_id: grantId } = decodeJwt(accessToken);
  return (await readAudit(system)).filter((item) => item.grantId === grantId);
}

export function times<T>(count: number, run: (number: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, number) => run(number)));
}
