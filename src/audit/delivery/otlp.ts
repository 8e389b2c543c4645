// Batches as OpenTelemetry log records (OTLP over HTTP, in protobuf), with the semantic conventions of MCP and GenAI.
import { type Attributes, type HrTime, SeverityNumber } from '@opentelemetry/api';
import { ProtobufLogsSerializer } from '@opentelemetry/otlp-transformer';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { membersOf } from '../../json-values.ts';
import type { DeliveryTarget } from '../../settings/audit-delivery.ts';
import type { DeliveredItem, Renderer } from './render.ts';
import { MAX_BATCH_ITEMS, type Rendering } from './progress.ts';

type OtlpTarget = Extract<DeliveryTarget, { kind: 'otlp' }>;

/** Records have the time at which they were rendered if their own is too old. */
const MAX_RENDERED_SECONDS = 1800;

/** Not the exporter of OpenTelemetry: it drops batches, loses the order, and tells nobody what a receiver refused. */
export function otlpRenderer({ maxAge }: OtlpTarget, version: string): Renderer {
  const resource = resourceFromAttributes({
    'service.name': 'gatehouse',
    'service.version': version,
  });
  const instrumentationScope = { name: 'gatehouse.audit', version };
  return {
    render(items, rendering) {
      let newest = rendering.notBefore;
      const records = items.map((item) => {
        newest = timeOfRecord(item, { ...rendering, notBefore: newest }, maxAge);
        return {
          hrTime: hrTime(newest),
          hrTimeObserved: hrTime(rendering.at),
          severityNumber: item.outcome === 'refused' ? SeverityNumber.WARN : SeverityNumber.INFO,
          severityText: item.outcome === 'refused' ? 'WARN' : 'INFO',
          body: bodyOf(item),
          eventName: item.event,
          resource,
          instrumentationScope,
          attributes: {
            ...attributesOf(item),
            ...(isSame(newest, item) ? {} : { 'gatehouse.time': item.time }),
          },
          droppedAttributesCount: 0,
        };
      });
      const bytes = ProtobufLogsSerializer.serializeRequest(records);
      return { body: Buffer.from(bytes ?? []), newest };
    },
    isOutdated: ({ at }, now) => now - at > MAX_RENDERED_SECONDS,
    headers: () => ({ 'content-type': 'application/x-protobuf' }),
    rejectedIn({ body }) {
      const { rejectedLogRecords: count = 0, errorMessage: reason = '' } = partialSuccessIn(body);
      return count > 0 ? { count: Math.min(count, MAX_BATCH_ITEMS), reason } : undefined;
    },
  };
}

/** Receivers refuse records that are old, in the future, or older than those that they have. */
function timeOfRecord(
  { time }: DeliveredItem,
  { at, notBefore }: Rendering,
  maxAge: number,
): number {
  const own = Date.parse(time) / 1000;
  const isAccepted = own >= at - maxAge && own <= at;
  return Math.max(isAccepted ? own : at, notBefore);
}

function isSame(seconds: number, { time }: DeliveredItem): boolean {
  return Math.round(seconds * 1000) === Date.parse(time);
}

function hrTime(seconds: number): HrTime {
  const milliseconds = Math.round(seconds * 1000);
  return [Math.floor(milliseconds / 1000), (milliseconds % 1000) * 1_000_000];
}

function bodyOf({ event, tool, outcome }: DeliveredItem): string {
  return [event, tool, outcome].filter((part) => part !== undefined).join(' ');
}

/** Members of items with a name in the semantic conventions. */
const CONVENTIONS: Readonly<Record<string, string>> = {
  id: 'log.record.uid',
  event: 'event.name',
  account: 'user.id',
  address: 'client.address',
  userAgent: 'user_agent.original',
  tool: 'gen_ai.tool.name',
};

/** As a member of the attributes by name: flat texts, numbers and booleans, because many receivers keep nothing else. */
function attributesOf(item: DeliveredItem): Attributes {
  const attributes: Attributes = {};
  for (const [member, value] of Object.entries(item)) {
    if (member === 'time' || member === 'argumentsJson' || value === undefined) continue;
    attributes[CONVENTIONS[member] ?? `gatehouse.${member}`] = attributeValue(value);
  }
  return { ...attributes, ...callAttributes(item) };
}

function attributeValue(value: unknown): string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? value
    : JSON.stringify(value);
}

/** The semantic conventions of MCP (https://github.com/open-telemetry/semantic-conventions-genai). */
function callAttributes(item: DeliveredItem): Attributes {
  const { event, tool, argumentsJson, outcome, reason } = item;
  if (event !== 'call' && event !== 'call_ended') return {};
  const { method, target, toolError } = membersOf(item);
  const name = typeof method === 'string' ? method : tool === undefined ? undefined : 'tools/call';
  const error = outcome === 'refused' || outcome === 'failed' ? (reason ?? outcome) : undefined;
  return {
    ...(name === undefined ? {} : { 'mcp.method.name': name }),
    ...(tool === undefined ? {} : { 'gen_ai.operation.name': 'execute_tool' }),
    ...(argumentsJson === undefined ? {} : { 'gen_ai.tool.call.arguments': argumentsJson }),
    ...(typeof target === 'string' ? targetAttribute(name, target) : {}),
    ...(toolError === true ? { 'error.type': 'tool_error' } : {}),
    ...(error === undefined ? {} : { 'error.type': error }),
  };
}

function targetAttribute(method: string | undefined, target: string): Attributes {
  return method === 'prompts/get'
    ? { 'gen_ai.prompt.name': target }
    : { 'mcp.resource.uri': target };
}

/** An answer that cannot be read is no reason to send the batch again. */
function partialSuccessIn(body: Buffer): { rejectedLogRecords?: number; errorMessage?: string } {
  try {
    return ProtobufLogsSerializer.deserializeResponse(body).partialSuccess ?? {};
  } catch {
    return {};
  }
}
