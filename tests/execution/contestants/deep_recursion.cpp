#include <cstdio>
#include <vector>
using namespace std;
const int N = 1000005;
vector<int> g[N];
int depth_[N];
void dfs(int v, int p) {
    for (int u : g[v]) if (u != p) { depth_[u] = depth_[v] + 1; dfs(u, v); }
}
int main() {
    int n;
    scanf("%d", &n);
    for (int i = 2; i <= n; i++) g[i - 1].push_back(i), g[i].push_back(i - 1);
    dfs(1, 0);
    printf("%d\n", depth_[n]);
    return 0;
}
/* cases
wrong: depth_[v] + 1 >>> 1
case: 300000 => 299999
case: 3 => 2
*/
