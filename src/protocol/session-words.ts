/**
 * The words of session RPC that its schemas and the code share.
 *
 * `session-types.ts` exports them to the rest of the project.
 */

/** The first three are the protocol's; the others appear only where they are configured. */
export const PROVIDERS = ['openai', 'openrouter', 'antigravity', 'anthropic', 'google', 'compatible'] as const;
export type Provider = (typeof PROVIDERS)[number];

/**
 * Sources that enable a provider: a sign-in, a key that was stored here, a variable of the environment, or an address
 * alone.
 */
export const CREDENTIAL_SOURCES = ['sign_in', 'stored_key', 'environment', 'address'] as const;
export type CredentialSource = (typeof CREDENTIAL_SOURCES)[number];

/**
 * Sources of a session's choice of model, the strongest first. `credential`: none of them, so it is the default of a
 * provider.
 */
export const CHOICE_SOURCES = ['session', 'file', 'stored', 'credential'] as const;
export type ChoiceSource = (typeof CHOICE_SOURCES)[number];

export const THINKING_LEVELS = ['OFF', 'MINIMAL', 'LOW', 'MEDIUM', 'HIGH', 'XHIGH'] as const;
export type Thinking = (typeof THINKING_LEVELS)[number];

/** Images of prompts: the media type by the extension of the file. */
export const IMAGE_TYPES: Readonly<Record<string, string>> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.webp': 'image/webp',
  '.gif': 'image/gif',
};

/** Audio of prompts: the media type by the names it is sent under. */
export const AUDIO_TYPES: Readonly<Record<string, string>> = {
  'audio/wav': 'audio/wav',
  'audio/wave': 'audio/wav',
  'audio/x-wav': 'audio/wav',
  'audio/mpeg': 'audio/mpeg',
  'audio/mp3': 'audio/mpeg',
  'audio/ogg': 'audio/ogg',
  'audio/flac': 'audio/flac',
  'audio/aac': 'audio/aac',
};

/** Providers with models that take audio, as their clients send it, with the accepted types. */
export const AUDIO_OF_PROVIDERS: Readonly<Record<string, readonly string[]>> = {
  google: [...new Set(Object.values(AUDIO_TYPES))],
  antigravity: [...new Set(Object.values(AUDIO_TYPES))],
  openrouter: [...new Set(Object.values(AUDIO_TYPES))],
  compatible: ['audio/wav', 'audio/mpeg'],
};

/** Returns true for audio: attachments of prompts are images or audio. */
export const isAudio = (mimeType: string): boolean => mimeType.toLowerCase().startsWith('audio/');

/** Returns the marker of an attachment in the text of its prompt, counted from 1. */
export const markOf = (mimeType: string, number: number): string =>
  `[${isAudio(mimeType) ? 'Audio' : 'Image'} ${number}]`;

/** Reasons of a turn's end. Sent as `stop_reason` on every terminal event. */
export const STOP_REASONS = [
  'end_turn',
  'max_tokens',
  'max_rounds',
  'refusal',
  'interrupted',
  'timeout',
  'cleared',
  'shutdown',
  'restart',
  'closed',
  'error',
] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/** Beginning of system lines about MCP servers of a session. Editors show them also if they show no other system line. */
export const MCP_NOTICE = 'MCP server ';

/** Returns the notice about an MCP server that a session, or a task, named and cannot use. */
export const mcpRefusal = (name: string, reason: string): string =>
  `${MCP_NOTICE}${JSON.stringify(name)} cannot be used: ${reason}`;

/** Returns the notice that the user's action at an address is done, as the MCP server reports. */
export const mcpDone = (name: string, href: string): string =>
  `${MCP_NOTICE}${JSON.stringify(name)} says that it is done: ${href}`;

/**
 * Returns the notice about tools of an MCP server that are left out, because their definitions have changed since the
 * session started.
 */
export const mcpChange = (name: string, tools: readonly string[]): string =>
  `${MCP_NOTICE}${JSON.stringify(name)} changed its tools, which this session does not use: ${tools.join(', ')}; a new session would`;
