#include <iostream>
#include <vector>
#include <algorithm>
#ifdef LOCAL
#include "debug.h"
#else
#define debug(...) 42
#endif

template <typename T> std::ostream &operator<<(std::ostream &os, const std::vector<T> &v) {
    for (size_t i = 0; i < v.size(); i++) os << (i ? " " : "") << v[i];
    return os;
}

int main() {
    int n;
    std::cin >> n;
    std::vector<std::vector<int>> p(n);
    for (int i = 0; i < n; i++) {
        p[i].assign(i + 1, 1);
        for (int j = 1; j < i; j++) p[i][j] = p[i - 1][j - 1] + p[i - 1][j];
        debug(p[i]);
        std::cout << p[i] << std::endl;
    }
}
/* cases
wrong: p[i - 1][j - 1] + p[i - 1][j] >>> p[i - 1][j - 1] + p[i - 1][j - 1]
case: 5 => 1|1 1|1 2 1|1 3 3 1|1 4 6 4 1
*/
