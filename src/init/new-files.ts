// Writes files that must not exist yet: all of them or none, and never a part of one.
import { randomBytes } from 'node:crypto';
import {
  accessSync,
  constants,
  linkSync,
  lstatSync,
  mkdirSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { errorCode } from '../settings/source.ts';

export type NewFile = { name: string; content: string; mode: number };

/** The message says what to do. */
export class NotWritten extends Error {
  override name = 'NotWritten';
}

/** Throws NotWritten if one of the files exists, or the folder cannot be used. A folder that does not exist can be created later. */
export function requireFreeNames(folder: string, names: readonly string[]): void {
  const taken = names.filter((name) => exists(join(folder, name)));
  if (taken.length > 0) throw new NotWritten(takenText(folder, taken));
  const parent = existingParent(folder);
  try {
    lstatSync(`${parent}/`);
    accessSync(parent, constants.W_OK);
  } catch (cause) {
    throw unusable(parent, cause);
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Throws NotWritten, after it has removed what it created. Signals do not interrupt it. */
export function writeNewFiles(folder: string, files: readonly NewFile[]): void {
  // A signal with a listener does not end the process, and the listener runs only after this function.
  const ignore = () => {};
  for (const signal of SIGNALS) process.on(signal, ignore);
  try {
    writeAll(folder, files);
  } finally {
    for (const signal of SIGNALS) process.off(signal, ignore);
  }
}

/** Writes each file to a draft, and then links the drafts to their names, because a link never replaces a file. */
function writeAll(folder: string, files: readonly NewFile[]): void {
  const undo: (() => void)[] = [];
  const drafts: string[] = [];
  try {
    const created = mkdirSync(folder, { recursive: true });
    if (created !== undefined) undo.push(() => removeFolders(resolve(folder), resolve(created)));
    for (const { name, content, mode } of files) {
      const draft = join(folder, `.${name}.${randomBytes(8).toString('hex')}`);
      drafts.push(draft);
      writeFileSync(draft, content, { mode, flag: 'wx', flush: true });
    }
    for (const [n, { name }] of files.entries()) {
      const path = join(folder, name);
      linkSync(drafts[n] ?? '', path);
      undo.push(() => rmSync(path, { force: true }));
    }
  } catch (cause) {
    for (const draft of drafts.splice(0)) rmSync(draft, { force: true });
    for (const step of undo.toReversed()) step();
    throw unusable(folder, cause, files);
  } finally {
    for (const draft of drafts) rmSync(draft, { force: true });
  }
}

/** True for a broken link too. */
function exists(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch (cause) {
    // A parent is a file.
    if (errorCode(cause) === 'ENOTDIR') return false;
    throw cause;
  }
}

function existingParent(folder: string): string {
  const path = resolve(folder);
  return exists(path) || path === dirname(path) ? path : existingParent(dirname(path));
}

/** Removes `folder` and its parents up to `last`, unless others have put something there. */
function removeFolders(folder: string, last: string): void {
  try {
    rmdirSync(folder);
  } catch {
    return;
  }
  if (folder !== last) removeFolders(dirname(folder), last);
}

function takenText(folder: string, names: readonly string[]): string {
  const [verb, object] = names.length === 1 ? ['exists', 'it'] : ['exist', 'them'];
  return `${names.join(' and ')} already ${verb} in ${resolve(folder)}. init overwrites nothing: move ${object} away, or choose another folder with --dir`;
}

function unusable(folder: string, cause: unknown, files: readonly NewFile[] = []): NotWritten {
  if (cause instanceof NotWritten) return cause;
  const code = errorCode(cause);
  if (code === 'EEXIST' && files.length > 0) {
    const names = files.map(({ name }) => name).filter((name) => exists(join(folder, name)));
    if (names.length > 0) return new NotWritten(takenText(folder, names));
  }
  return new NotWritten(
    `no file can be written in ${resolve(folder)} (${code}). Choose another folder with --dir`,
    { cause },
  );
}
