/**
 * Finds the handler of a request: exact paths first, then the longest prefix. Nothing is decoded or normalised, so a path
 * that is spelled in another way is another path.
 *
 * Every endpoint on the HTTP port supplies its routes.
 */
import { errorReply, type HttpReply, type HttpRoute } from '../../transport/http/http-exchange.ts';

type Methods = Map<string, HttpRoute>;

const NOT_FOUND = errorReply(404, 'unknown_type', 'nothing is served here');

export class Router {
  readonly #exact = new Map<string, Methods>();
  /** Longest first. */
  readonly #prefixes: { readonly path: string; readonly methods: Methods }[] = [];

  /** Two routes with the same method and path are a mistake of the programmer and throw. */
  constructor(routes: Iterable<HttpRoute>) {
    for (const route of routes) {
      const methods = route.prefix ? this.#prefixMethods(route.path) : this.#exactMethods(route.path);
      if (methods.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`);
      methods.set(route.method, route);
    }
    this.#prefixes.sort((a, b) => b.path.length - a.path.length);
  }

  /** Returns the route of a request, or the refusal to answer it with: 404, or 405 with the methods that would do. */
  find(method: string, path: string): HttpRoute | HttpReply {
    const methods = this.#exact.get(path) ?? this.#prefixes.find((entry) => path.startsWith(entry.path))?.methods;
    if (methods === undefined) return NOT_FOUND;
    const route = methods.get(method);
    if (route !== undefined) return route;
    return errorReply(405, 'unknown_type', 'this method is not served here', ['Allow', [...methods.keys()].join(', ')]);
  }

  #exactMethods(path: string): Methods {
    let methods = this.#exact.get(path);
    if (methods === undefined) {
      methods = new Map();
      this.#exact.set(path, methods);
    }
    return methods;
  }

  #prefixMethods(path: string): Methods {
    let entry = this.#prefixes.find((each) => each.path === path);
    if (entry === undefined) {
      entry = { path, methods: new Map() };
      this.#prefixes.push(entry);
    }
    return entry.methods;
  }
}

/** Returns the path of a request target, without the query. */
export function pathOf(target: string): string {
  const query = target.indexOf('?');
  return query === -1 ? target : target.slice(0, query);
}
