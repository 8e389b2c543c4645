// Whether something in front treats the requests of hosted AI apps differently from others. Edges block them by their user agent.
import { METADATA_PREFIX } from '../gateway/metadata.ts';
import { METADATA_PATH } from '../oauth/metadata.ts';
import type { Deployment } from './deployment.ts';
import { findingAbout, type Findings } from './report.ts';

/** As the apps' clouds send them. */
const HOSTED_APPS = ['Claude-User', 'ChatGPT-User/1.0', 'MistralAI-User/1.0'];
const NEUTRAL = 'python-httpx/0.28.1';

/** Compares the answers to user agents of hosted apps with the one to a neutral program. */
export async function checkEdge(deployment: Deployment): Promise<Findings> {
  const { authUrl, resourceUrl, findLink } = deployment;
  const link = await findLink();
  const urls = [authUrl + METADATA_PATH, resourceUrl + METADATA_PREFIX, ...(link ? [link] : [])];
  return Promise.all(urls.map((url) => checkUserAgents(deployment, url)));
}

async function checkUserAgents({ send }: Deployment, url: string): Promise<Findings> {
  const finding = findingAbout('edge', url);
  const statusFor = async (userAgent: string) =>
    (await send(url, { headers: { 'user-agent': userAgent } })).status;
  const neutral = await statusFor(NEUTRAL);
  const answers = await Promise.all(
    HOSTED_APPS.map(async (agent) => ({ agent, status: await statusFor(agent) })),
  );
  const different = answers.filter(({ status }) => status !== neutral);
  if (different.length === 0)
    return finding.ok(
      'user agents of hosted apps get the same answer as others; asked from inside, so an edge on the way from the internet may differ',
    );
  const shown = different.map(({ agent, status }) => `${agent} gets ${status}`).join(', ');
  return finding.warning({
    what: `${shown}, and another program ${neutral}; asked from inside`,
    why: 'something in front blocks AI apps: people sign in and approve, and then the app cannot connect',
    remedy: `ask the operator of the edge to let the user agents ${HOSTED_APPS.map((agent) => agent.split('/')[0]).join(', ')} pass for this name, without a challenge (at Cloudflare: Block AI bots, AI Crawl Control, WAF rules)`,
  });
}
