// Records in the oldest version that is still read. Change them only when support for that version ends.

/** `now` in seconds. The account is Ada of the development identity provider. */
export function recordsOfVersion1(now: number, { resource, issuer }: Addresses) {
  const connector = 'ConnectorOfVersion1AAA';
  const account = 'account-of-version-1-AAAAAA';
  const client = 'client-of-version-1-A';
  const grant = 'grant-of-version-1-AAAAAAAAAAAAAAAAAAAAAAAA';
  const link = `${resource}/connect/${connector}/mcp`;
  const scope = 'analytics operations offline_access';
  const approved = Math.floor(now) - 7200;
  const refreshed = Math.floor(now) - 3600;
  return {
    link,
    client,
    grant,
    seed: 'c2VlZCBvZiB2ZXJzaW9uIDE',
    generation: 7,
    values: {
      [`connector:${connector}`]: {
        id: connector,
        name: 'Club figures',
        level: 'operations',
        createdAt: approved - 60,
        used: 1,
        uses: [],
      },
      [`account:${account}`]: {
        id: account,
        issuer,
        subject: 'ada',
        name: 'Ada Lovelace',
        emailVerified: false,
        groups: [],
        signedInAt: approved,
      },
      [`client:${client}`]: {
        metadata: {
          client_id: client,
          redirect_uris: ['http://127.0.0.1:7070/callback'],
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
          token_endpoint_auth_method: 'none',
        },
      },
      [`grant:${grant}`]: {
        version: 1,
        seed: 'c2VlZCBvZiB2ZXJzaW9uIDE',
        connector,
        client: { name: 'Old client', redirectHost: '127.0.0.1:7070' },
        createdAt: approved,
        grant: {
          kind: 'Grant',
          jti: grant,
          iat: approved,
          exp: approved + 90 * 86_400,
          accountId: account,
          clientId: client,
          openid: { scope },
          resources: { [link]: scope },
        },
        refresh: {
          payload: {
            kind: 'RefreshToken',
            iat: approved,
            accountId: account,
            clientId: client,
            grantId: grant,
            gty: 'authorization_code',
            resource: link,
            scope,
            rotations: 0,
            iiat: approved,
          },
          generation: 7,
          turns: [[6, 6, refreshed]],
        },
      },
    },
  };
}

type Addresses = { resource: string; issuer: string };
