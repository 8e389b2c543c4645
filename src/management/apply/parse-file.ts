import * as z from 'zod';
import { isObject } from '../../json-values.ts';
import { describeIssue, parseInput } from '../parse-input.ts';
import {
  type ConnectorRecord,
  connectorRecord,
  FILE,
  type Kind,
  list,
  type MachineRecord,
  machineRecord,
  type RuleRecord,
  ruleRecord,
} from '../resources/apply.ts';
import { invalid, type Issues, mapRecords } from './plan.ts';

/** The records of the lists that are there, each in its place; undefined where nothing more can be checked. */
export type File = {
  connectors: (ConnectorRecord | undefined)[] | undefined;
  machines: (MachineRecord | undefined)[] | undefined;
  clientRules: (RuleRecord | undefined)[] | undefined;
  /** The keys of the connectors, also of invalid ones. */
  connectorKeys: ReadonlySet<unknown>;
};

/** As much as a request of one record can have. */
const MAX_RECORD_CHARACTERS = 64 * 1024;

/** More than there are, so that unknown ones are named. */
const MAX_LISTS = 100;

const records = list(z.unknown()).optional();
const listsSchema = z.strictObject(
  { connectors: records, machines: records, clientRules: records },
  FILE,
);

/** Infinite for what is nested too deeply to be written. */
function lengthOf(record: unknown): number {
  try {
    return JSON.stringify(record).length;
  } catch {
    return Infinity;
  }
}

/** Adds the problems of all records to `issues`. Throws HttpError 400 if there are no lists. */
export async function parseFile(value: unknown, issues: Issues): Promise<File> {
  // The schema takes long to find them.
  if (isObject(value) && Object.keys(value).length > MAX_LISTS) throw invalid(FILE);
  const lists = parseInput(listsSchema, value);
  const parseRecord = <Item>(place: string, schema: z.ZodType<Item>, record: unknown) => {
    if (lengthOf(record) > MAX_RECORD_CHARACTERS)
      return void issues.add(place, `larger than ${MAX_RECORD_CHARACTERS} characters`);
    const parsed = schema.safeParse(record);
    for (const issue of parsed.error?.issues ?? []) issues.add(place, describeIssue(issue));
    return parsed.data ?? schema.safeParse(withoutUnknown(record, parsed.error)).data;
  };
  const parse = async <Item>(kind: Kind, schema: z.ZodType<Item>) => {
    const sent = lists[kind];
    if (!sent) return undefined;
    return mapRecords(sent, (record, n) => [parseRecord(`${kind}.${n}`, schema, record)]);
  };
  const keyed = (lists.connectors ?? []).map((record) => isObject(record) && record['key']);
  return {
    connectors: await parse('connectors', connectorRecord),
    machines: await parse('machines', machineRecord),
    clientRules: await parse('clientRules', ruleRecord),
    connectorKeys: new Set(keyed),
  };
}

/** The record without the members that are unknown, so that its others are checked too. */
function withoutUnknown(record: unknown, error: z.ZodError | undefined): unknown {
  const unknown = new Set(
    (error?.issues ?? []).flatMap((issue) =>
      issue.code === 'unrecognized_keys' && issue.path.length === 0 ? issue.keys : [],
    ),
  );
  if (!isObject(record)) return record;
  return Object.fromEntries(Object.entries(record).filter(([name]) => !unknown.has(name)));
}
