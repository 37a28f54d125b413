#include <bits/stdc++.h>
#define FAST ios_base::sync_with_stdio(0), cin.tie(0), cout.tie(0)
using namespace std;
int main() {
    FAST;
    int n, q;
    cin >> n >> q;
    vector<int> v(n);
    for (int &i : v) cin >> i;
    sort(v.begin(), v.end());
    while (q--) {
        int l, r;
        cin >> l >> r;
        cout << upper_bound(v.begin(), v.end(), r) - lower_bound(v.begin(), v.end(), l) << " \n"[q == 0];
    }
}
/* cases
wrong: upper_bound >>> lower_bound
case: 5 3|10 1 10 3 4|1 10|2 3|11 20 => 5 1 0
*/
