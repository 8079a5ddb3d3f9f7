/**
 * Reports of providers about a request that exceeds the context of their model. They share no code for it, so the words are
 * recognised; a limit of tokens per minute is another matter and not meant.
 *
 * Sources: the providers' error references and the messages of common servers.
 */

const CODES = /context_length_exceeded|context_window|request_too_large|exceed_context_size/;

const WORDS: readonly RegExp[] = [
  // OpenAI, vLLM, OpenRouter and most compatible servers
  /maximum context length|context length (?:exceeded|limit)|exceeds? (?:the|its|your) (?:model's )?(?:maximum )?context/i,
  /(?:exceeds?|exceeded|over|beyond|larger than|fit (?:in|into)) [^.]{0,60}context (?:window|size|length|limit)/i,
  // Anthropic
  /prompt is too long|input length and `?max_tokens`? exceed/i,
  // Google
  /input token count [^.]{0,40}exceeds the maximum/i,
  // xAI, Mistral, Groq, Bedrock
  /maximum prompt length|too large for model with|reduce the length of the (?:messages|prompt|input)/i,
  /input is too long for (?:the )?requested model/i,
];

/** True for a failure because the request does not fit into the model's context. */
export function isOverflow(words: string, code: string): boolean {
  if (/per[ -]minute|rate limit|TPM\b/i.test(words)) return false;
  return CODES.test(code) || WORDS.some((pattern) => pattern.test(words));
}

const LIMITS: readonly RegExp[] = [
  /maximum (?:context|prompt) length (?:is|of) ([\d,_]+)/i,
  /> ?([\d,_]+) maximum/,
  /maximum number of tokens allowed \(?([\d,_]+)/i,
  /context (?:size|window|length)[^\d.]{0,40}?([\d,_]{4,})/i,
];

/** Returns the context window in tokens, when the message names it. */
export function windowNamedIn(words: string): number | undefined {
  for (const pattern of LIMITS) {
    const named = pattern.exec(words)?.[1];
    const tokens = named === undefined ? Number.NaN : Number(named.replaceAll(/[,_]/g, ''));
    if (Number.isInteger(tokens) && tokens >= 256) return tokens;
  }
  return undefined;
}
