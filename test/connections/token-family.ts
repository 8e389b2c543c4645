import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, readAudit, type AuditItem } from '../support/management-api.ts';
import { freezeClockAt } from '../support/clock.ts';
import { connect, type Connection, type ConnectOptions } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh, type Parameters, type TokenResponse } from '../support/oauth.ts';
import type { System } from '../support/system.ts';
import { until } from '../support/until.ts';

/** A connection with a refresh token. */
export type TokenFamily = Connection & { refreshToken: string };

/** Connects to `connector`, by default to a new one. */
export async function connectWithRefreshToken(
  system: System,
  options: ConnectOptions = {},
  connector?: { link: string },
): Promise<TokenFamily> {
  const connection = await connect(system, connector ?? (await createConnector(system)), options);
  const { refreshToken } = connection;
  if (refreshToken === undefined) throw new Error('the client got no refresh token');
  return { ...connection, refreshToken };
}

export function present(
  { server, client }: Pick<TokenFamily, 'server' | 'client'>,
  token: string | undefined,
  more: Parameters = {},
): Promise<TokenResponse> {
  return refresh(server, client, token, more);
}

export type Tokens = { accessToken: string; refreshToken: string };

/** Refreshes. Throws if the refresh is refused. */
export async function rotate(family: TokenFamily, token: string): Promise<Tokens> {
  return tokensOf(await present(family, token));
}

export function tokensOf({ status, body }: TokenResponse): Tokens {
  const { access_token: accessToken, refresh_token: refreshToken } = body;
  if (!accessToken || !refreshToken) throw new Error(`${status} ${JSON.stringify(body)}`);
  return { accessToken, refreshToken };
}

/** Expects that every access token and refresh token is refused. */
export async function expectEnded(
  family: Pick<TokenFamily, 'link' | 'server' | 'client'>,
  { accessTokens, refreshTokens }: { accessTokens: string[]; refreshTokens: string[] },
): Promise<void> {
  for (const token of accessTokens) expect(await isAccepted(family.link, token)).to.equal(false);
  for (const token of refreshTokens) {
    const { status, body } = await present(family, token);
    expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
  }
}

/** Expects that the tokens work and can be rotated. */
export async function expectAlive(family: TokenFamily, tokens: Tokens): Promise<void> {
  expect(await isAccepted(family.link, tokens.accessToken)).to.equal(true);
  const next = await rotate(family, tokens.refreshToken);
  expect(await isAccepted(family.link, next.accessToken)).to.equal(true);
}

/** The audit items of the grant of this access token, after its approval. */
export async function auditOf(system: System, accessToken: string): Promise<AuditItem[]> {
  const { grant_id: grantId } = decodeJwt(accessToken);
  return (await readAudit(system)).filter(
    (item) => item.grantId === grantId && item.event !== 'consent_approved',
  );
}

/** Waits with the clock stopped, so that no cached record expires and only a notice to the process makes `check` true. */
export async function untilNoticed(what: string, check: () => Promise<boolean>): Promise<void> {
  freezeClockAt(Date.now() / 1000);
  await until(what, check);
}

export function times<T>(count: number, run: (number: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, number) => run(number)));
}
