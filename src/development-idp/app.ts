// The development identity provider: sign-in without passwords, on an address of its own, never in production (OpenID Connect Core 1.0).
import type Koa from 'koa';
import compose from 'koa-compose';
import type { Logger } from 'pino';
import { createHost } from '../http/host.ts';
import { createEngine, type EngineOptions } from './engine.ts';
import { respondToProblem } from './problem.ts';
import { type SignInOptions, signInRoutes } from './sign-in.ts';
import { requireSigningKey } from './signing-key.ts';

export type DevelopmentIdpOptions = Omit<EngineOptions, 'signingKey' | 'now'> &
  SignInOptions & {
    logger: Logger;
    /** Rejects while the process should not get traffic. */
    isReady: () => Promise<void>;
    /** Seconds since 1970. */
    now?: () => number;
    production: boolean;
  };

const epochSeconds = () => Math.floor(Date.now() / 1000);

/** `url` is the issuer and the only host answered for. Throws when `production` is true. */
export async function developmentIdp(options: DevelopmentIdpOptions): Promise<Koa> {
  const { url, pages, logger, isReady, now = epochSeconds } = options;
  if (options.production) {
    throw new Error(
      'the development identity provider lets anybody in: it does not run in production',
    );
  }
  const signingKey = await requireSigningKey(options.store);
  const engine = createEngine({ ...options, signingKey, now });

  const respondToError = respondToProblem(pages);
  const app = createHost({
    name: 'development-idp',
    url,
    proxies: 0,
    logger,
    isReady,
    respondToError,
  });
  app.keys = options.cookieKeys;
  app.use(pages.middleware);
  app.use(signInRoutes(engine, options));
  app.use(compose(engine.middleware));
  return app;
}
