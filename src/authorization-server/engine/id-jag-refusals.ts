// Why an assertion that vouches for a person is refused: the closed list of reason codes, each with its error (RFC 7521 section 4.1.1) and what helps.
import { errors } from 'oidc-provider';

type Meaning = { error: 'invalid_grant' | 'invalid_target' | 'invalid_scope'; description: string };

/** The code goes to the log, the error and its description to the client, which is one that the operator knows. */
export const ID_JAG_REFUSALS = {
  malformed: grant('the assertion is not a signed JWT'),
  wrong_type: grant('the assertion is not an ID-JAG: its typ must be oauth-id-jag+jwt'),
  wrong_algorithm: grant('the assertion is not signed with a public-key algorithm known here'),
  unknown_issuer: grant('the issuer of the assertion is not trusted here'),
  bad_signature: grant('the signature of the assertion is not by a published key of its issuer'),
  missing_claim: grant(
    'the assertion needs iss, sub, aud, client_id, resource, jti, exp and iat, each in its proper form',
  ),
  wrong_audience: grant(
    'the assertion is not for this authorization server: aud must be its issuer',
  ),
  expired: grant('the assertion has expired; get a fresh one'),
  not_yet_valid: grant('the assertion is not valid yet; check the clocks'),
  too_long_lived: grant('the assertion is valid for longer than an hour'),
  wrong_client: grant('the assertion was made for another client than the one that presents it'),
  client_not_vouched: grant('the issuer of the assertion may not vouch for this client'),
  client_revoked: grant('an administrator does not let anybody connect this app'),
  wrong_tenant: grant('the tenant of the assertion is not the one that is trusted here'),
  unsupported_restriction: grant(
    'the assertion is restricted in a way that cannot be held to here (cnf or authorization_details)',
  ),
  unknown_resource: target('the resource of the assertion is not a connect link of this server'),
  several_resources: target(
    'the assertion names several resources: choose one of them with the parameter resource',
  ),
  other_resource: target('the parameter resource is not a resource of the assertion'),
  connector_over: grant('the connect link was revoked or has expired; ask for a fresh one'),
  scope_without_level: {
    error: 'invalid_scope',
    description: 'the scope of the assertion names no permission level of this server',
  },
  account_disabled: grant('the account of the person was disabled after the assertion was made'),
  not_entitled: grant('the person may not use this connect link'),
  used_up: grant('this connect link was used up; ask for a fresh connect link'),
  replayed: grant('the assertion was used already; get a fresh one'),
  grant_over: grant('what this assertion gave was ended meanwhile; get a fresh one'),
} as const satisfies Record<string, Meaning>;

export type IdJagRefusal = keyof typeof ID_JAG_REFUSALS;

const ERRORS = {
  invalid_grant: (description: string) => new errors.InvalidGrant(description),
  invalid_target: (description: string) => new errors.InvalidTarget(description),
  invalid_scope: (description: string) => new errors.InvalidScope(description, ''),
};

export function refusedBecause(reason: IdJagRefusal): Error {
  const { error, description } = ID_JAG_REFUSALS[reason];
  const refusal = ERRORS[error](description);
  const said = { error_description: description, error_detail: reason, scope: undefined };
  return Object.assign(refusal, said);
}

function grant(description: string): Meaning {
  return { error: 'invalid_grant', description };
}

function target(description: string): Meaning {
  return { error: 'invalid_target', description };
}
