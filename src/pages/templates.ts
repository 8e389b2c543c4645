// EJS templates: found in the operator's directory or ours, compiled once, escaped; a broken one is reported with file and line.
import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { Script } from 'node:vm';
import ejs from 'ejs';

/** `guard` sees the values before every template and partial. */
export type Render = (name: string, values: object, guard?: (values: object) => object) => string;

type Compiled = (
  page: object,
  escape: (value: unknown) => string,
  include: (name: string, more?: object) => string,
  rethrow: (error: Error, text: string, file: string, line: number) => never,
) => string;

/** The templates below each directory by name (`consent`, `partials/top`); later directories take the place of earlier ones. */
export function findTemplates(directories: readonly string[]): Map<string, string> {
  return new Map(
    directories.flatMap((directory) =>
      readdirSync(directory, { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith('.ejs'))
        .map((file) => [file.slice(0, -'.ejs'.length).replaceAll(sep, '/'), join(directory, file)]),
    ),
  );
}

/** Partials are named from the top: `partials/top`, wherever they are included. */
export function compileTemplates(files: Map<string, string>): Render {
  const templates = new Map([...files].map(([name, file]) => [name, compileTemplate(file)]));
  const render: Render = (name, values, guard = (same) => same) => {
    const template = templates.get(name);
    if (!template) throw new Error(`there is no template ${name}.ejs`);
    const include = (other: string, more?: object) => render(other, { ...values, ...more }, guard);
    return template(guard(values), escapeText, include, failAt);
  };
  return render;
}

/** A client function takes `include` from us: EJS' own would look beside the file, and keep what it found for everybody. */
const OPTIONS = { client: true, strict: true, localsName: 'page' };

function compileTemplate(file: string): Compiled {
  const text = readFileSync(file, 'utf8');
  try {
    return ejs.compile(text, { ...OPTIONS, filename: file }) as unknown as Compiled;
  } catch (cause) {
    const [reason = ''] = (cause as Error).message.split(` in ${file}`);
    throw new TemplateError(`${file}:${brokenLine(text)}: ${reason}`, { cause });
  }
}

/** EJS does not say where: the line of its source that does not parse follows the number of the template's line. */
function brokenLine(text: string): number {
  const template = new ejs.Template(text, OPTIONS) as ejs.Template & { source: string };
  try {
    template.compile();
  } catch {
    // Known already; the source is what we are here for.
  }
  const parsed = template.source.split('\n');
  const upTo = parsed.slice(0, failingLine(`function template() {\n${template.source}}`));
  const [last = ''] = upTo.join('\n').match(/__line = \d+(?![\s\S]*__line = )/) ?? [];
  return Number(last.slice('__line = '.length)) || 1;
}

function failingLine(source: string): number {
  try {
    const parsed = new Script(source, { filename: 'template' });
    return parsed ? Infinity : 0;
  } catch (error) {
    const [, line] = /^template:(\d+)/.exec((error as Error).stack ?? '') ?? [];
    return Number(line) - 1;
  }
}

/** A template that failed, or one that it included: `message` begins with file and line. */
class TemplateError extends Error {
  override name = 'TemplateError';
}

function failAt(cause: Error, _text: string, file: string, line: number): never {
  if (cause instanceof TemplateError) throw cause;
  throw new TemplateError(`${file}:${line}: ${cause.message}`, { cause });
}

const UNSEEN = /[\p{Bidi_Control}\p{Cc}\u00AD\u200B\u2060\uFEFF]/gu;

/** Characters that nobody sees but that turn text round or split it are shown as a replacement mark: names come from strangers. */
function escapeText(value: unknown): string {
  return ejs.escapeXML(String(value ?? '').replace(UNSEEN, '\uFFFD'));
}
