#include <bits/stdc++.h>
using namespace std;
namespace suffix {
vector<int> build(const string &s) {
    int n = s.size();
    vector<int> sa(n), rk(s.begin(), s.end()), tmp(n);
    iota(sa.begin(), sa.end(), 0);
    for (int k = 1;; k <<= 1) {
        auto key = [&](int i) { return make_pair(rk[i], i + k < n ? rk[i + k] : -1); };
        sort(sa.begin(), sa.end(), [&](int a, int b) { return key(a) < key(b); });
        tmp[sa[0]] = 0;
        for (int i = 1; i < n; i++) tmp[sa[i]] = tmp[sa[i - 1]] + (key(sa[i - 1]) < key(sa[i]));
        rk = tmp;
        if (rk[sa[n - 1]] == n - 1) return sa;
    }
}
}
int main() {
    string s; cin >> s;
    for (int i : suffix::build(s)) cout << i << " ";
    cout << endl;
}
/* cases
wrong: (key(sa[i - 1]) < key(sa[i])) >>> 1
case: banana => 5 3 1 0 4 2
*/
