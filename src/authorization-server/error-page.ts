// What a person reads when something went wrong: what happened and what to do, in words, for every error code of the browser's endpoints.
import type Koa from 'koa';
import { type HttpError, respondWithJson } from '../http/errors.ts';
import type { Pages } from '../http/pages.ts';

type Words = { title: string; message?: string; advice: string };

const START_AGAIN = 'Go back to the app and connect again from there.';

const WORDS: Record<string, Words> = {
  invalid_client: {
    title: 'This app is not known here',
    message: 'The app that sent you is not registered, or its registration has run out.',
    advice:
      'Remove the connection in the app and add the connect link again, so that the app registers anew.',
  },
  metadata_document: {
    title: 'This app’s description cannot be read',
    message:
      'The app is described in a document on its maker’s web site, and that document could not be fetched or is not what it should be.',
    advice: 'Try again in a few minutes. If it happens again, tell the maker of the app.',
  },
  invalid_redirect_uri: {
    title: 'The app’s return address is not accepted',
    message:
      'The address that the app wants the answer sent to is not one that it registered, so nothing was sent.',
    advice: 'Remove the connection in the app and add the connect link again.',
  },
  invalid_target: {
    title: 'This connect link does not work',
    advice:
      'Ask the person who gave you the link for a fresh connect link, and add that one to the app.',
  },
  no_resource: {
    title: 'The app did not say which link it wants',
    message:
      'The app’s request names no connect link, so nobody knows what it wants to be connected to.',
    advice:
      'Paste the connect link that you were given into the app, as the address of the server.',
  },
  unsupported: {
    title: 'The app asks in a way that is not supported here',
    message: 'The app sent its request as a request object. Nothing was shared.',
    advice: 'Tell the maker of the app that plain parameters are needed.',
  },
  interaction_required: {
    title: 'You need to be asked',
    message: 'The app asked to be connected without showing you anything. That is never done here.',
    advice: START_AGAIN,
  },
  access_denied: { title: 'Not connected', advice: START_AGAIN },
  expired: {
    title: 'This page is out of date',
    message: 'The sign-in that it belongs to was finished already, or took longer than 15 minutes.',
    advice: START_AGAIN,
  },
  forbidden: {
    title: 'That did not come from this page',
    message:
      'The form was not sent from the page that we showed in this browser, so nothing was done.',
    advice: START_AGAIN,
  },
  temporarily_unavailable: {
    title: 'Try again in a moment',
    message: 'A part of this service cannot be reached just now.',
    advice:
      'Wait a few seconds, then reload this page. If it is out of date then, go back to the app and connect again.',
  },
  too_many_requests: {
    title: 'Too many requests at once',
    message:
      'Very many requests came from your network in a short time, so this one was not taken.',
    advice: 'Wait a few minutes, then reload this page or connect again from the app.',
  },
  server_error: {
    title: 'Something went wrong',
    message: 'The fault is on our side, and it was logged.',
    advice: 'Try again. If it happens again, tell support the reference below.',
  },
  not_found: {
    title: 'There is nothing here',
    message: 'No page has this address.',
    advice: 'To connect an app, paste your connect link into the app.',
  },
};

const UNKNOWN: Words = { title: 'The app’s request cannot be used', advice: START_AGAIN };

export type Refusal = {
  code: string;
  description?: string;
  status: number;
  returnTo?: { href: string; host: string };
};

/** The reference is the id of the request's log line. */
export async function renderRefusal(
  pages: Pages,
  ctx: Koa.Context,
  refusal: Refusal,
): Promise<void> {
  const words = WORDS[refusal.code] ?? UNKNOWN;
  await pages.render(
    ctx,
    'error',
    {
      title: words.title,
      message: words.message ?? sentence(refusal.description ?? 'the request was refused'),
      advice: words.advice,
      reference: String(ctx.state.requestId),
      ...(refusal.returnTo ? { returnTo: refusal.returnTo } : {}),
    },
    refusal.status,
  );
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}

/** People get a page where people are; everything else gets JSON, whatever it says it accepts. */
export function respondToError(
  pages: Pages,
): (ctx: Koa.Context, error: HttpError) => Promise<void> {
  return async (ctx, error) => {
    if (!isForPeople(ctx)) return respondWithJson(ctx, error);
    ctx.set(error.headers);
    await renderRefusal(pages, ctx, {
      code: error.status === 429 ? 'too_many_requests' : error.code,
      description: error.message,
      status: error.status,
    });
  };
}

function isForPeople(ctx: Koa.Context): boolean {
  if (/^\/(interaction|account)(\/|$)|^\/oauth\/authorize(\/|$)/.test(ctx.path)) return true;
  return !/^\/(oauth|\.well-known)(\/|$)/.test(ctx.path) && ctx.accepts('json', 'html') === 'html';
}
