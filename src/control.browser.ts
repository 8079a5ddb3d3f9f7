/**
 * `handfast/control` in a page: drives sessions over WebSocket. What it loads needs nothing of Node, which
 * `test/package.test.ts` and `test/browser/` hold it to.
 */
export { connect } from './control-client/connect-browser.ts';
export * from './control-client/exports.ts';
