// Reads forms from the HTML of a page and builds what a browser would submit.

export type Control = {
  name: string;
  value: string;
  kind: 'hidden' | 'text' | 'checkbox' | 'radio' | 'button';
  checked: boolean;
};

export type Form = { action: URL; method: 'GET' | 'POST'; controls: Control[] };

/** Values by control name: a string selects or types it, false unticks a box. */
export type FormValues = Record<string, string | false>;

const TAG = /<(input|button)\b((?:[^>"']|"[^"]*"|'[^']*')*)>/gi;
const SELECT = /<select\b([^>]*)>([\s\S]*?)<\/select>/gi;
const TEXTAREA = /<textarea\b([^>]*)>([\s\S]*?)<\/textarea>/gi;
const OPTION = /<option\b[^>]*>/gi;
const ATTRIBUTE = /([\w-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?/g;

export function parseForms(html: string, page: URL): Form[] {
  return [...html.matchAll(/<form\b((?:[^>"']|"[^"]*"|'[^']*')*)>([\s\S]*?)<\/form>/gi)].map(
    ([, head = '', content = '']) => {
      const attributes = attributesIn(head);
      return {
        action: new URL(attributes.get('action') || page.href, page),
        method: attributes.get('method')?.toLowerCase() === 'post' ? 'POST' : 'GET',
        controls: [...asInputs(content).matchAll(TAG)].flatMap(([, tag = '', rest = '']) =>
          controlsOf(tag.toLowerCase(), attributesIn(rest)),
        ),
      };
    },
  );
}

/** Replaces a text area by an input with its text, and a select element by one with its selected option. */
function asInputs(html: string): string {
  const withoutTextareas = html.replace(
    TEXTAREA,
    (_whole, head: string, text: string) => `<input ${head} value="${text}">`,
  );
  return withoutTextareas.replace(SELECT, (_whole, head: string, options: string) => {
    const all = options.match(OPTION) ?? [];
    const chosen = all.find((option) => /\sselected\b/.test(option)) ?? all[0] ?? '';
    return `<input ${head} value="${attributesIn(chosen).get('value') ?? ''}">`;
  });
}

/** The form data after filling in `filling` and pressing the button it names. Throws if the form has no such control or option. */
export function fillForm(form: Form, filling: FormValues): URLSearchParams {
  for (const [name, value] of Object.entries(filling)) requireOffered(form, name, value);
  const sent = new URLSearchParams();
  for (const control of form.controls) {
    const wanted = filling[control.name];
    if (isSent(control, wanted))
      sent.append(
        control.name,
        control.kind === 'text' && typeof wanted === 'string' ? wanted : control.value,
      );
  }
  return sent;
}

function isSent({ kind, value, checked }: Control, wanted: string | false | undefined): boolean {
  if (kind === 'hidden' || kind === 'text') return true;
  if (kind === 'button') return wanted === value;
  return wanted === undefined ? checked : wanted === value;
}

function requireOffered(form: Form, name: string, value: string | false): void {
  const offered = form.controls.filter((control) => control.name === name);
  const isOffered = offered.some(
    (control) => value === false || control.kind === 'text' || control.value === value,
  );
  if (isOffered) return;
  const choices = offered.map((control) => control.value).join(', ') || 'nothing';
  throw new Error(`the form offers ${choices} for ${name}, not ${String(value)}`);
}

function controlsOf(tag: string, attributes: Map<string, string>): Control[] {
  const name = attributes.get('name');
  const type = attributes.get('type')?.toLowerCase() ?? (tag === 'button' ? 'submit' : 'text');
  if (!name || attributes.has('disabled')) return [];
  const isBox = type === 'checkbox' || type === 'radio';
  return [
    {
      name,
      value: attributes.get('value') ?? (isBox ? 'on' : ''),
      kind: kindOf(type),
      checked: attributes.has('checked'),
    },
  ];
}

function kindOf(type: string): Control['kind'] {
  if (type === 'hidden' || type === 'checkbox' || type === 'radio') return type;
  return type === 'submit' ? 'button' : 'text';
}

function attributesIn(text: string): Map<string, string> {
  return new Map(
    [...text.matchAll(ATTRIBUTE)].map(([, name = '', a, b, c]) => [
      name.toLowerCase(),
      unescapeHtml(a ?? b ?? c ?? ''),
    ]),
  );
}

const NAMED: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

export function unescapeHtml(text: string): string {
  return text.replace(/&(?:#x([\da-f]+)|#(\d+)|(\w+));/gi, (whole, hex, decimal, name) => {
    if (name) return NAMED[name.toLowerCase()] ?? whole;
    return String.fromCodePoint(hex ? Number.parseInt(hex, 16) : Number(decimal));
  });
}
