// What a list named `tools` may contain: what a connector, machine, minted token or entitlement opens of an MCP server.
import * as z from 'zod';

/** The record of a connector, which every call reads, has the list. */
const MAX_PATTERNS = 200;

/** No invisible characters, which people would not see in the list, and no space around. */
const PATTERN =
  /^!?(?!(?:resource|prompt):$)(?:resource:|prompt:)?(?![!\s])[^\p{Cc}\p{Cs}\p{Cf}\p{Zl}\p{Zp}]{1,1000}(?<!\s)$/u;

const EXPECTED =
  'the name of a tool, resource:<uri> or prompt:<name>, in which * stands for any characters, or one of these after ! to take it out';
const LIST = `a list of 1 to ${MAX_PATTERNS} patterns, each ${EXPECTED}; without it, or with null in a change, everything is open`;

export const toolPattern = z.string(EXPECTED).regex(PATTERN, EXPECTED);

export const toolPatterns = z
  .array(toolPattern, LIST)
  .min(1, LIST)
  .max(MAX_PATTERNS, LIST)
  .transform((patterns) => [...new Set(patterns)]);

export const TOOL_PATTERNS_EXPECTED = EXPECTED;
