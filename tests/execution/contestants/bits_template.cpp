#include <bits/stdc++.h>
using namespace std;
#define int long long
#define pb push_back
#define all(x) (x).begin(), (x).end()
#define rep(i, a, b) for (int i = (a); i < (b); ++i)
typedef pair<int, int> pii;

void solve() {
    int n, k;
    cin >> n >> k;
    vector<int> a(n);
    for (auto &x : a) cin >> x;
    sort(all(a), greater<int>());
    int s = 0;
    rep(i, 0, k) s += a[i];
    cout << s << '\n';
}

signed main() {
    ios_base::sync_with_stdio(false);
    cin.tie(NULL);
    int t = 1;
    cin >> t;
    while (t--) solve();
    return 0;
}
/* cases
wrong: greater<int>() >>> less<int>()
case: 2|4 2|1 9 3 7|3 3|1000000000 1000000000 1000000000 => 16|3000000000
*/
