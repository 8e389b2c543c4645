// nginx and Caddy as Debian packages them, each plain, and with a question about the token to an introspection endpoint before each request.
import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePorts } from '../../support/free-ports.ts';
import { CADDY, NGINX, type Program, requireProgram } from '../../support/programs.ts';
import { until } from '../../support/until.ts';
import type { Target } from '../proxied/raw-calls.ts';
import { type ServerProcess, startProgram } from '../server-process.ts';

export type Subject = {
  name: string;
  target: Target;
  server: ServerProcess;
  /** What it asks about tokens. */
  asks?: ServerProcess;
};

type Addresses = { port: number; server: string; introspection: string | undefined };
type Product = {
  program: Program;
  /** The file of its settings, and the arguments that name it. */
  settings: (addresses: Addresses, directory: string) => string;
  args: (file: string, directory: string) => string[];
};

const PRODUCTS: Readonly<Record<string, Product>> = {
  nginx: {
    program: NGINX,
    args: (file, directory) => ['-p', directory, '-c', file],
    settings: ({ port, server, introspection }, directory) => `
daemon off;
master_process off;
pid ${directory}/nginx.pid;
error_log ${directory}/error.log;
events { worker_connections 1024; }
http {
  access_log ${directory}/access.log;
  client_body_temp_path ${directory}/body;
  proxy_temp_path ${directory}/proxy;
  fastcgi_temp_path ${directory}/fastcgi;
  uwsgi_temp_path ${directory}/uwsgi;
  scgi_temp_path ${directory}/scgi;
  keepalive_requests 100000000;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  upstream server { server ${server}; keepalive 64; keepalive_requests 100000000; }
${introspection ? `  upstream introspection { server ${introspection}; keepalive 64; keepalive_requests 100000000; }` : ''}
  server {
    listen 127.0.0.1:${port};
    location / {
      ${introspection ? 'auth_request /introspect;' : ''}
      proxy_pass http://server;
    }
${
  introspection
    ? `    location = /introspect {
      internal;
      proxy_pass http://introspection;
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header Connection "";
    }`
    : ''
}
  }
}
`,
  },
  Caddy: {
    program: CADDY,
    args: (file) => ['run', '--adapter', 'caddyfile', '--config', file],
    settings: ({ port, server, introspection }) => `
{
  admin off
  auto_https off
}
http://127.0.0.1:${port} {
  bind 127.0.0.1
${introspection ? `  forward_auth ${introspection} {\n    uri /introspect\n  }` : ''}
  reverse_proxy ${server}
}
`,
  },
};

export async function startProducts(
  root: string,
  token: string,
  introspection: { host: string; process: ServerProcess },
  server: string,
): Promise<Subject[]> {
  const subjects: Subject[] = [];
  for (const [name, product] of Object.entries(PRODUCTS))
    for (const asked of [undefined, introspection]) {
      const directory = await mkdtemp(join(root, `${product.program.commands[0]}-`));
      const [port = 0] = await freePorts(1);
      const file = join(directory, 'settings');
      const addresses = { port, server, introspection: asked?.host };
      await writeFile(file, product.settings(addresses, directory));
      // Caddy writes what it runs with.
      const environment = { HOME: directory, XDG_CONFIG_HOME: directory, XDG_DATA_HOME: directory };
      const program = requireProgram(product.program);
      const args = product.args(file, directory);
      const started = startProgram(program, args, { environment, directory });
      const url = `http://127.0.0.1:${port}/mcp`;
      await until(`${name} answers`, () => started.isRunning() && isAnswered(url));
      subjects.push({
        name: asked ? `${name}, asks about the token` : name,
        target: { url, token },
        server: started,
        ...(asked ? { asks: asked.process } : {}),
      });
    }
  return subjects;
}

function isAnswered(url: string): Promise<boolean> {
  return fetch(url, { method: 'POST' }).then(
    () => true,
    () => false,
  );
}
