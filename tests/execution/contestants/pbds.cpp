#include <bits/stdc++.h>
#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
using namespace std;
using namespace __gnu_pbds;
template <class T> using ordered_set = tree<T, null_type, less<T>, rb_tree_tag, tree_order_statistics_node_update>;
int main() {
    ordered_set<pair<int, int>> s;
    int n; cin >> n;
    long long inv = 0;
    for (int i = 0; i < n; i++) {
        int x; cin >> x;
        inv += s.size() - s.order_of_key({x, INT_MAX});
        s.insert({x, i});
    }
    cout << inv << "\n" << s.find_by_order(n / 2)->first << endl;
}
/* cases
wrong: {x, INT_MAX} >>> {x, -1}
case: 5|3 1 2 3 1 => 5|2
*/
