// The settings of the operator's own MCP server, which the resource server stands in front of.
import { z } from 'zod';
import { LEVELS } from '../permission-level.ts';
import { duration, isDistinct, wholeNumber } from './value-types.ts';

const MEGABYTE = 1024 * 1024;
const LONGEST_TIMEOUT = 3600;

const URL_FORM =
  'the address of an MCP server such as https://tools.example.com/mcp, without a user name, a password or a #';

const url = z.string(URL_FORM).refine((text) => {
  const parsed = URL.parse(text);
  if (!parsed || !/^https?:$/.test(parsed.protocol)) return false;
  return parsed.username === '' && parsed.password === '' && !text.includes('#');
}, URL_FORM);

const patience = duration.refine((seconds) => seconds <= LONGEST_TIMEOUT, 'at most 1h');

const tool = z.strictObject({
  name: z.string().min(1).max(128),
  level: z.enum(LEVELS),
});

/** Durations in seconds. `url` is kept as written: it is the audience of what the upstream is told about callers. */
export const upstream = z.strictObject({
  url,
  privateNetwork: z.boolean().default(false),
  timeout: patience.prefault('60s'),
  silence: patience.prefault('5m'),
  maxAnswerBytes: wholeNumber(1024, 256 * MEGABYTE).default(16 * MEGABYTE),
  openCalls: z
    .strictObject({
      perCaller: wholeNumber(1, 100_000).default(100),
      inAll: wholeNumber(1, 100_000).default(5000),
    })
    .prefault({}),
  defaultLevel: z.enum(LEVELS).default('full'),
  tools: z
    .array(tool)
    .refine((tools) => isDistinct(tools.map(({ name }) => name)), 'a name of its own for each')
    .default([]),
});

export type UpstreamSettings = z.output<typeof upstream>;
