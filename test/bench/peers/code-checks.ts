// Checks of codes, PKCE, redirect addresses and consent (RFC 6749 section 4.1, RFC 7636, OAuth 2.1).
import { setTimeout as delay } from 'node:timers/promises';
import { type Check, type CheckResult, passedIf, repeatedly } from './check.ts';
import {
  authorize,
  connectionFrom,
  grantedAmong,
  isRefused,
  newBrowser,
  newClient,
  obtainCode,
  redeem,
  refreshOnce,
  type Session,
} from './session.ts';

const REDEMPTIONS = 20;

const race: Check = {
  rows: [`${REDEMPTIONS} redemptions of one code at once: exactly one succeeds`],
  async run(session) {
    const won = await repeatedly(async () => {
      const code = await obtainCode(session);
      const tries = Array.from({ length: REDEMPTIONS }, () => redeem(session, code));
      return (await grantedAmong(tries)).length;
    });
    return [
      passedIf(
        won.every((count) => count === 1),
        `${won.join(', ')} succeeded`,
      ),
    ];
  },
};

const reuse: Check = {
  rows: [
    'a code that was used is refused two seconds later',
    'and what it gave ends (RFC 6749 section 4.1.2: should)',
  ],
  async run(session) {
    const code = await obtainCode(session);
    const connection = connectionFrom(code, await redeem(session, code));
    // Gatehouse treats a repetition within a second as a duplicate request.
    await delay(2000);
    const refused = isRefused(await redeem(session, code));
    const over = isRefused(await refreshOnce(session, connection));
    return [passedIf(refused), passedIf(over)];
  },
};

const otherClient: Check = {
  rows: ['the code of one client is refused to another'],
  async run(session) {
    const code = await obtainCode(session);
    const client = await newClient(session);
    return [passedIf(isRefused(await redeem(session, { ...code, client })))];
  },
};

const pkceAsked: Check = {
  rows: ['no authorization without PKCE', 'no authorization with PKCE plain'],
  async run(session) {
    await obtainCode(session);
    const missing = { code_challenge: undefined, code_challenge_method: undefined };
    const verifier = 'v'.repeat(43);
    const plain = { code_challenge: verifier, code_challenge_method: 'plain' };
    return [await isRejected(session, missing), await isRejected(session, plain)];
  },
};

async function isRejected(session: Session, parameters: Record<string, string | undefined>) {
  return passedIf((await authorize(session, { parameters })).code === undefined);
}

const pkceAnswered: Check = {
  rows: ['a wrong verifier is refused', 'no verifier is refused'],
  async run(session) {
    const verifiers = ['w'.repeat(43), undefined];
    const results: CheckResult[] = [];
    for (const code_verifier of verifiers) {
      const answer = await redeem(session, await obtainCode(session), { code_verifier });
      results.push(passedIf(isRefused(answer)));
    }
    return results;
  },
};

const redirects: Check = {
  rows: ['a redirect address that is not exactly the registered one is never gone to'],
  async run(session) {
    const client = await newClient(session);
    await obtainCode(session, { client });
    const { redirectUri } = client;
    const wrong = [
      `${redirectUri}/more`,
      `${redirectUri}?more=1`,
      `${redirectUri}#more`,
      redirectUri.replace('127.0.0.1', 'localhost'),
      redirectUri.replace('127.0.0.1', 'evil.example'),
    ];
    const gone: string[] = [];
    for (const redirect_uri of wrong)
      if ((await authorize(session, { client, parameters: { redirect_uri } })).departure)
        gone.push(redirect_uri);
    return [passedIf(gone.length === 0, gone.length ? `went to ${gone.join(', ')}` : undefined)];
  },
};

const consent: Check = {
  rows: [
    'consent given to one client does not let in another',
    'consent given for one link does not open another',
  ],
  async run(session) {
    const browser = newBrowser(session);
    const client = await newClient(session);
    await obtainCode(session, { browser, client });
    const other = await authorize(session, { browser });
    const [, link] = session.running.links;
    const elsewhere = await authorize(session, { browser, client, link });
    return [passedIf(other.asked), passedIf(elsewhere.asked)];
  },
};

export const codeChecks = [
  race,
  reuse,
  otherClient,
  pkceAsked,
  pkceAnswered,
  redirects,
  consent,
] as const;
