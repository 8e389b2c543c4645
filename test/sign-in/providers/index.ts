import { adFs } from './ad-fs.ts';
import { auth0 } from './auth0.ts';
import { authelia } from './authelia.ts';
import { authentik } from './authentik.ts';
import { cognito } from './cognito.ts';
import { entraId } from './entra-id.ts';
import { gitlab } from './gitlab.ts';
import { google } from './google.ts';
import { jumpcloud } from './jumpcloud.ts';
import { keycloak } from './keycloak.ts';
import { okta } from './okta.ts';
import { pingFederate } from './pingfederate.ts';

export const RECORDED_PROVIDERS = [
  google,
  okta,
  entraId,
  keycloak,
  auth0,
  adFs,
  cognito,
  gitlab,
  authentik,
  authelia,
  jumpcloud,
  pingFederate,
];
