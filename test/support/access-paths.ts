// Every way to use a connect link or a minted token, each repeatable by one person and client.
import { isConsentPage } from './browser.ts';
import { connect, obtainCode, redeem } from './connection.ts';
import { callTool } from './mcp.ts';
import { authorizeUrl, refresh } from './oauth.ts';
import type { System } from './system.ts';

export const ACCESS_PATHS = [
  'authorize',
  'approve',
  'exchange',
  'refresh',
  'call',
  'minted',
] as const;
export type AccessPath = (typeof ACCESS_PATHS)[number];

/** `detail`: the OAuth error, or the text of a tool call. */
export type Outcome = { isSuccess: boolean; status: number; detail: string };

export type AccessPaths = Record<AccessPath, () => Promise<Outcome>>;

/** `tries`: how often approval and code exchange can be tried; their pages and codes are prepared here. */
export async function prepareAccessPaths(
  system: System,
  { link }: { link: string },
  minted: string,
  tries: number,
): Promise<AccessPaths> {
  const connection = await connect(system, { link });
  const { browser, server, client, accessToken } = connection;
  let { refreshToken } = connection;
  const asking = () => authorizeUrl(server, client, { resource: link }).url;
  const [pages, codes] = [[], []] as [
    Awaited<ReturnType<typeof browser.openConsent>>[],
    Awaited<ReturnType<typeof obtainCode>>[],
  ];
  for (let n = 0; n < tries; n += 1) {
    pages.push(await browser.openConsent(asking()));
    codes.push(await obtainCode(system, { link }, { as: connection }));
  }
  const called = async (address: string, token: string): Promise<Outcome> => {
    const { status, text } = await callTool(address, token, 'club_overview');
    return { isSuccess: status === 200 && text.includes('members'), status, detail: text };
  };
  return {
    async authorize() {
      const step = await browser.visit(asking());
      if (step.kind === 'redirect') return { isSuccess: true, status: 303, detail: '' };
      return { isSuccess: isConsentPage(step), status: step.status, detail: step.html };
    },
    async approve() {
      const step = await browser.submit(next(pages), { decision: 'approve' });
      if (step.kind === 'page') return { isSuccess: false, status: step.status, detail: step.html };
      const { searchParams } = step.url;
      return {
        isSuccess: searchParams.has('code'),
        status: 303,
        detail: searchParams.get('error') ?? '',
      };
    },
    async exchange() {
      const { status, body } = await redeem(next(codes));
      return { isSuccess: status === 200, status, detail: body.error ?? '' };
    },
    async refresh() {
      const { status, body } = await refresh(server, client, refreshToken);
      refreshToken = body.refresh_token ?? refreshToken;
      return { isSuccess: status === 200, status, detail: body.error ?? '' };
    },
    call: () => called(link, accessToken),
    minted: () => called(`${system.resource}/mcp`, minted),
  };
}

function next<T>(prepared: T[]): T {
  const first = prepared.shift();
  if (first === undefined) throw new Error('more tries than were prepared');
  return first;
}
