// When the engine stops and asks the person: to sign in without a session, and to consent on every authorization.
import {
  type interactionPolicy as Policy,
  interactionPolicy,
  type KoaContextWithOIDC,
} from 'oidc-provider';

const { Check, Prompt } = interactionPolicy;

/**
 * A grant counts only in the flow in which the person approved it, so consent for one connector never covers another. A sign-in counts for
 * `session` seconds, however much it is used, and not when the account was disabled meanwhile.
 */
export function askEveryTime(session: number): Policy.Prompt[] {
  const signIn = new Check('no_session', 'sign-in is required', 'interaction_required', (ctx) => {
    const { session: browser, result } = ctx.oidc;
    const overBefore = Number(ctx.oidc.account?.overBefore ?? 0);
    // The sign-in may be of this flow, and the account disabled and enabled since.
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

/** The grant that was made by the consent step of this very interaction. */
export function approvedGrantId(ctx: KoaContextWithOIDC): string | undefined {
  return ctx.oidc.result?.consent?.grantId;
}
