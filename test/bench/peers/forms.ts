// Approves on HTML pages: picks the person if asked, and presses the approve button.
import { isConsentPage, isSignInPage, type Browser } from '../../support/browser.ts';
import type { Arrival } from './implementation.ts';

export async function agreeInForms(browser: Browser, url: URL): Promise<Arrival> {
  let step = await browser.visit(url);
  if (step.kind === 'page' && isSignInPage(step))
    step = await browser.submit(step, { person: 'ada' });
  if (step.kind === 'redirect' || !isConsentPage(step)) return { step, asked: false };
  return { step: await browser.submit(step, { decision: 'approve' }), asked: true };
}
