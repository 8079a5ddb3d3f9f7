/**
 * The code that the pages of these tests load: both clients, as a page that uses Handfast imports them. Bundled by the
 * tests.
 */
import * as agent from '../../src/agent.browser.ts';
import * as control from '../../src/control.browser.ts';

Object.assign(globalThis, { agent, control });
