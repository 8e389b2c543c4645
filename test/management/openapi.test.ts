import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect } from 'chai';
import { type OpenApi, readDocument, validators } from './openapi-validation.ts';
import { MANAGEMENT_ROLES, type ManagementRole } from '../../src/settings/management-roles.ts';
import { KEY, KEYS, type ManagementHost, openManagementHost, request } from './management-host.ts';

/** The lowest role that may use each operation. */
const OPERATIONS: Record<string, ManagementRole> = {
  'GET /openapi.json': 'viewer',
  'GET /connectors': 'viewer',
  'POST /connectors': 'operator',
  'GET /connectors/{id}': 'viewer',
  'PATCH /connectors/{id}': 'operator',
  'DELETE /connectors/{id}': 'operator',
  'POST /connectors/{id}/delete': 'operator',
  'GET /accounts': 'viewer',
  'GET /accounts/{id}': 'viewer',
  'GET /accounts/{id}/export': 'administrator',
  'POST /accounts/{id}/disable': 'administrator',
  'POST /accounts/{id}/enable': 'administrator',
  'POST /accounts/{id}/forget': 'administrator',
  'GET /grants': 'viewer',
  'GET /exports/grants': 'viewer',
  'GET /grants/{id}': 'viewer',
  'DELETE /grants/{id}': 'operator',
  'POST /grants/{id}/allow': 'operator',
  'POST /grants/{id}/reset-limits': 'operator',
  'GET /workloads': 'viewer',
  'POST /workloads/pause': 'operator',
  'POST /workloads/resume': 'operator',
  'POST /workloads/end': 'operator',
  'POST /workloads/test': 'operator',
  'GET /clients': 'viewer',
  'PATCH /clients': 'operator',
  'POST /clients/revoke': 'operator',
  'POST /clients': 'operator',
  'POST /clients/allow': 'operator',
  'POST /clients/key': 'operator',
  'GET /clients/machine': 'viewer',
  'GET /client-rules': 'viewer',
  'POST /client-rules': 'operator',
  'DELETE /client-rules/{id}': 'operator',
  'GET /tokens': 'viewer',
  'POST /tokens': 'operator',
  'GET /tokens/{id}': 'viewer',
  'PATCH /tokens/{id}': 'operator',
  'DELETE /tokens/{id}': 'operator',
  'GET /credentials': 'viewer',
  'DELETE /credentials/{id}': 'operator',
  'GET /keys': 'viewer',
  'POST /keys/rotate': 'administrator',
  'POST /keys/rewrap': 'administrator',
  'POST /settings/reload': 'administrator',
  'POST /apply': 'operator',
  'GET /export': 'viewer',
  'GET /levels': 'viewer',
  'GET /upstreams': 'viewer',
  'GET /upstreams/{id}': 'viewer',
  'GET /upstreams/{id}/review': 'viewer',
  'POST /upstreams/{id}/approve': 'operator',
  'POST /upstreams/{id}/connect': 'administrator',
  'GET /audit': 'viewer',
  'GET /audit/keys': 'viewer',
  'GET /audit/export': 'auditor',
  'GET /audit/verify': 'auditor',
  'GET /audit/verification': 'viewer',
  'GET /audit/delivery': 'viewer',
  'GET /audit/reach': 'viewer',
  'POST /access/explain': 'viewer',
  'GET /access': 'viewer',
  'GET /access/who': 'viewer',
  'GET /refusals/{id}': 'viewer',
  'GET /access/missing-groups': 'viewer',
  'GET /attempts': 'viewer',
  'GET /attempts/{id}': 'viewer',
  'POST /audit/delivery/{id}/resend': 'administrator',
};

