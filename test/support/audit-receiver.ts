// A receiver of the audit log on loopback: records what it is sent, and answers as a test says.
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { buffer } from 'node:stream/consumers';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { until } from './until.ts';

export type Delivery = {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** The status of the answer. */
  status: number;
};

export type Reply = {
  status: number;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
};

/** Returns the answer, or undefined if it wrote to the response itself. */
export type Behaviour = (
  delivery: Omit<Delivery, 'status'>,
  response: ServerResponse,
) => Reply | undefined;

export type AuditReceiver = {
  /** With a path. */
  url: string;
  port: number;
  deliveries: Delivery[];
  /** From now on; undefined accepts everything. */
  answerWith(behaviour: Behaviour | undefined): void;
  /** Waits for the delivery with this index. */
  delivery(index: number): Promise<Delivery>;
  stop(): Promise<void>;
};

export type ReceiverOptions = { port?: number; tls?: { key: string; cert: string } };

export async function startAuditReceiver({
  port = 0,
  tls,
}: ReceiverOptions = {}): Promise<AuditReceiver> {
  const deliveries: Delivery[] = [];
  let behave: Behaviour | undefined;
  const server = (tls ? createTlsServer(tls) : createServer()).on('request', (req, res) => {
    void buffer(req)
      .then((body) => {
        const { method = '', url: path = '', headers } = req;
        const delivery = { method, path, headers, body };
        const reply = behave ? behave(delivery, res) : { status: 204 };
        deliveries.push({ ...delivery, status: reply?.status ?? 0 });
        if (reply) res.writeHead(reply.status, reply.headers).end(reply.body);
      })
      .catch(() => undefined);
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');
  const bound = (server.address() as AddressInfo).port;
  return {
    url: `${tls ? 'https' : 'http'}://localhost:${bound}/audit`,
    port: bound,
    deliveries,
    answerWith: (behaviour) => void (behave = behaviour),
    delivery: (index) => until(`delivery ${index}`, () => deliveries[index]),
    async stop() {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}

export type ReceivedItem = {
  id: string;
  number: number;
  event: string;
  outcome: string;
  argumentsJson?: string;
  arguments?: unknown;
} & Record<string, unknown>;

/** The items of a webhook in the standard format. */
export function itemsIn({ body }: Pick<Delivery, 'body'>): ReceivedItem[] {
  return JSON.parse(body.toString('utf8')).data.items;
}

export function acceptedItems({ deliveries }: AuditReceiver): ReceivedItem[] {
  return deliveries.filter(({ status }) => status >= 200 && status < 300).flatMap(itemsIn);
}
