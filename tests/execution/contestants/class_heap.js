class Heap {
  #a = [];
  constructor(cmp = (x, y) => x - y) { this.cmp = cmp; }
  get size() { return this.#a.length; }
  push(x) {
    const a = this.#a; let i = a.push(x) - 1;
    while (i > 0) { const p = (i - 1) >> 1; if (this.cmp(a[p], a[i]) <= 0) break; [a[p], a[i]] = [a[i], a[p]]; i = p; }
  }
  pop() {
    const a = this.#a, top = a[0], last = a.pop();
    if (a.length) {
      a[0] = last;
      for (let i = 0; ;) {
        let c = 2 * i + 1; if (c >= a.length) break;
        if (c + 1 < a.length && this.cmp(a[c + 1], a[c]) < 0) c++;
        if (this.cmp(a[i], a[c]) <= 0) break;
        [a[i], a[c]] = [a[c], a[i]]; i = c;
      }
    }
    return top;
  }
}
const nums = require('fs').readFileSync(0, 'utf8').split(/\s+/).filter((s) => s !== '').map(Number);
const h = new Heap((x, y) => y - x);
nums.slice(1).forEach((x) => h.push(x));
let cost = 0;
while (h.size > 1) { const d = h.pop() - h.pop(); if (d) h.push(d); }
console.log(h.size ? h.pop() : 0);
/* cases
wrong: (x, y) => y - x >>> (x, y) => x - y
case: 6|2 7 4 1 8 1 => 1
case: 2|3 3 => 0
*/
