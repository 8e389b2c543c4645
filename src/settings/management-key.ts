// What a management key has to look like: it travels in a header (RFC 9110 section 5.5).
import type { SettingsIssue } from './issues.ts';

/** The mistake of a key that no client could send. `setting` is where the key is from. */
export function checkManagementKey(key: string | undefined, setting: string): SettingsIssue[] {
  if (key === undefined || /^[\x21-\x7e]+$/.test(key)) return [];
  const given = key ? 'a value with spaces or characters outside ASCII' : 'nothing';
  return [{ setting, given, expected: 'the management key on one line' }];
}
