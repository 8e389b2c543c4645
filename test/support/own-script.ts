const OWN_SCRIPT = /<script src="\/assets\/copy\.js(\?v=[\w-]{22})?" defer><\/script>/;

/** A page without the one script that pages of the console may load. */
export function withoutOwnScript(html: string): string {
  return html.replace(OWN_SCRIPT, '');
}
