// The time of every page of the console, and of the lists of the API, in a system with many people.
import { openBrowser, requirePage } from '../../support/browser.ts';
import { cookieHeader } from '../../support/cookie-jar.ts';
import { cpuTime } from '../server-process.ts';
import { median, timeOf } from '../timing.ts';
import type { Deployment } from './deployment.ts';
import type { Effort } from './options.ts';
import type { Person } from './people.ts';

/** The median in milliseconds, and the mean processor time of Gatehouse, which hardly depends on other load; `first`: of the first reading. */
export type PageTime = { page: string; milliseconds: number; processor: number; first: number };

/** Every page answers within this, whatever the number of people. */
export const TARGET_MS = 50;

const NEXT = /href="(\/console\/[^"]*[?;]after=[^"]*)"/;

export async function measurePages(
  deployment: Pick<Deployment, 'subject'>,
  people: readonly Person[],
  { lists }: Pick<Effort, 'lists'>,
): Promise<PageTime[]> {
  const person = people.at(-1);
  if (!person) throw new Error('nobody is connected');
  const read = await openReader(deployment);
  const times: PageTime[] = [];
  const measure = async (page: string, path: string) => {
    const milliseconds: number[] = [];
    const { pid } = deployment.subject.server;
    const start = cpuTime(pid);
    const answer = await read(path);
    const before = cpuTime(pid);
    for (let n = 0; n < lists; n += 1) milliseconds.push(await timeOf(() => read(path)));
    const processor = (cpuTime(pid) - before) / lists;
    times.push({ page, milliseconds: median(milliseconds), processor, first: before - start });
    return answer;
  };
  for (const [page, path] of pagesAbout(person)) {
    const html = await measure(page, path);
    const [, next] = NEXT.exec(html) ?? [];
    if (next !== undefined) await measure(`${page}, next`, next.replaceAll('&amp;', '&'));
  }
  for (const list of ['accounts', 'clients', 'grants', 'audit'])
    await measure(`API: ${list}`, `/api/v1/${list}?limit=50`);
  return times;
}

function pagesAbout({ account, clientId, connector, grantId, name }: Person): [string, string][] {
  const console = (path: string): [string, string] => [path, `/console/${path}`];
  const [client, word] = [encodeURIComponent(clientId), encodeURIComponent(name)];
  const about = (page: string, path: string): [string, string] => [page, `/console/${path}`];
  return [
    console('overview'),
    console('connectors'),
    console('connectors?sort=-created'),
    console('connectors/new'),
    about('connectors/(link)/edit', `connectors/${connector}/edit`),
    console('accounts'),
    console('accounts?state=disabled'),
    about('accounts?q=(name)', `accounts?q=${word}`),
    console('accounts?q=nobody'),
    about('accounts/(person)', `accounts/${account}`),
    console('clients'),
    console('clients?state=revoked'),
    console('clients?state=waiting'),
    console('clients?q=nothing'),
    about('clients/(app)', `clients/${client}`),
    console('grants'),
    console('grants?state=ended'),
    console('grants?sort=person'),
    console('grants?level=admin'),
    about('grants?q=(name)', `grants?q=${word}`),
    about('grants?connector=', `grants?connector=${connector}`),
    about('grants?account=', `grants?account=${account}`),
    about('grants?client=', `grants?client=${client}`),
    about('grants/(connection)', `grants/${grantId}`),
    about('connectors/(link)', `connectors/${connector}`),
    console('audit'),
    console('audit?event=signing_key_rotated'),
    console('audit?since=hour'),
    about('audit?q=(name)', `audit?q=${word}`),
    console('audit?tool=none'),
    console('attempts'),
    about('attempts?q=(name)', `attempts?q=${word}`),
    about('search?q=(name)', `search?q=${word}`),
    console('search?q=nothing'),
    about('audit?account=', `audit?account=${account}`),
    about('audit?client=', `audit?client=${client}`),
    about('audit?grant=', `audit?grant=${grantId}`),
    console('machines'),
    console('machines/new'),
    console('machines/new?q=nothing'),
    about('connectors/(link)/machine', `connectors/${connector}/machine`),
    console('tokens'),
    console('tokens/new'),
    console('settings'),
    console('servers'),
    console('rules'),
    console('health'),
  ];
}

/** As an administrator in the console, and with the key in the API. */
async function openReader({
  subject,
}: Pick<Deployment, 'subject'>): Promise<(path: string) => Promise<string>> {
  const { management, managementKey, origins } = subject;
  const browser = openBrowser([...origins, management]);
  const page = requirePage(await browser.visit(`${management}/console/overview`));
  await browser.submit(page, { person: 'ada' });
  return async (path) => {
    const url = new URL(path, management);
    const headers: Record<string, string> = path.startsWith('/api/')
      ? { authorization: `Bearer ${managementKey}` }
      : { cookie: cookieHeader(browser.jar, url), accept: 'text/html' };
    const answer = await fetch(url, { headers, redirect: 'manual' });
    const text = await answer.text();
    if (answer.status !== 200) throw new Error(`${path} was answered with ${answer.status}`);
    return text;
  };
}
