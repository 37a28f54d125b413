#include <iostream>
#include <memory>
#include <string>
#include <array>
struct Node {
    std::array<std::unique_ptr<Node>, 2> ch;
    int cnt = 0;
};
int main() {
    auto root = std::make_unique<Node>();
    auto add = [&](unsigned x, int d) {
        Node *u = root.get();
        for (int b = 29; b >= 0; --b) {
            auto &c = u->ch[x >> b & 1];
            if (!c) c = std::make_unique<Node>();
            u = c.get();
            u->cnt += d;
        }
    };
    int q; char op; unsigned x;
    std::cin >> q;
    add(0, 1);
    while (q-- && std::cin >> op >> x) {
        if (op == '+') add(x, 1);
        else if (op == '-') add(x, -1);
        else {
            unsigned r = 0; Node *u = root.get();
            for (int b = 29; b >= 0; --b) {
                int w = !(x >> b & 1);
                if (!u->ch[w] || !u->ch[w]->cnt) w ^= 1; else r |= 1u << b;
                u = u->ch[w].get();
            }
            std::cout << r << '\n';
        }
    }
}
/* cases
wrong: || !u->ch[w]->cnt >>> || false
case: 6|+ 8|+ 9|? 3|- 9|? 3|? 8 => 11|11|8
case: 5|+ 4|- 4|? 1|+ 2|? 1 => 1|3
*/
