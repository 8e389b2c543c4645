// Asks the open questions on a terminal. Loads the prompt library, which only init needs.
import { confirm, isCancel, multiselect, password, select, text } from '@clack/prompts';
import type { Readable, Writable } from 'node:stream';
import { PROVIDER, PROVIDERS } from './providers.ts';
import { appCatalog } from '../settings/apps.ts';
import {
  type Answers,
  appIds,
  type Key,
  NO_APPS,
  openQuestions,
  type Question,
} from './questions.ts';

export type Streams = { input: Readable; output: Writable };

/** The person pressed Ctrl-C or Escape. */
export class Cancelled extends Error {
  override name = 'Cancelled';
}

/** Asks one question after another, because answers decide what is asked next. Throws Cancelled. */
export async function askOpenQuestions(given: Answers, streams: Streams): Promise<Answers> {
  let answers = given;
  const skipped = new Set<Key>();
  for (;;) {
    const question = openQuestions(answers).find(({ key }) => !skipped.has(key));
    if (!question) return answers;
    const answer = await ask(question, answers, streams);
    if (answer === undefined || answer === '') skipped.add(question.key);
    else if (question.key === 'clientSecretFile') answers = { ...answers, clientSecret: answer };
    else answers = { ...answers, [question.key]: answer };
  }
}

async function ask(
  question: Question,
  answers: Answers,
  streams: Streams,
): Promise<string | undefined> {
  const message = question.prompt(answers);
  const isOptional = question.isOptional?.(answers) === true;
  if (question.key === 'idp') {
    const options = PROVIDERS.map((value) => ({ value, label: PROVIDER[value].title }));
    return answerTo(select({ ...streams, message, options }));
  }
  if (question.key === 'apps') {
    const options = appCatalog().map(({ id, name }) => ({ value: id, label: name }));
    const initialValues = appIds(question.suggestion?.(answers) ?? NO_APPS);
    const prompt = multiselect({ ...streams, message, options, initialValues, required: false });
    return (await answerTo(prompt)).join(',') || NO_APPS;
  }
  const isSecret = question.key === 'clientSecretFile';
  const options = {
    placeholder: question.example?.(answers),
    initialValue: question.suggestion?.(answers),
    isOptional,
    check: (text: string) => (isSecret ? undefined : question.check(text, answers)),
  };
  return askText(message, options, streams, isSecret ? password : text);
}

type TextOptions = {
  placeholder?: string | undefined;
  initialValue?: string | undefined;
  isOptional?: boolean;
  /** Returns what is expected instead of a wrong answer. */
  check: (text: string) => string | undefined;
};

/** Resolves with an empty text if the person enters none. Throws Cancelled. */
export async function askText(
  message: string,
  { placeholder, initialValue, isOptional = true, check }: TextOptions,
  streams: Streams,
  prompt: typeof text | typeof password = text,
): Promise<string> {
  const validate = (given: string | undefined) => {
    const answer = given?.trim() ?? '';
    if (answer === '') return isOptional ? undefined : 'An answer is required.';
    const expected = check(answer);
    return expected === undefined ? undefined : `Expected ${expected}.`;
  };
  const shown = {
    ...(placeholder === undefined ? {} : { placeholder }),
    ...(initialValue === undefined ? {} : { initialValue }),
  };
  return (await answerTo(prompt({ ...streams, message, validate, ...shown })))?.trim() ?? '';
}

/** Throws Cancelled. */
export function askYesOrNo(message: string, streams: Streams): Promise<boolean> {
  return answerTo(confirm({ ...streams, message, initialValue: false }));
}

async function answerTo<T>(prompt: Promise<T>): Promise<Exclude<T, symbol>> {
  const answer = await prompt;
  if (isCancel(answer)) throw new Cancelled('cancelled; nothing was written');
  return answer as Exclude<T, symbol>;
}
