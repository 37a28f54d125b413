function UnionFind(n) {
  this.parent = Array.from({ length: n }, (_, i) => i);
  this.count = n;
}
UnionFind.prototype.find = function (x) {
  while (this.parent[x] !== x) x = this.parent[x] = this.parent[this.parent[x]];
  return x;
};
UnionFind.prototype.union = function (a, b) {
  a = this.find(a); b = this.find(b);
  if (a !== b) { this.parent[a] = b; this.count--; }
};
Array.prototype.last = function () { return this[this.length - 1]; };
const L = require('fs').readFileSync('/dev/stdin', 'utf8').split('\n');
const [n, m] = L[0].split(' ').map(Number);
const u = new UnionFind(n);
L.slice(1, m + 1).forEach((l) => { const [a, b] = l.split(' '); u.union(a - 1, b - 1); });
console.log(u.count, [1, 2, 3].last());
/* cases
wrong: this.count-- >>> this.count -= 0
case: 5 3|1 2|4 5|2 1 => 3 3
*/
