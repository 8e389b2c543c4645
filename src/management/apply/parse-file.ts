import { z } from 'zod';
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
import type { Issues } from './plan.ts';

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
export function parseFile(value: unknown, issues: Issues): File {
  const lists = parseInput(listsSchema, value);
  const parse = <Item>(kind: Kind, schema: z.ZodType<Item>): (Item | undefined)[] | undefined =>
    lists[kind]?.map((record, n) => {
      if (lengthOf(record) > MAX_RECORD_CHARACTERS)
        return void issues.add(`${kind}.${n}`, `larger than ${MAX_RECORD_CHARACTERS} characters`);
      const parsed = schema.safeParse(record);
      for (const issue of parsed.error?.issues ?? [])
        issues.add(`${kind}.${n}`, describeIssue(issue));
      return parsed.data ?? schema.safeParse(withoutUnknown(record, parsed.error)).data;
    });
  const keyed = (lists.connectors ?? []).map((record) => isObject(record) && record['key']);
  return {
    connectors: parse('connectors', connectorRecord),
    machines: parse('machines', machineRecord),
    clientRules: parse('clientRules', ruleRecord),
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
