// The tools of the server for the conformance suite, which gives their names and forms.
import { randomBytes } from 'node:crypto';
import {
  acceptedContent,
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type ContentBlock,
  createRequestStateCodec,
  type ElicitRequestFormParams,
  fromJsonSchema,
  type InputRequest,
  inputRequired,
  type InputRequiredResult,
  inputResponse,
  type JsonSchemaType,
  type ServerContext,
  type ServerNotifier,
} from '@modelcontextprotocol/server';
import { PIXEL } from './everything-content.ts';

export type EverythingCall = {
  given: Record<string, unknown>;
  context: ServerContext;
  notify: ServerNotifier;
};

type Outcome = CallToolResult | InputRequiredResult;

type EverythingTool = {
  name: string;
  inputSchema?: JsonSchemaType;
  run(call: EverythingCall): Outcome | Promise<Outcome>;
};

type Form = ElicitRequestFormParams['requestedSchema'];
type State = { round: number; name?: string };

export const STATE = createRequestStateCodec<State>({ key: randomBytes(32) });

/** A WAV file without samples. */
const SILENCE = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=';

const TEXT: ContentBlock = { type: 'text', text: 'A text' };
const IMAGE: ContentBlock = { type: 'image', data: PIXEL, mimeType: 'image/png' };
const AUDIO: ContentBlock = { type: 'audio', data: SILENCE, mimeType: 'audio/wav' };
const EMBEDDED: ContentBlock = {
  type: 'resource',
  resource: { uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'An embedded text' },
};

const DEFAULTS: Form = {
  type: 'object',
  properties: {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  },
};

const OPTIONS = ['option1', 'option2', 'option3'];
const TITLED = OPTIONS.map((option) => ({ const: option, title: `The ${option}` }));
const ENUMS: Form = {
  type: 'object',
  properties: {
    untitledSingle: { type: 'string', enum: OPTIONS },
    titledSingle: { type: 'string', oneOf: TITLED },
    legacyEnum: { type: 'string', enum: OPTIONS, enumNames: ['One', 'Two', 'Three'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: OPTIONS } },
    titledMulti: { type: 'array', items: { anyOf: TITLED } },
  },
};

/** Has keywords that a server or proxy could lose. */
const SCHEMA_2020_12: JsonSchemaType = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};

const CAPITAL = inputRequired.createMessage({
  messages: [{ role: 'user', content: { type: 'text', text: 'Which city is the capital?' } }],
  maxTokens: 50,
});
const ROOTS = inputRequired.listRoots();
const CONFIRM = form({
  type: 'object',
  properties: { ok: { type: 'boolean' } },
  required: ['ok'],
});

const DECLARED: readonly EverythingTool[] = [
  { name: 'test_simple_text', run: () => content(TEXT) },
  { name: 'test_image_content', run: () => content(IMAGE) },
  { name: 'test_audio_content', run: () => content(AUDIO) },
  { name: 'test_embedded_resource', run: () => content(EMBEDDED) },
  { name: 'test_multiple_content_types', run: () => content(TEXT, IMAGE, EMBEDDED) },
  { name: 'test_tool_with_logging', run: logThreeTimes },
  { name: 'test_logging_tool', run: logThreeTimes },
  { name: 'test_tool_with_progress', run: reportProgress },
  { name: 'test_streaming_elicitation', run: reportProgress },
  { name: 'test_error_handling', run: () => ({ ...text('It failed'), isError: true }) },
  {
    name: 'test_reconnection',
    run({ context }) {
      context.http?.closeSSE?.();
      return text('It continues');
    },
  },
  {
    name: 'test_sampling',
    inputSchema: {
      type: 'object',
      properties: { prompt: { type: 'string' } },
      required: ['prompt'],
    },
    run: ({ context }) => askOnce(context, { answer: CAPITAL }),
  },
  {
    name: 'test_elicitation',
    inputSchema: {
      type: 'object',
      properties: { message: { type: 'string' } },
      required: ['message'],
    },
    run: ({ given, context }) =>
      askOnce(context, { answer: field('response', String(given['message'])) }),
  },
  {
    name: 'test_elicitation_sep1034_defaults',
    run: ({ context }) => askOnce(context, { answer: form(DEFAULTS) }),
  },
  {
    name: 'test_elicitation_sep1330_enums',
    run: ({ context }) => askOnce(context, { answer: form(ENUMS) }),
  },
  {
    name: 'json_schema_2020_12_tool',
    inputSchema: SCHEMA_2020_12,
    run: () => text('Valid'),
  },
  {
    name: 'test_x_mcp_header',
    inputSchema: {
      type: 'object',
      properties: {
        region: mirrored('string', 'Region'),
        priority: mirrored('integer', 'Priority'),
        urgent: mirrored('boolean', 'Urgent'),
      },
    },
    run: ({ given }) => text(JSON.stringify(given)),
  },
  {
    name: 'test_missing_capability',
    run: ({ context }) => askOnce(context, { answer: CAPITAL }),
  },
  {
    name: 'test_trigger_tool_change',
    run({ notify }) {
      notify.toolsChanged();
      return text('The tools changed');
    },
  },
  {
    name: 'test_trigger_prompt_change',
    run({ notify }) {
      notify.promptsChanged();
      return text('The prompts changed');
    },
  },
  {
    name: 'test_input_required_result_elicitation',
    run: ({ context }) => askOnce(context, { user_name: field('name') }),
  },
  {
    name: 'test_input_required_result_sampling',
    run: ({ context }) => askOnce(context, { capital: CAPITAL }),
  },
  {
    name: 'test_input_required_result_list_roots',
    run: ({ context }) => askOnce(context, { client_roots: ROOTS }),
  },
  {
    name: 'test_input_required_result_request_state',
    run: ({ context }) => askWithState(context, { confirm: CONFIRM }),
  },
  {
    name: 'test_input_required_result_tampered_state',
    run: ({ context }) => askWithState(context, { confirm: CONFIRM }),
  },
  {
    name: 'test_input_required_result_multiple_inputs',
    run: ({ context }) =>
      askWithState(context, { user_name: field('name'), greeting: CAPITAL, client_roots: ROOTS }),
  },
  { name: 'test_input_required_result_multi_round', run: askTwice },
  {
    name: 'test_input_required_result_capabilities',
    run({ context }) {
      const { elicitation, sampling } = capabilitiesOf(context) ?? {};
      const wanted = {
        ...(elicitation ? { elicited: field('value') } : {}),
        ...(sampling ? { sampled: CAPITAL } : {}),
      };
      return Object.keys(wanted).length === 0 ? text('Nothing to ask') : askOnce(context, wanted);
    },
  },
];

