import { expect } from 'chai';
import { type Canaries, findCanaries } from '../connections/canaries.ts';
import type { TraceCollector } from '../support/trace-collector.ts';

/** All attributes of all spans. */
const ATTRIBUTES = [
  'db.collection.name',
  'db.operation.name',
  'db.system.name',
  'error.type',
  'gatehouse.host',
  'gatehouse.peer',
  'gatehouse.reason',
  'gatehouse.request_id',
  'http.request.method',
  'http.response.status_code',
  'http.route',
  'server.address',
  'server.port',
  'url.scheme',
];

/** Expects that the collector received spans without these values and without other attributes. */
export function expectNothingOf(collector: TraceCollector, canaries: Canaries): void {
  expect(collector.spans()).to.not.deep.equal([]);
  const sent = Buffer.from(collector.bodies.join('\n'));
  expect(findCanaries(canaries, sent)).to.deep.equal([]);
  for (const { name, attributes } of collector.spans()) {
    expect(ATTRIBUTES, name).to.include.members(Object.keys(attributes));
    expect(name).to.match(/^[A-Z]+( (\/[\w./:-]*|[a-z-]+))?$|^[a-zA-Z]+ [a-z-]+$/);
  }
}
