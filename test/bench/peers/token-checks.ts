// Checks of refresh tokens, audiences and revocation (RFC 6749 section 6, RFC 8707, RFC 7009).
import { setTimeout as delay } from 'node:timers/promises';
import { authenticated } from '../../support/oauth.ts';
import { type Check, passedIf, repeatedly } from './check.ts';
import {
  connect,
  type Connection,
  grantedAmong,
  isGranted,
  isRefused,
  isAccepted,
  newClient,
  requireRefreshToken,
  obtainCode,
  redeem,
  refreshOnce,
  type Session,
} from './session.ts';

const AT_ONCE = 8;
const NO_RESOURCE_SERVER = { note: 'no resource server' };

const race: Check = {
  rows: [
    `${AT_ONCE} refreshes with one token at once: the person stays connected`,
    'and every one of them is answered and can go on',
    'and one line of refresh tokens comes of it',
  ],
  async run(session) {
    const races = await repeatedly(() => raceOf(session));
    const counts = races.map(({ given, going }) => `${given} answered, ${going} go on`).join('; ');
    const lines = races.map((each) => each.lines);
    return [
      passedIf(
        races.every(({ going }) => going > 0),
        counts,
      ),
      passedIf(
        races.every(({ going }) => going === AT_ONCE),
        counts,
      ),
      passedIf(
        lines.every((count) => count <= 1),
        `${lines.join(', ')} lines`,
      ),
    ];
  },
};

/** The number of successful responses, how many of their tokens could be refreshed, and the number of different tokens. */
async function raceOf(session: Session) {
  const connection = await connect(session);
  const tries = Array.from({ length: AT_ONCE }, () => refreshOnce(session, connection));
  const given = (await grantedAmong(tries)).map(requireRefreshToken);
  const going: string[] = [];
  for (const refreshToken of given)
    if (isGranted(await refreshOnce(session, { ...connection, refreshToken })))
      going.push(refreshToken);
  return { given: given.length, going: going.length, lines: new Set(going).size };
}

const lostReply: Check = {
  rows: ['a refresh whose reply was lost can be sent again'],
  async run(session) {
    const connection = await connect(session);
    await refreshOnce(session, connection);
    const again = await refreshOnce(session, connection);
    if (!isGranted(again)) return [passedIf(false)];
    const next = await refreshOnce(session, {
      ...connection,
      refreshToken: requireRefreshToken(again),
    });
    return [passedIf(isGranted(next))];
  },
};

const replay: Check = {
  rows: [
    'a refresh token whose successor was used is refused a minute later',
    'and the family it is of ends (RFC 9700 section 4.14.2)',
  ],
  async run(session) {
    const connection = await connect(session);
    const second = requireRefreshToken(await refreshOnce(session, connection));
    const third = requireRefreshToken(
      await refreshOnce(session, { ...connection, refreshToken: second }),
    );
    return async () => {
      const refused = isRefused(await refreshOnce(session, connection));
      const over = isRefused(await refreshOnce(session, { ...connection, refreshToken: third }));
      return [passedIf(refused), passedIf(over)];
    };
  },
};

const otherClient: Check = {
  rows: ['the refresh token of one client is refused to another'],
  async run(session) {
    const connection = await connect(session);
    const client = await newClient(session);
    return [passedIf(isRefused(await refreshOnce(session, { ...connection, client })))];
  },
};

const audience: Check = {
  rows: [
    'a code for one link is not exchanged for another',
    'a refresh token for one link is not turned into a token for another',
    'a token for one link is refused at another',
  ],
  async run(session) {
    const { links, open } = session.running;
    const more = { resource: links[1] };
    const exchanged = await redeem(session, await obtainCode(session), more);
    const connection = await connect(session);
    const { accessToken, link } = connection;
    const isKept = open && (await requireAccepted(link, accessToken));
    const isAcceptedElsewhere = open && (await isAccepted(links[1], accessToken));
    const turned = await refreshOnce(session, connection, more);
    const atAnother = isKept ? passedIf(!isAcceptedElsewhere) : NO_RESOURCE_SERVER;
    return [passedIf(isRefused(exchanged)), passedIf(isRefused(turned)), atAnother];
  },
};

/** A token that is refused everywhere would prove nothing. */
async function requireAccepted(link: string, token: string): Promise<true> {
  if (await isAccepted(link, token)) return true;
  throw new Error(`a good token was refused at ${link}`);
}

const revocation: Check = {
  rows: [
    'a revoked refresh token is refused',
    'and its access tokens stop working within a second (RFC 7009 section 2.1: should)',
  ],
  async run(session) {
    const connection = await connect(session);
    const { link, accessToken } = connection;
    const { open } = session.running;
    if (open) await requireAccepted(link, accessToken);
    await revoke(session, connection);
    const refused = isRefused(await refreshOnce(session, connection));
    if (!open) return [passedIf(refused), NO_RESOURCE_SERVER];
    await delay(1000);
    return [passedIf(refused), passedIf(!(await isAccepted(link, accessToken)))];
  },
};

async function revoke({ server }: Session, { client, refreshToken }: Connection): Promise<void> {
  const request = authenticated(client, { token: refreshToken, token_type_hint: 'refresh_token' });
  const response = await fetch(server.revocation_endpoint, { method: 'POST', ...request });
  await response.text();
  if (!response.ok) throw new Error(`revocation answered ${response.status}`);
}

export const tokenChecks = [race, lostReply, replay, otherClient, audience, revocation] as const;
