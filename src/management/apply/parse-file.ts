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

/** The records of the lists that are there, each in its place. An invalid one is undefined. */
export type File = {
  connectors: (ConnectorRecord | undefined)[] | undefined;
  machines: (MachineRecord | undefined)[] | undefined;
  clientRules: (RuleRecord | undefined)[] | undefined;
  /** The keys of the connectors, also of invalid ones. */
  connectorKeys: ReadonlySet<unknown>;
};

const records = list(z.unknown()).optional();
const listsSchema = z.strictObject(
  { connectors: records, machines: records, clientRules: records },
  FILE,
);

/** Adds the problems of all records to `issues`. Throws HttpError 400 if there are no lists. */
export function parseFile(value: unknown, issues: Issues): File {
  const lists = parseInput(listsSchema, value);
  const parse = <Item>(kind: Kind, schema: z.ZodType<Item>): (Item | undefined)[] | undefined =>
    lists[kind]?.map((record, n) => {
      const parsed = schema.safeParse(record);
      for (const issue of parsed.error?.issues ?? [])
        issues.add(`${kind}.${n}`, describeIssue(issue));
      return parsed.data;
    });
  const keyed = (lists.connectors ?? []).map((record) => isObject(record) && record['key']);
  return {
    connectors: parse('connectors', connectorRecord),
    machines: parse('machines', machineRecord),
    clientRules: parse('clientRules', ruleRecord),
    connectorKeys: new Set(keyed),
  };
}
