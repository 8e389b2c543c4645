// Runs as $BROWSER of a client under test: passes the URL to the test process (`url-opener.ts`), whose scripted browser opens it.
// Imports only Node, because it starts for each authorization.
import { request } from 'node:http';

const [, , url = ''] = process.argv;
const sent = request(process.env.TEST_BROWSER ?? '', { method: 'POST' });
sent.on('response', (response) => response.resume());
sent.end(url);
