/** The tools of the interoperability tests as a plugin for a configured host. */
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tools } from './our-host.ts';

export const plugin = toolsPlugin({ name: 'interop', tools, priority: 5 });
