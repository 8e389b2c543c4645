// The review of what MCP servers changed in their tools.
import * as z from 'zod';
import { toolChangeSeverities } from '../../observability/labels.ts';
import { SUSPICIONS } from '../../upstreams/tool-differences.ts';
import { plain, quoted } from '../commands/terminal.ts';
import * as schemas from './schemas.ts';

const severity = z
  .enum(toolChangeSeverities)
  .describe('`alert` if something in it deserves suspicion.');
const digest = z.string().min(1).max(100);

const difference = z.strictObject({
  path: z.string().describe('JSON pointer into the tool.'),
  before: z.string().optional(),
  after: z.string().optional().describe('Characters that nobody sees are written as ⟨U+202E⟩.'),
  suspicion: z.enum(SUSPICIONS).optional(),
});

export const toolReviewSchema = z
  .strictObject({
    tools: z.array(
      z.strictObject({
        name: z.string(),
        change: z.enum(['new', 'changed', 'removed']),
        digest,
        since: schemas.time.optional().describe('When Gatehouse first saw the change.'),
        severity,
        differences: z.array(difference),
        gains: z
          .strictObject({
            before: schemas.level,
            after: schemas.level,
            through: z.array(z.string()).describe('Names of connectors and minted tokens.'),
            more: z.int().optional().describe('How many others there are.'),
          })
          .optional()
          .describe(
            'Present if a lower level opens the tool by the change: through what it can be used that could not be used for it before.',
          ),
        similarTo: z
          .array(z.string())
          .optional()
          .describe('Other tools of the server whose names are equal to a model.'),
        isTwice: z.literal(true).optional().describe('The server lists the name twice.'),
      }),
    ),
    more: z.int().optional().describe('How many further changes wait that are not shown.'),
    instructions: z
      .strictObject({ digest, severity, before: z.string().optional(), after: z.string() })
      .optional(),
  })
  .meta({ id: 'ToolReview' });

export type ToolReview = z.output<typeof toolReviewSchema>;

const MAX_APPROVED = 2000;
const ONE_AT_LEAST = 'tools, instructions or both';

export const approveBody = z
  .strictObject(
    {
      tools: z
        .array(z.strictObject({ name: z.string().min(1), digest }, schemas.OBJECT))
        .min(1)
        .max(MAX_APPROVED)
        .optional()
        .describe('As the review shows them.'),
      instructions: digest.optional().describe('The digest of the instructions in the review.'),
    },
    schemas.OBJECT,
  )
  .refine(({ tools, instructions }) => tools !== undefined || instructions !== undefined, {
    error: ONE_AT_LEAST,
  });

/** What `gatehouse upstream review` prints. */
export function reviewText({ tools, instructions, more }: ToolReview): string {
  if (tools.length === 0 && !instructions)
    return 'Nothing waits: no tool changed since it was approved or looked at.';
  const parts = [
    ...(instructions
      ? [
          [
            `${instructions.severity === 'alert' ? 'ALERT ' : ''}instructions of the server (${instructions.digest})`,
            ...(instructions.before === undefined
              ? []
              : [`  before: ${quoted(instructions.before)}`]),
            `  now:    ${quoted(instructions.after)}`,
          ].join('\n'),
        ]
      : []),
    ...tools.map(toolText),
    ...(more === undefined ? [] : [`and ${more} more`]),
  ];
  return parts.join('\n\n');
}

const SUSPECTED: Readonly<Record<(typeof SUSPICIONS)[number], string>> = {
  hidden_characters: 'has hidden characters',
  similar_name: 'has almost the name of another tool',
  weaker_hint: 'promises less harm than before',
  addresses_model: 'gives orders to the model',
  new_required: 'requires more',
};

function gainingText({ through, more }: { through: string[]; more?: number | undefined }): string {
  const others = more === undefined ? '' : ` and ${more} more`;
  return through.length === 0 ? 'nothing yet' : `${through.map(plain).join(', ')}${others}`;
}

function toolText(tool: ToolReview['tools'][number]): string {
  const {
    name,
    change,
    digest: current,
    severity: grade,
    differences,
    similarTo,
    isTwice,
    gains,
  } = tool;
  return [
    `${grade === 'alert' ? 'ALERT ' : ''}${change} tool ${plain(name)} (${current})`,
    ...(similarTo ? [`  to a model, its name is that of ${plain(similarTo.join(', '))}`] : []),
    ...(isTwice ? ['  the server lists this name twice'] : []),
    ...(gains
      ? [
          `  the level ${gains.after} opens it, where ${gains.before} was needed; it is gained through ${gainingText(gains)}`,
        ]
      : []),
    ...differences.flatMap(({ path, before, after, suspicion }) => [
      `  ${plain(path || '/')}${suspicion ? `: ${SUSPECTED[suspicion]}` : ''}`,
      ...(before === undefined ? [] : [`    before: ${quoted(before)}`]),
      ...(after === undefined ? [] : [`    now:    ${quoted(after)}`]),
    ]),
  ].join('\n');
}
