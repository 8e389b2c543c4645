// Batches as webhooks (Standard Webhooks, https://www.standardwebhooks.com).
import { createHmac } from 'node:crypto';
import type { DeliveryTarget } from '../../settings/audit-delivery.ts';
import type { Renderer } from './render.ts';

type WebhookTarget = Extract<DeliveryTarget, { kind: 'webhook' }>;

export function webhookRenderer({ format, secrets }: WebhookTarget): Renderer {
  const keys = secrets.map((secret) => Buffer.from(secret.slice('whsec_'.length), 'base64'));
  return {
    render(items) {
      const timestamp = items.at(-1)?.time;
      const content =
        format === 'array' ? items : { type: 'audit.items', timestamp, data: { items } };
      return { body: Buffer.from(JSON.stringify(content)), newest: 0 };
    },
    isOutdated: () => false,
    headers(id, body, now) {
      const timestamp = String(Math.floor(now));
      // Not with the library of Standard Webhooks: its hash in JavaScript blocks the process for 16 ms with a large batch, and this one for 1 ms.
      const signatures = keys.map((key) => {
        const signature = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body);
        return `v1,${signature.digest('base64')}`;
      });
      return {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature': signatures.join(' '),
      };
    },
    rejectedIn: () => undefined,
  };
}
