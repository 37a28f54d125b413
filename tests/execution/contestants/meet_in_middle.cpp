#include <bits/stdc++.h>
#define fi first
#define se second
#define mp make_pair
#define sz(x) (int)(x).size()
using namespace std;
typedef long long ll; typedef vector<ll> vll;
vll sums(const vll &v) {
    vll r{0};
    for (ll x : v) { int k = sz(r); for (int i = 0; i < k; i++) r.push_back(r[i] + x); }
    sort(r.begin(), r.end());
    return r;
}
int main() {
    int n; ll t; cin >> n >> t;
    vll a(n / 2), b(n - n / 2);
    for (auto &x : a) cin >> x;
    for (auto &x : b) cin >> x;
    a = sums(a), b = sums(b);
    ll ans = 0;
    for (ll x : a) { auto r = equal_range(b.begin(), b.end(), t - x); ans += r.se - r.fi; }
    cout << ans << endl;
}
/* cases
wrong: t - x >>> t + x
case: 4 5|1 2 3 2 => 3
case: 3 0|1 1 -1 => 3
*/
