// Reads OTLP log records in protobuf (opentelemetry-proto, logs/v1/logs.proto), independently of the library that writes them.

type Field = { number: number; value: bigint | Buffer };

function fieldsIn(bytes: Buffer): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = () => {
    let [value, shift] = [0n, 0n];
    for (;;) {
      const byte = bytes.readUInt8(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
      shift += 7n;
    }
  };
  const take = (length: number) => bytes.subarray(at, (at += length));
  while (at < bytes.length) {
    const tag = Number(varint());
    const number = tag >> 3;
    const kind = tag & 7;
    if (kind === 0) fields.push({ number, value: varint() });
    else if (kind === 1) fields.push({ number, value: take(8).readBigUInt64LE() });
    else if (kind === 5) fields.push({ number, value: BigInt(take(4).readUInt32LE()) });
    else if (kind === 2) fields.push({ number, value: take(Number(varint())) });
    else throw new Error(`unknown wire type ${kind}`);
  }
  return fields;
}

function messages(bytes: Buffer, number: number): Buffer[] {
  return fieldsIn(bytes).flatMap((field) =>
    field.number === number && Buffer.isBuffer(field.value) ? [field.value] : [],
  );
}

function text(bytes: Buffer, number: number): string | undefined {
  return messages(bytes, number)[0]?.toString('utf8');
}

export type LogRecord = {
  /** Milliseconds since the epoch. */
  time: number;
  eventName: string | undefined;
  body: unknown;
  attributes: Record<string, unknown>;
  resource: Record<string, unknown>;
};

export function logRecordsIn(request: Buffer): LogRecord[] {
  return messages(request, 1).flatMap((resourceLogs) => {
    const resource = attributesIn(messages(resourceLogs, 1)[0] ?? Buffer.alloc(0), 1);
    return messages(resourceLogs, 2).flatMap((scopeLogs) =>
      messages(scopeLogs, 2).map((record) => {
        const time = fieldsIn(record).find(({ number }) => number === 1)?.value;
        return {
          time: Number(BigInt(String(time)) / 1_000_000n),
          eventName: text(record, 12),
          body: valueIn(messages(record, 5)[0]),
          attributes: attributesIn(record, 6),
          resource,
        };
      }),
    );
  });
}

function attributesIn(bytes: Buffer, number: number): Record<string, unknown> {
  return Object.fromEntries(
    messages(bytes, number).map((pair) => [text(pair, 1), valueIn(messages(pair, 2)[0])]),
  );
}

/** Texts, booleans and whole numbers. */
function valueIn(bytes: Buffer | undefined): unknown {
  const [field] = bytes ? fieldsIn(bytes) : [];
  if (!field) return undefined;
  if (Buffer.isBuffer(field.value)) return field.value.toString('utf8');
  return field.number === 2 ? field.value === 1n : Number(field.value);
}

/** An answer that refuses some records. */
export function partialSuccess(rejected: number, message: string): Buffer {
  const reason = Buffer.from(message);
  const inner = Buffer.concat([Buffer.from([0x08, rejected, 0x12, reason.length]), reason]);
  return Buffer.concat([Buffer.from([0x0a, inner.length]), inner]);
}