describe('the OpenAPI document', () => {
  let host: ManagementHost;
  let document: OpenApi;
  before(async () => {
    host = await openManagementHost();
    document = await readDocument(host.url, KEY);
  });
  after(() => host.close());

  const operations = () =>
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
    );
  const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

  it('the document contains every operation', () => {
    const named = operations().map(({ path, method }) => `${method.toUpperCase()} ${path}`);
    expect(named).to.have.members(Object.keys(OPERATIONS));
    const ids = operations().map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).to.equal(ids.length);
  });

  it('ROL-01 every operation requires the documented role, whichever key asks, and names it to the others', async () => {
    const changes = async () => (await readAll()).length;
    for (const { path, method, operation } of operations()) {
      const name = `${method.toUpperCase()} ${path}`;
      const required = OPERATIONS[name];
      expect(operation.security, name).to.deep.equal([{ managementKey: [required] }]);
      const address = `/api/v1${path.replace('{id}', 'unknown')}`;
      const before = await changes();
      for (const role of MANAGEMENT_ROLES) {
        const { status, body, headers } = await request(host, method.toUpperCase(), address, {
          body: bodyFor(method.toUpperCase()),
          headers: { Authorization: `Bearer ${KEYS[role]}` },
        });
        if (MANAGEMENT_ROLES.indexOf(role) >= MANAGEMENT_ROLES.indexOf(required ?? 'viewer')) {
          expect(status, `${name} as ${role}`).not.to.be.oneOf([401, 403]);
          continue;
        }
        expect({ name, status, body }).to.deep.equal({
          name,
          status: 403,
          body: {
            error: 'insufficient_scope',
            error_description: `this requires the role ${required}, and key:${role} has the role ${role}`,
          },
        });
        expect(headers.get('www-authenticate')).to.equal(
          `Bearer error="insufficient_scope", scope="${required}"`,
        );
        expect(await changes(), name).to.equal(before);
      }
    }
  });

  async function readAll(): Promise<unknown[]> {
    return (await request(host, 'GET', '/api/v1/audit?limit=1000')).body['items'] as unknown[];
  }

  it('the document has the address of the host and the version', () => {
    expect(document).to.deep.include({
      openapi: '3.1.1',
      info: { title: 'Gatehouse management API', version: '1.2.3' },
      servers: [{ url: `${host.url}/api/v1` }],
      security: [{ managementKey: [] }],
    });
  });

  it('every reference resolves and every schema compiles', () => {
    const references = JSON.stringify(document).match(/"\$ref":"[^"]+"/g) ?? [];
    expect(references).not.to.deep.equal([]);
    for (const reference of references) {
      const name = /^"\$ref":"#\/components\/schemas\/(\w+)"$/.exec(reference)?.[1] ?? reference;
      expect(document.components.schemas).to.have.property(name);
    }
    const documented = validators(document);
    for (const { path, method, operation } of operations()) {
      for (const status of Object.keys(operation.responses))
        expect(documented(method, `/api/v1${path}`, Number(status))).to.be.a('function');
      const body = operation.requestBody?.content['application/json']?.schema;
      if (body) new Ajv2020({ strict: false, validateFormats: false }).compile(body);
    }
  });

  it('every path parameter is described', () => {
    for (const { path, operation } of operations()) {
      const inPath = operation.parameters.filter((parameter) => parameter.in === 'path');
      expect(inPath.map(({ name }) => `{${name}}`)).to.deep.equal(path.match(/\{\w+\}/g) ?? []);
    }
  });

  it('the API answers exactly the documented methods of each path', async () => {
    for (const [path, methods] of Object.entries(document.paths)) {
      const address = `/api/v1${path.replace('{id}', 'unknown')}`;
      for (const method of METHODS) {
        const { status } = await request(host, method, address, { body: bodyFor(method) });
        const isThere = method.toLowerCase() in methods;
        expect(status === 405, `${method} ${address}: ${status}`).to.equal(!isThere);
      }
    }
  });

  function bodyFor(method: string) {
    return method === 'GET' ? undefined : {};
  }

  it('the body schema accepts and rejects the same bodies as the API', async () => {
    const schema = document.paths['/connectors']?.['post']?.requestBody?.content;
    const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(
      schema?.['application/json']?.schema ?? {},
    );
    const good = { name: 'Ops', level: 'operations' };
    const bodies: [object, number][] = [
      [good, 201],
      [{ ...good, maxUses: 5, expiresIn: '30d' }, 201],
      [{ ...good, expiresAt: '2999-12-31T23:30:00+02:00' }, 201],
      [{}, 400],
      [{ ...good, level: 'root' }, 400],
      [{ ...good, suggestedLevel: 'analytics' }, 201],
      [{ ...good, suggestedLevel: 'root' }, 400],
      [{ ...good, audience: [{ email: 'ada@example.com' }, { group: 'a' }] }, 201],
      [{ ...good, audience: [] }, 400],
      [{ ...good, audience: [{ anyone: true }] }, 400],
      [{ ...good, audience: [{ group: '' }] }, 400],
      [{ ...good, maxUses: 0 }, 400],
      [{ ...good, maxUses: '5' }, 400],
      [{ ...good, expiresIn: '30' }, 400],
      [{ ...good, colour: 'red' }, 400],
      [{ ...good, name: 'a\nb' }, 400],
    ];
    for (const [body, expected] of bodies) {
      const { status } = await request(host, 'POST', '/api/v1/connectors', { body });
      expect({ body, status }).to.deep.equal({ body, status: expected });
      expect(validate(body), JSON.stringify(body)).to.equal(expected === 201);
    }
  });

  it('the document requires the management key', async () => {
    const headers = { Authorization: '' };
    const { status } = await request(host, 'GET', '/api/v1/openapi.json', { headers });
    expect(status).to.equal(401);
  });
});
