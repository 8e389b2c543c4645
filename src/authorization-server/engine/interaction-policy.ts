// Interaction policy: login without a valid session, and consent for every authorization.
import {
  type interactionPolicy as Policy,
  interactionPolicy,
  type KoaContextWithOIDC,
} from 'oidc-provider';

const { Check, Prompt } = interactionPolicy;

/**
 * A grant is valid only in the interaction that approved it, so consent for one connector never covers another. A session lasts `session`
 * seconds from the sign-in, and ends when the account is disabled.
 */
export function interactionPrompts(session: number): Policy.Prompt[] {
  const signIn = new Check('no_session', 'sign-in is required', 'interaction_required', (ctx) => {
    const { session: browser, result } = ctx.oidc;
    const overBefore = Number(ctx.oidc.account?.overBefore ?? 0);
    // An account may be disabled and enabled again between the sign-in of this interaction and here.
    const isOver =
      (!result?.login && browser?.past(session)) || Number(browser?.loginTs) < overBefore;
    return browser?.accountId === undefined || isOver
      ? Check.REQUEST_PROMPT
      : Check.NO_NEED_TO_PROMPT;
  });
  const consent = new Check(
    'not_approved',
    'consent is required',
    'interaction_required',
    (ctx) => {
      const approved = approvedGrantId(ctx);
      const isLoaded = approved !== undefined && ctx.oidc.entities.Grant?.jti === approved;
      return isLoaded ? Check.NO_NEED_TO_PROMPT : Check.REQUEST_PROMPT;
    },
  );
  return [
    new Prompt({ name: 'login', requestable: true }, signIn),
    new Prompt({ name: 'consent', requestable: true }, consent),
  ];
}

/** The grant that the consent step of this interaction made. */
export function approvedGrantId(ctx: KoaContextWithOIDC): string | undefined {
  return ctx.oidc.result?.consent?.grantId;
}
