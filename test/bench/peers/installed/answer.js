// The answer to every MCP call at a peer: what a tool would say, so that what is measured is what comes before it.
export const ANSWER = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  result: { content: [{ type: 'text', text: '1' }], structuredContent: { visits: 1 } },
});
