// Asks the open questions on a terminal. Loads the prompt library, which only init needs.
import { confirm, isCancel, password, select, text } from '@clack/prompts';
import type { Readable, Writable } from 'node:stream';
import { PROVIDER, PROVIDERS } from './providers.ts';
import { type Answers, type Key, openQuestions, type Question } from './questions.ts';

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
  const validate = (given: string | undefined) => {
    const answer = given?.trim() ?? '';
    if (answer === '') return isOptional ? undefined : 'An answer is required.';
    const isSecret = question.key === 'clientSecretFile';
    const expected = isSecret ? undefined : question.check(answer, answers);
    return expected === undefined ? undefined : `Expected ${expected}.`;
  };
  if (question.key === 'clientSecretFile')
    return (await answerTo(password({ ...streams, message, validate })))?.trim();
  const placeholder = question.example?.(answers);
  const initialValue = question.suggestion?.(answers);
  const answer = await answerTo(
    text({
      ...streams,
      message,
      validate,
      ...(placeholder === undefined ? {} : { placeholder }),
      ...(initialValue === undefined ? {} : { initialValue }),
    }),
  );
  return answer?.trim();
}

/** Resolves with an empty text if the person enters none. `check` returns what is expected instead of a wrong answer. Throws Cancelled. */
export async function askOptionally(
  message: string,
  { placeholder, check }: { placeholder: string; check: (text: string) => string | undefined },
  streams: Streams,
): Promise<string> {
  const validate = (given: string | undefined) => {
    const answer = given?.trim() ?? '';
    const expected = answer === '' ? undefined : check(answer);
    return expected === undefined ? undefined : `Expected ${expected}.`;
  };
  return (await answerTo(text({ ...streams, message, placeholder, validate })))?.trim() ?? '';
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
