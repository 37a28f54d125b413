#include <bits/stdc++.h>
using namespace std;
struct Q { int l, r, id; };
int n, q, a[30005], cnt[1000005], ans[200005], cur;
inline void add(int i) { if (++cnt[a[i]] == 1) cur++; }
inline void del(int i) { if (--cnt[a[i]] == 0) cur--; }
int main() {
    ios::sync_with_stdio(false); cin.tie(nullptr);
    cin >> n; for (int i = 0; i < n; i++) cin >> a[i];
    cin >> q; vector<Q> qs(q);
    for (int i = 0; i < q; i++) { cin >> qs[i].l >> qs[i].r; qs[i].l--; qs[i].r--; qs[i].id = i; }
    const int B = max(1, (int)sqrt(n));
    sort(qs.begin(), qs.end(), [&](const Q &x, const Q &y) { return x.l / B != y.l / B ? x.l < y.l : (x.l / B & 1 ? x.r > y.r : x.r < y.r); });
    int l = 0, r = -1;
    for (auto &x : qs) {
        while (l > x.l) add(--l);
        while (r < x.r) add(++r);
        while (l < x.l) del(l++);
        while (r > x.r) del(r--);
        ans[x.id] = cur;
    }
    for (int i = 0; i < q; i++) cout << ans[i] << '\n';
}
/* cases
wrong: del(l++) >>> l++
case: 5|1 1 2 1 3|3|1 5|2 4|3 5 => 3|2|3
case: 4|1 2 1 3|3|1 1|2 2|4 4 => 1|1|1
*/
