import { expect } from 'chai';
import { authorityCheck } from '../../src/http/canonical-host.ts';

describe('The Host header of a request', () => {
  const CASES: [baseUrl: string, host: string, isSame: boolean][] = [
    ['https://mcp.example.com', 'mcp.example.com', true],
    ['https://mcp.example.com', 'MCP.example.com:443', true],
    ['https://mcp.example.com', 'mcp.example.com:80', false],
    ['https://mcp.example.com', 'mcp.example.com:8443', false],
    ['https://mcp.example.com', 'mcp.example.com:443:443', false],
    ['https://mcp.example.com:8443', 'mcp.example.com:8443', true],
    ['https://mcp.example.com:8443', 'mcp.example.com', false],
    ['https://mcp.example.com:8443', 'mcp.example.com:443', false],
    ['http://localhost', 'localhost:80', true],
    ['http://localhost', 'localhost:443', false],
    ['http://[::1]', '[::1]:80', true],
  ];
  for (const [baseUrl, host, isSame] of CASES)
    it(`RSV-08 ${host} ${isSame ? 'is' : 'is not'} the authority of ${baseUrl}`, () => {
      expect(authorityCheck(baseUrl)(host)).to.equal(isSame);
    });

  it('is not the authority of any address if it is missing', () => {
    expect(authorityCheck('http://localhost')(undefined)).to.equal(false);
  });
});
