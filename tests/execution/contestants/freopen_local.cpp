#include <bits/stdc++.h>
using namespace std;

int main() {
#ifndef ONLINE_JUDGE
    freopen("input.txt", "r", stdin);
    freopen("output.txt", "w", stdout);
#endif
    int n;
    scanf("%d", &n);
    map<string, int> m;
    for (int i = 0; i < n; i++) {
        char buf[64];
        scanf("%s", buf);
        int &c = m[buf];
        if (c) printf("%s%d\n", buf, c); else puts("OK");
        c++;
    }
}
/* cases
wrong: c++; >>> c = 1;
case: 4|ann|bob|ann|ann => OK|OK|ann1|ann2
*/
