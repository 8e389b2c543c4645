// The response to every MCP call at a peer, with minimal work.
export const ANSWER = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  result: { content: [{ type: 'text', text: '1' }], structuredContent: { visits: 1 } },
});
