import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { usePublishing } from '../oauth/metadata-documents/publishing.ts';
import { DOMAIN } from '../oauth/metadata-documents/document-host.ts';
import type { Canaries } from '../connections/canaries.ts';
import { call } from '../support/mcp.ts';
import { startSystem } from '../support/system.ts';
import {
  startTraceCollector,
  traceSettings,
  type TraceCollector,
} from '../support/trace-collector.ts';
import {
  json,
  resultFor,
  startScriptedUpstream,
  toolCall,
} from '../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../support/upstream/system.ts';
import { expectNothingOf } from './span-contents.ts';

const canary = (what: string) => `canary-${what}-${randomBytes(9).toString('hex')}`;

describe('TRC-04 Privacy of traces', () => {
  const settings: Record<string, string> = {};
  let collector: TraceCollector;
  before(async () => {
    collector = await startTraceCollector();
    Object.assign(settings, traceSettings(collector));
  });
  after(() => collector.stop());

  it('traces contain no text from request URLs, headers or bodies', async () => {
    const system = await startSystem({ settings });
    const canaries: Canaries = new Map();
    const write = (what: string) => {
      const value = canary(what);
      canaries.set(what, value);
      return value;
    };
    for (const base of [system.auth, system.resource, system.management])
      for (const method of ['GET', 'POST', 'PROPFIND']) {
        const headers = {
          authorization: `Bearer ${write('token')}`,
          cookie: `session=${write('cookie')}`,
          'user-agent': write('agent'),
          'x-forwarded-for': write('address'),
          'x-request-id': write('request-id'),
          'mcp-session-id': write('session'),
          tracestate: `vendor=${write('state')}`,
          baggage: `person=${write('baggage')}`,
          traceparent: write('traceparent'),
          'content-type': 'application/x-www-form-urlencoded',
        };
        for (const path of ['/', '/oauth/token', '/connect', '/interaction', '/api/v1/connectors'])
          await fetch(`${base}${path}/${write('path')}?q=${write('query')}`, {
            method,
            headers,
            redirect: 'manual',
            ...(method === 'GET' ? {} : { body: `grant_type=${write('grant-type')}` }),
          }).then((answer) => answer.text());
        await fetch(`${base}/oauth/token`, {
          method: 'POST',
          headers,
          body: `grant_type=${write('grant-type')}&client_id=${write('client-id')}`,
        }).then((answer) => answer.text());
      }
    await system.stop();
    expectNothingOf(collector, canaries);
  });

  describe('Clients with a metadata document', () => {
    const publishing = usePublishing('sqlite', undefined, {}, settings);

    it('traces contain neither the URL nor the host of a client metadata document', async () => {
      const { host, newClient, visit } = publishing();
      const client = newClient();
      await visit(client);
      const asked = await collector.find(({ name }) => name === 'GET metadata-document', 'it');
      expect(asked).to.deep.include({
        kind: 'client',
        isError: false,
        attributes: { 'http.request.method': 'GET', 'gatehouse.peer': 'metadata-document' },
      });
      host.answer = (_req, res) => res.writeHead(404).end();
      await visit(newClient());
      const failed = ({ name, isError }: { name: string; isError: boolean }) =>
        name === 'GET metadata-document' && isError;
      const refused = await collector.find(failed, 'the one that failed');
      expect(refused.attributes).to.include({ 'error.type': 'DocumentRefused' });
      expectNothingOf(collector, new Map(Object.entries({ host: DOMAIN, address: client.id })));
    });
  });

  describe('Calls to the upstream MCP server', () => {
    const behind = useUpstream(startScriptedUpstream, { system: { settings } });

    it('traces contain no tools, arguments, sessions or responses of the upstream', async () => {
      const [name, given, session, answer] = ['tool', 'argument', 'session', 'answer'].map(canary);
      const { link, token } = await behind().connected('full');
      behind().upstream.respondWith((_req, res, body) => {
        res.setHeader('mcp-session-id', String(session));
        json(res, resultFor(body as object, { text: answer }));
      });
      const { headers } = await call(link, token, toolCall(name, 1, { given }));
      const id = headers.get('x-request-id');
      await collector.find(({ attributes }) => attributes['gatehouse.request_id'] === id, 'it');
      const values = { tool: name, argument: given, session, answer, token, link };
      const written = Object.entries(values).map(([what, value]): [string, string] => [
        what,
        String(value),
      ]);
      expectNothingOf(collector, new Map(written));
    });
  });
});
