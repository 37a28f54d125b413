let buf = '';
process.stdin.on('readable', () => { let c; while ((c = process.stdin.read()) !== null) buf += c; });
process.stdin.on('end', () => {
  const m = buf.match(/-?\d+/g) ?? [];
  const a = m.map(Number).slice(1);
  const uniq = [...new Set(a)].sort((x, y) => x - y);
  const rank = new Map(uniq.map((v, i) => [v, i]));
  console.log(...a.map((x) => rank.get(x)));
});
/* cases
wrong: .sort((x, y) => x - y) >>> .sort()
case: 4|10 9 10 -2 => 2 1 2 0
*/