export const TOOLS = DECLARED.map(({ inputSchema = { type: 'object' }, ...tool }) => ({
  ...tool,
  inputSchema: fromJsonSchema<Record<string, unknown>>(inputSchema),
}));

function content(...blocks: ContentBlock[]): CallToolResult {
  return { content: blocks };
}

function text(said: string): CallToolResult {
  return content({ type: 'text', text: said });
}

function form(requestedSchema: Form, message = 'Please fill in'): InputRequest {
  return inputRequired.elicit({ message, requestedSchema });
}

function field(name: string, message?: string): InputRequest {
  return form(
    { type: 'object', properties: { [name]: { type: 'string' } }, required: [name] },
    message,
  );
}

/** A property that a header repeats (SEP-2243). */
function mirrored(type: 'string' | 'integer' | 'boolean', header: string): JsonSchemaType {
  const property = { type, 'x-mcp-header': header };
  return property;
}

function capabilitiesOf({ mcpReq }: ServerContext) {
  const envelope = mcpReq.envelope as Record<string, ClientCapabilities> | undefined;
  return envelope?.[CLIENT_CAPABILITIES_META_KEY];
}

async function logThreeTimes({ context }: EverythingCall): Promise<CallToolResult> {
  for (const said of ['started', 'continued', 'ended']) await context.mcpReq.log('info', said);
  return text('Logged');
}

async function reportProgress({ context: { mcpReq } }: EverythingCall): Promise<CallToolResult> {
  const { progressToken = 0 } = mcpReq._meta ?? {};
  for (const progress of [0, 50, 100])
    await mcpReq.notify({
      method: 'notifications/progress',
      params: { progressToken, progress, total: 100 },
    });
  return text(String(progressToken));
}

/** Ends with the responses once all are there. */
function askOnce(
  { mcpReq: { inputResponses } }: ServerContext,
  inputRequests: Record<string, InputRequest>,
): Outcome {
  return areAnswered(inputResponses, inputRequests)
    ? text(JSON.stringify(inputResponses))
    : inputRequired({ inputRequests });
}

async function askWithState(
  context: ServerContext,
  inputRequests: Record<string, InputRequest>,
): Promise<Outcome> {
  const { inputResponses, requestState } = context.mcpReq;
  if (requestState<State>()?.round === 1 && areAnswered(inputResponses, inputRequests))
    return text(JSON.stringify(inputResponses));
  return inputRequired({ inputRequests, requestState: await STATE.mint({ round: 1 }) });
}

function areAnswered(
  responses: Record<string, unknown> | undefined,
  requests: Record<string, InputRequest>,
): boolean {
  return Object.keys(requests).every((key) => inputResponse(responses, key).kind !== 'missing');
}

/** Asks for a name, then for a color. */
async function askTwice({ context: { mcpReq } }: EverythingCall): Promise<Outcome> {
  const { round = 0, name: known } = mcpReq.requestState<State>() ?? {};
  const name = known ?? acceptedContent<{ name: string }>(mcpReq.inputResponses, 'step1')?.name;
  const color = acceptedContent(mcpReq.inputResponses, 'step2')?.['color'];
  if (round === 2 && color !== undefined) return text(`${name} likes ${color}`);
  const next = round === 0 || name === undefined ? { round: 1 } : { round: 2, name };
  return inputRequired({
    inputRequests: next.round === 1 ? { step1: field('name') } : { step2: field('color') },
    requestState: await STATE.mint(next),
  });
}
