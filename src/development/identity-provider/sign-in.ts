import { Router } from '@koa/router';
import type Koa from 'koa';
import { type Provider, errors } from 'oidc-provider';
import type { DevelopmentPerson } from '../../people/account.ts';
import { readForm } from '../../http/body.ts';
import { HttpError } from '../../http/errors.ts';
import { requestContext } from '../../http/request-context.ts';
import { requireSameOrigin } from '../../http/same-origin.ts';
import type { Pages } from '../../pages/pages.ts';
import type { Level } from '../../permission-levels.ts';
import type { IdpSettings } from './engine.ts';

type SignInOptions = { pages: Pages; levelOf: (person: DevelopmentPerson) => Level | undefined };

/** A page that lists the people. The selected person is signed in and has consented. */
export function signInRoutes(
  engine: Provider,
  { url, people, stepUp }: IdpSettings,
  options: SignInOptions,
) {
  const router = new Router({ sensitive: true, strict: true });

  router.get('/interaction/:uid', async (ctx) => {
    await requireInteraction(engine, ctx, ctx.params.uid);
    await showPeople(ctx, people, options);
  });

  router.post('/interaction/:uid', async (ctx) => {
    requireSameOrigin(ctx, url);
    const interaction = await requireInteraction(engine, ctx, ctx.params.uid);
    const { person: id } = await readForm(ctx);
    const person = people.find((candidate) => candidate.id === id);
    if (!person) return showPeople(ctx, people, options, 400);

    await endOtherSession(engine, ctx, person);
    interaction.session = undefined;
    const { acr_values: requested = '' } = interaction.params;
    const acr = stepUp?.acrValues?.find((value) => String(requested).split(' ').includes(value));
    const login = { accountId: person.id, ...(acr === undefined ? {} : { acr }) };
    interaction.result = { login, select_account: {}, consent: {} };
    await interaction.persist();
    ctx.status = 303;
    ctx.redirect(interaction.returnTo);
  });

  return router.routes();
}

function showPeople(
  ctx: Koa.Context,
  people: readonly DevelopmentPerson[],
  { pages, levelOf }: SignInOptions,
  status = 200,
): Promise<void> {
  const values = people.map((person) => ({
    id: person.id,
    name: person.name,
    email: person.email,
    may: levelOf(person) ?? 'nothing',
  }));
  return pages.render(ctx, 'development-sign-in', { action: ctx.path, people: values }, status);
}

/** Finds the interaction of the cookie, and requires the uid of the URL, which the engine ignores. */
async function requireInteraction(engine: Provider, ctx: Koa.Context, uid: string | undefined) {
  const interaction = await findInteraction(engine, ctx);
  if (interaction && interaction.uid === uid) return interaction;
  throw new HttpError(400, 'invalid_request', 'this sign-in has expired or is finished');
}

async function findInteraction(engine: Provider, ctx: Koa.Context) {
  try {
    const interaction = await engine.interactionDetails(ctx.req, ctx.res);
    requestContext(ctx).uiLocales = interaction.params.ui_locales;
    return interaction;
  } catch (error) {
    if (error instanceof errors.SessionNotFound) return undefined;
    throw error;
  }
}

/** Otherwise the engine shows its own page, which needs a script, to sign the other person out first. */
async function endOtherSession(engine: Provider, ctx: Koa.Context, person: DevelopmentPerson) {
  const session = await engine.Session.get(ctx);
  if (session.accountId && session.accountId !== person.id) await session.destroy();
}
