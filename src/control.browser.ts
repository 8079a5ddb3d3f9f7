/**
 * `handfast/control` in a page: drives sessions over WebSocket. The modules it loads need nothing of Node;
 * `test/package.test.ts` and `test/browser/` check this.
 */
export { connect } from './control-client/connect-browser.ts';
export * from './control-client/exports.ts';
