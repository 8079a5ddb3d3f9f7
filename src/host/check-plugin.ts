/**
 * Checks a plugin for its author's mistakes, in the place where it was written: in `definePlugin`, and in `start` of
 * the host for plugins made without it. Plain JavaScript has no compiler that would find them.
 */
import { suggest } from '../base/suggest.ts';
import { valueKind } from '../base/value-kind.ts';
import { capabilityNames, isAdditionalCapability } from '../protocol/a2e.ts';
import { isVerbatim } from '../wire/a2e.ts';
import { shown } from '../wire/codec.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';

/** The functions a plugin may have beside its methods. */
const HOOKS = ['join', 'start', 'stop', 'opened', 'closed', 'snapshot', 'restore'] as const;

/** Throws `config_invalid` with the mistake and the correction. */
export function checkPlugin(plugin: unknown): void {
  if (!isObject(plugin)) throw invalid(`a plugin is an object { name, type, methods }, got ${valueKind(plugin)}`);
  const { name, type, methods } = plugin;
  if (methods === undefined && typeof plugin.run === 'function') {
    throw invalid(`${named(name)} is a tool, not a plugin; write toolsPlugin({ tools: [it] })`);
  }
  if (typeof name !== 'string' || name === '') throw invalid(`a plugin needs a name, got ${valueKind(name)}`);
  const of = `plugin ${shown(name)}`;
  if (!capabilityNames.some((known) => known === type) && !isAdditionalCapability(type)) {
    throw invalid(`${of}: type must name a capability, got ${valueKind(type)}${meant(type)}`);
  }
  if (!Array.isArray(methods)) {
    throw invalid(`${of}: methods must be a list, [handle(method, run)], got ${valueKind(methods)}`);
  }
  for (const [at, handler] of methods.entries()) {
    if (!isObject(handler) || !isObject(handler.method) || typeof handler.run !== 'function') {
      throw invalid(`${of}: methods[${at}] must come from handle(method, run), got ${valueKind(handler)}`);
    }
    const { request, reply, event, capability } = handler.method as Record<string, unknown>;
    if (type !== capability && capabilityNames.some((known) => known === capability)) {
      throw invalid(`${of}: type is ${valueKind(type)}, but ${valueKind(request)} belongs to "${capability}"`);
    }
    const types = [request, reply, event];
    if (request !== '' && types.every((each) => typeof each === 'string' && isVerbatim(each))) continue;
    throw invalid(`${of} has a message type that cannot be written: ${shown(types.join())}`);
  }
  for (const hook of HOOKS) {
    if (plugin[hook] === undefined || typeof plugin[hook] === 'function') continue;
    throw invalid(`${of}: ${hook} must be a function, got ${valueKind(plugin[hook])}`);
  }
  for (const [key, value] of Object.entries(plugin)) {
    if (typeof value !== 'function' || HOOKS.some((hook) => hook === key) || key === 'metadata') continue;
    const near = suggest(key, HOOKS);
    if (near !== undefined && plugin[near] === undefined) throw invalid(`${of} has "${key}"; did you mean "${near}"?`);
  }
}

const invalid = (message: string): HandfastError => fail('config_invalid', message);
const named = (name: unknown): string => (typeof name === 'string' ? shown(name) : 'what was given');

function meant(type: unknown): string {
  const near = typeof type === 'string' ? suggest(type, capabilityNames) : undefined;
  return near === undefined
    ? `; one of ${capabilityNames.join(', ')}, or a name of your own`
    : `; did you mean "${near}"?`;
}
