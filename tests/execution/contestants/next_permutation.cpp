#include <bits/stdc++.h>
using namespace std;
#define trav(a, x) for (auto &a : x)
#define F0R(i, n) for (int i = 0; i < (n); i++)
int main() {
    string s; cin >> s; sort(begin(s), end(s));
    vector<string> out;
    do out.push_back(s); while (next_permutation(begin(s), end(s)));
    cout << out.size() << '\n';
    F0R(i, min<int>(3, out.size())) cout << out[i] << '\n';
    trav(x, out) if (is_sorted(x.rbegin(), x.rend())) cerr << "last " << x << '\n';
}
/* cases
wrong: min<int>(3, out.size()) >>> min<int>(2, out.size())
case: baa => 3|aab|aba|baa
case: cba => 6|abc|acb|bac
*/
