#include <iostream>
#include <map>
#include <string>
#include <variant>
#include <vector>
using namespace std;
template <class... Ts> struct overloaded : Ts... { using Ts::operator()...; };
template <class... Ts> overloaded(Ts...) -> overloaded<Ts...>;
struct Push { int v; }; struct Add {}; struct Dup {};
using Op = variant<Push, Add, Dup>;
int main() {
    vector<Op> prog; string w;
    map<string, Op> table{{"add", Add{}}, {"dup", Dup{}}};
    while (cin >> w) { if (auto it = table.find(w); it != table.end()) prog.push_back(it->second); else prog.push_back(Push{stoi(w)}); }
    vector<int> st;
    for (auto &op : prog)
        visit(overloaded{[&](Push p) { st.push_back(p.v); },
                         [&](Add) { int b = st.back(); st.pop_back(); st.back() += b; },
                         [&](Dup) { st.push_back(st.back()); }}, op);
    for (int x : st) cout << x << " ";
}
/* cases
wrong: st.back() += b >>> st.back() -= b
case: 3 dup add 4 dup add add => 14
*/
