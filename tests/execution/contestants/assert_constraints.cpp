#undef NDEBUG
#include <cassert>
#include <cstdint>
#include <iostream>
#include <optional>
#include <tuple>
std::tuple<int64_t, int64_t, int64_t> ext(int64_t a, int64_t b) {
    if (!b) return {a, 1, 0};
    auto [g, x, y] = ext(b, a % b);
    return {g, y, x - a / b * y};
}
std::optional<int64_t> inv(int64_t a, int64_t m) {
    auto [g, x, y] = ext(a, m);
    if (g != 1) return std::nullopt;
    assert((a * x + m * y) == 1);
    return (x % m + m) % m;
}
int main() {
    int64_t a, m;
    while (std::cin >> a >> m)
        if (auto r = inv(a, m)) std::cout << *r << '\n'; else std::cout << "none\n";
}
/* cases
wrong: (x % m + m) % m >>> x % m
case: 3 11|10 17|4 8 => 4|12|none
*/
