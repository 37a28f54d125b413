import { readFileSync } from 'fs';
import * as path from 'node:path';
const data = readFileSync(0, 'utf-8').split('\n').filter((l) => l.length > 0);
const tree = {};
for (const p of data) {
  let at = tree;
  for (const part of path.posix.normalize(p).split('/').filter(Boolean)) at = at[part] ??= {};
}
const show = (node, depth) => Object.keys(node).sort().forEach((k) => { console.log(' '.repeat(depth) + k); show(node[k], depth + 1); });
show(tree, 0);
/* cases
wrong: depth + 1 >>> depth
case: /usr/bin|/usr/../etc/x|usr/lib => etc| x|usr| bin| lib
*/
