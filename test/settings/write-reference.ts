// Writes config/settings.md (npm run settings:reference).
import { writeFileSync } from 'node:fs';
import { REFERENCE, settingsReference } from './reference.ts';

writeFileSync(REFERENCE, settingsReference());
console.log('config/settings.md describes every setting.');
