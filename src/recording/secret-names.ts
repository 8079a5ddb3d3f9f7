/**
 * Names that mean that their value is a secret: members of messages, environment variables, headers. Pure.
 */

/** Endings of names, without dashes, underscores and capitals, after which `token` and `key` mean a secret. */
const TOKENS =
  /(?:^|auth|access|refresh|id|session|bearer|csrf|xsrf|api|bot|github|gitlab|slack|npm|security|registration|handfast)token$/;
const KEYS = /(?:api|secret|private|access|encryption|signing|master|account)key$/;
const WORDS = /(?:password|passwd|passphrase|secret|credential|credentials)$/;
const HEADERS = /^(?:proxy)?authorization$|^(?:set)?cookie2?$/;

/** Endings of names of environment variables, which describe their content more plainly. */
const VARIABLE =
  /(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY)$|(?:^|_)(?:PASS|KEY|PAT|AUTH|COOKIE|DSN)$/i;

/** Returns true for the name of a member, setting or header whose value is a secret: `auth_token`, `apiKey`, `X-Api-Key`. */
export function isSecretName(name: string): boolean {
  if (name.length > 100) return false;
  const plain = name.replace(/[-_\s.]/g, '').toLowerCase();
  return TOKENS.test(plain) || KEYS.test(plain) || WORDS.test(plain) || HEADERS.test(plain) || isShouted(name);
}

/**
 * Returns true for a header whose value is a secret, also in a list of headers or in lines of text: no prose has these
 * names before a colon or a comma.
 */
export const isSecretHeader = (name: string): boolean =>
  HEADERS.test(name.replace('-', '').toLowerCase()) || (/^x-/i.test(name) && isSecretName(name));

/** Returns true for the option of a command whose value is a secret: `--api-key`. */
export const isSecretFlag = (word: string): boolean => /^--?[A-Za-z][\w-]*$/.test(word) && isSecretName(word);

/** Returns true for names in capitals: `MY_API_KEY` inside a message is the name of a variable. */
const isShouted = (name: string): boolean => /^[A-Z][A-Z0-9_]*$/.test(name) && isSecretVariable(name);

/** Returns true for the name of an environment variable whose value is a secret: `GITHUB_TOKEN`, `DB_PASSWORD`. */
export const isSecretVariable = (name: string): boolean => VARIABLE.test(name);
