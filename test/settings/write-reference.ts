// `npm run settings:reference`: writes config/settings.md.
import { writeFileSync } from 'node:fs';
import { REFERENCE, settingsReference } from './reference.ts';

writeFileSync(REFERENCE, settingsReference());
console.log('config/settings.md describes every setting.');
