// oidc-provider in the comparison, with the common Redis adapter; it issues tokens and has no resource server.
import { startRedis } from '../../support/redis-server.ts';
import { METADATA_PATH, startBareEngine } from '../subjects.ts';
import type { Implementation } from './implementation.ts';

export const bareEngine: Implementation = {
  id: 'oidc-provider',
  name: 'oidc-provider, Redis',
  async start(place) {
    const redis = await startRedis();
    const spawned = performance.now();
    const { server, issuer, origins, ...engine } = await startBareEngine(place, {
      redisUrl: redis.url,
    });
    const startedIn = (performance.now() - spawned) / 1000;
    return {
      server,
      store: redis,
      startedIn,
      metadataUrl: issuer + METADATA_PATH,
      origins,
      scope: 'operations offline_access',
      links: [`${issuer}/one/mcp`, `${issuer}/two/mcp`],
      // The engine decides whether to ask for consent; this host approves without a page.
      async agree(browser, url) {
        const before = browser.visited.length;
        const step = await browser.visit(url);
        const passed = browser.visited.slice(before);
        const asked = passed.some(({ pathname }) => pathname.startsWith('/interaction/'));
        return { step, asked };
      },
      async stop() {
        await engine.stop();
        await redis.stop();
      },
    };
  },
};
