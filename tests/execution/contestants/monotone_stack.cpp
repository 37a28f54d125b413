#include <bits/stdc++.h>
using namespace std;
int main(int argc, char **argv) {
    (void)argc; (void)argv;
    int n; scanf("%d", &n);
    vector<long long> h(n + 1, 0);
    for (int i = 0; i < n; i++) scanf("%lld", &h[i]);
    stack<int> st; long long best = 0;
    for (int i = 0; i <= n; i++) {
        while (!st.empty() && h[st.top()] >= h[i]) {
            long long H = h[st.top()]; st.pop();
            best = max(best, H * (st.empty() ? i : i - st.top() - 1));
        }
        st.push(i);
    }
    printf("%lld\n", best);
}
/* cases
wrong: i - st.top() - 1 >>> i - st.top()
case: 6|2 1 5 6 2 3 => 10
case: 1|7 => 7
*/
