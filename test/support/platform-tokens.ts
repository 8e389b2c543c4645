// Claims as platforms put them into the JWTs of their programs.
import { randomUUID } from 'node:crypto';
import type { Members } from './workload-platform.ts';

const now = () => Math.floor(Date.now() / 1000);

/** A job of GitHub Actions (docs.github.com, OpenID Connect reference). Ids are texts, and the clock of GitHub is a little ahead. */
export function githubClaims(issuer: string, audience: string, changed: Members = {}): Members {
  const iat = now() + 5;
  const workflow = 'acme/app/.github/workflows/deploy.yml@refs/heads/main';
  const sha = '8f3a1c2d4e5f60718293a4b5c6d7e8f901234567';
  return {
    jti: randomUUID(),
    sub: 'repo:acme@1234567/app@7654321:ref:refs/heads/main',
    aud: audience,
    ref: 'refs/heads/main',
    sha,
    repository: 'acme/app',
    repository_owner: 'acme',
    repository_owner_id: '1234567',
    run_id: '16000000001',
    run_number: '42',
    run_attempt: '1',
    repository_visibility: 'private',
    repository_id: '7654321',
    actor_id: '1001',
    actor: 'ada',
    workflow: 'deploy',
    head_ref: '',
    base_ref: '',
    event_name: 'push',
    ref_protected: 'true',
    ref_type: 'branch',
    workflow_ref: workflow,
    workflow_sha: sha,
    job_workflow_ref: workflow,
    job_workflow_sha: sha,
    runner_environment: 'github-hosted',
    iss: issuer,
    nbf: iat - 600,
    exp: iat + 300,
    iat,
    ...changed,
  };
}

/** A projected token of a service account (kubernetes.io, TokenRequest API). */
export function kubernetesClaims(
  issuer: string,
  audience: string,
  { account = {}, ...changed }: Members & { account?: Members } = {},
): Members {
  const iat = now();
  return {
    aud: [audience],
    exp: iat + 3600,
    iat,
    nbf: iat,
    iss: issuer,
    jti: randomUUID(),
    'kubernetes.io': {
      namespace: 'billing',
      node: { name: 'node-1', uid: '2d3b7c62-0000-4000-8000-000000000003' },
      pod: { name: 'reporter-5d9c', uid: '9f0e7d43-0000-4000-8000-000000000002' },
      serviceaccount: {
        name: 'reporter',
        uid: 'b7f3a1c2-0000-4000-8000-000000000001',
        ...account,
      },
    },
    sub: 'system:serviceaccount:billing:reporter',
    ...changed,
  };
}
