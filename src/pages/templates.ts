import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { Script } from 'node:vm';
import ejs from 'ejs';

export type Render = (name: string, values: object) => string;

type Compiled = (
  page: object,
  escape: (value: unknown) => string,
  include: (name: string, more?: object) => string,
  rethrow: (error: Error, text: string, file: string, line: number) => never,
) => string;

/** Returns the template files by name (`consent`, `partials/top`). Later directories replace files of earlier ones. */
export function findTemplates(directories: readonly string[]): Map<string, string> {
  return new Map(
    directories.flatMap((directory) =>
      readdirSync(directory, { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith('.ejs'))
        .map((file) => [file.slice(0, -'.ejs'.length).replaceAll(sep, '/'), join(directory, file)]),
    ),
  );
}

/**
 * Reads all files now, and compiles each when it is first rendered. `include` in a template takes a name from the top: `partials/top`. Errors begin
 * with file and line.
 */
export function openTemplates(files: Map<string, string>): Render {
  const texts = new Map([...files].map(([name, file]) => [name, readFileSync(file, 'utf8')]));
  const templates = new Map<string, Compiled>();
  const templateOf = (name: string): Compiled => {
    const [file, text] = [files.get(name), texts.get(name)];
    if (file === undefined || text === undefined)
      throw new Error(`there is no template ${name}.ejs`);
    const template = templates.get(name) ?? compileTemplate(file, text);
    templates.set(name, template);
    return template;
  };
  const render: Render = (name, values) => {
    const include = (other: string, more?: object) => render(other, { ...values, ...more });
    return templateOf(name)(values, escapeText, include, rethrow);
  };
  return render;
}

/** Throws an error with file and line if a template does not compile. */
export function checkTemplates(files: Map<string, string>): void {
  for (const file of files.values()) compileTemplate(file, readFileSync(file, 'utf8'));
}

/** `client` lets us pass `include`. That of EJS looks next to the file, and caches globally. */
const OPTIONS = { client: true, strict: true, localsName: 'page' };

function compileTemplate(file: string, text: string): Compiled {
  try {
    return ejs.compile(text, { ...OPTIONS, filename: file }) as unknown as Compiled;
  } catch (cause) {
    const [reason = ''] = (cause as Error).message.split(` in ${file}`);
    throw new TemplateError(`${file}:${errorLine(text)}: ${reason}`, { cause });
  }
}

/** EJS reports no line. Finds the line of the generated source that does not parse, and the template's line number before it. */
function errorLine(text: string): number {
  const template = new ejs.Template(text, OPTIONS) as ejs.Template & { source: string };
  try {
    template.compile();
  } catch {
    // The error is known. The generated source is needed.
  }
  const parsed = template.source.split('\n');
  const upTo = parsed.slice(0, syntaxErrorLine(`function template() {\n${template.source}}`));
  const [last = ''] = upTo.join('\n').match(/__line = \d+(?![\s\S]*__line = )/) ?? [];
  return Number(last.slice('__line = '.length)) || 1;
}

function syntaxErrorLine(source: string): number {
  try {
    const parsed = new Script(source, { filename: 'template' });
    return parsed ? Infinity : 0;
  } catch (error) {
    const [, line] = /^template:(\d+)/.exec((error as Error).stack ?? '') ?? [];
    return Number(line) - 1;
  }
}

/** `message` begins with the file and line of the template or partial that failed. */
class TemplateError extends Error {
  override name = 'TemplateError';
}

function rethrow(cause: Error, _text: string, file: string, line: number): never {
  if (cause instanceof TemplateError) throw cause;
  throw new TemplateError(`${file}:${line}: ${cause.message}`, { cause });
}

const INVISIBLE = /[\p{Bidi_Control}\p{Cc}\u00AD\u200B\u2060\uFEFF]/gu;

/** Texts that stay as they are: most ids, paths and names. */
const PLAIN = /^[\w ./:,=?-]*$/;

/** Escapes HTML, and replaces invisible characters that could disguise a name, such as bidirectional controls. */
function escapeText(value: unknown): string {
  const text = String(value ?? '');
  return PLAIN.test(text) ? text : ejs.escapeXML(text.replace(INVISIBLE, '\uFFFD'));
}
