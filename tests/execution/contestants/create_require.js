import { createRequire } from 'module';
const require = createRequire(import.meta.url);
const fs = require('fs');
const assert = require('assert');

const [n, ...xs] = fs.readFileSync(0, 'utf8').split(/\s+/).map(Number);
const used = new Set();
let moves = 0;
for (let x of xs.slice(0, n)) { while (used.has(x)) { x++; moves++; } used.add(x); }
assert.strictEqual(used.size, n);
console.log(moves);
export default moves;
/* cases
wrong: x++; moves++; >>> x++; moves = 1;
case: 4|1 1 1 2 => 5
case: 2|3 9 => 0
*/
