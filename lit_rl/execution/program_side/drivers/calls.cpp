// Makes the calls in standard input, one per line, with the function's types; answers each by a line in descriptor 3.
// Few headers: a program that is using namespace std may declare names that further headers declare, too.
#include <charconv>
#include <cstdio>
#include <cxxabi.h>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace lit_rl {
using Json = std::string_view;  // what is left of a line
struct NotCarried {};
#define LIT_RL_HAS(name, ...) \
    template <class T, class = void> constexpr bool name = false; \
    template <class T> constexpr bool name<T, std::void_t<__VA_ARGS__>> = true;
LIT_RL_HAS(is_optional, decltype(std::declval<T>().has_value()))
LIT_RL_HAS(is_tuple, decltype(std::tuple_size<T>::value))
LIT_RL_HAS(is_map, typename T::mapped_type)
LIT_RL_HAS(is_list, decltype(std::declval<T>().insert(std::declval<T>().end(), std::declval<typename T::value_type>())))
LIT_RL_HAS(is_unordered, typename T::hasher)
template <class T> constexpr bool is_text = std::is_convertible_v<T, std::string_view>;

std::string named(const std::type_info &type) {
    int status;
    return abi::__cxa_demangle(type.name(), 0, 0, &status);
}

char next(Json &given) {
    given.remove_prefix(std::min(given.find_first_not_of(" ,:"), given.size()));
    return given.empty() ? 0 : given[0];
}

std::string text(Json &given) {
    std::string read;
    for (given.remove_prefix(1); given[0] != '"'; given.remove_prefix(1)) {
        size_t known = Json("ntrbfu").find(given[given[0] == '\\']);
        if (given[0] != '\\') {
            read += given[0];
            continue;
        }
        given.remove_prefix(1);
        read += known < 5 ? "\n\t\r\b\f"[known] : known == 5 ? std::stoi(std::string(given.substr(1, 4)), 0, 16) : given[0];
        if (known == 5) given.remove_prefix(4);  // only control characters are escaped
    }
    given.remove_prefix(1);
    return read;
}

template <class T> T read(Json &given);

template <class T, size_t... I> T items(Json &given, std::index_sequence<I...>) {
    return T{read<std::decay_t<std::tuple_element_t<I, T>>>(given)...};
}

template <class T> T key(Json &given) {
    if constexpr (is_text<T> || std::is_same_v<T, char>) return read<T>(given);
    std::string name = text(given);
    Json inside = name;
    return read<T>(inside);
}

template <class T> T read(Json &given) {
    char first = next(given);
    Json all = given;
    given.remove_prefix(!given.empty());
    if constexpr (std::is_same_v<T, bool>) {
        if (first == 't' || first == 'f') return given.remove_prefix(first == 't' ? 3 : 4), first == 't';
    } else if constexpr (std::is_same_v<T, char>) {
        if (std::string one = first == '"' ? text(given = all) : ""; one.size() == 1) return one[0];
    } else if constexpr (std::is_arithmetic_v<T>) {
        T number;
        auto [end, problem] = std::from_chars(all.begin(), all.end(), number);
        given = all.substr(end - all.begin());
        if (problem == std::errc() && (given.empty() || Json(",]}").find(given[0]) < 3)) return number;
    } else if constexpr (is_text<T>) {
        if (first == '"') {
            std::string &kept = *new std::string(text(given = all));  // for arguments that point to it
            if constexpr (std::is_pointer_v<T>) return kept.data();
            else return T(kept);
        }
    } else if constexpr (is_optional<T>) {
        if (first == 'n') return given.remove_prefix(3), T();
        return read<typename T::value_type>(given = all);
    } else if constexpr (is_tuple<T>) {
        if (first == '[') {
            T made = items<T>(given, std::make_index_sequence<std::tuple_size_v<T>>());
            if (next(given) == ']') return given.remove_prefix(1), made;
        }
    } else if constexpr (is_map<T> || is_list<T>) {
        T made;
        if (first == (is_map<T> ? '{' : '[')) {
            while (next(given) != ']' && given[0] != '}')
                if constexpr (is_map<T>) {
                    auto name = key<typename T::key_type>(given);
                    made.emplace(std::move(name), read<typename T::mapped_type>(given));
                } else made.insert(made.end(), read<typename T::value_type>(given));
            return given.remove_prefix(1), made;
        }
    }
    throw std::invalid_argument("an argument is no " + named(typeid(T)) + ": " + std::string(all.substr(0, 40)));
}

void close(std::string &line, char end) {
    if (line.back() == ',') line.pop_back();
    line += end;
}

template <class T> void write(std::string &line, const T &value) {
    if constexpr (std::is_same_v<T, bool>) line += value ? "true" : "false";
    else if constexpr (std::is_same_v<T, char>) write(line, Json(&value, 1));
    else if constexpr (std::is_arithmetic_v<T>) {
        char digits[64];
        if (value != value) line += "NaN";
        else if (std::is_floating_point_v<T> && value - value != 0) line += value > 0 ? "Infinity" : "-Infinity";
        else line.append(digits, std::to_chars(digits, std::end(digits), value).ptr);
    } else if constexpr (is_text<T>) {
        if constexpr (std::is_pointer_v<T>) if (!value) return void(line += "null");
        line += '"';
        for (unsigned char one : Json(value)) {
            char code[8];
            if (one >= ' ' && one != '"' && one != '\\') line += one;
            else line.append(code, snprintf(code, sizeof code, "\\u%04x", one));
        }
        line += '"';
    } else if constexpr (is_optional<T>) {
        if (value) write(line, *value);
        else line += "null";
    } else if constexpr (is_tuple<T>) {
        line += '[';
        std::apply([&](auto &...item) { ((write(line, item), line += ','), ...); }, value);
        close(line, ']');
    } else if constexpr (is_map<T>) {
        line += '{';
        for (auto &[name, item] : value) {
            std::string key;
            write(key, name);
            if (key[0] == '"') line += key;
            else write(line, key);
            write(line += ':', item);
            line += ',';
        }
        close(line, '}');
    } else if constexpr (is_unordered<T>) {
        write(line, std::multiset<typename T::value_type>(value.begin(), value.end()));
    } else if constexpr (is_list<T>) {
        line += '[';
        for (const typename T::value_type &item : value) write(line, item), line += ',';
        close(line, ']');
    } else throw NotCarried();
}

static std::string (*answer)(Json, bool);

// The function under test: anything that can be called, or a method, which each call invokes on a new object.
struct Function {
    template <class R, class... A> Function(R (*function)(A...)) { set<R, A...>(function); }
    template <class R, class... A> Function(R (*const *function)(A...)) { set<R, A...>(*function); }
    template <class F, class = decltype(&F::operator())> Function(F *object) { set(*object, &F::operator()); }
    template <class R, class C, class... A> Function(R (C::*method)(A...)) { set<R, A...>(on_new<C>(method)); }
    template <class R, class C, class... A> Function(R (C::*method)(A...) const) { set<R, A...>(on_new<C>(method)); }
    template <class F, class R, class C, class... A> void set(F &object, R (C::*)(A...) const) {
        set<R, A...>([&object](A... given) -> R { return object(std::forward<A>(given)...); });
    }
    template <class C, class M> static auto on_new(M method) {
        return [method](auto &&...given) -> decltype(auto) {
            static C *owner = nullptr;
            delete owner, owner = nullptr;
            return ((owner = new C())->*method)(std::forward<decltype(given)>(given)...);
        };
    }
    template <class R, class... A, class F> void set(F function) {
        static F called = function;
        answer = [](Json given, bool in_place) {
            auto values = read<std::tuple<std::decay_t<A>...>>(given);
            auto call = [](auto &...value) -> R {
                return called(static_cast<std::conditional_t<std::is_rvalue_reference_v<A>, A, decltype(value)>>(value)...);
            };
            std::string line;
            if constexpr (std::is_void_v<R>) std::apply(call, values), line = in_place ? "" : "null";
            else if (in_place) std::apply(call, values);
            else write<std::decay_t<R>>(line, std::apply(call, values));
            if constexpr (sizeof...(A) > 0) if (in_place) write(line, std::get<0>(values));
            return "[" + line + "]";
        };
    }
};

// Prints what C++ prints about an exception that ends a program.
void tell() try {
    fprintf(stderr, "terminate called after throwing an instance of '%s'\n", named(*abi::__cxa_current_exception_type()).c_str());
    throw;
} catch (const std::exception &error) {
    fprintf(stderr, "  what():  %s\n", error.what());
} catch (...) {}
}

int main() {
    std::vector<std::string> lines;  // all are read before the first call, which may switch how standard input is read
    char *line = nullptr;
    size_t room = 0;
    for (ssize_t length; (length = getline(&line, &room, stdin)) > 0;) lines.emplace_back(line, length - (line[length - 1] == '\n'));
    auto send = [](const std::string &line) { dprintf(3, "%s\n", line.c_str()); };
    send("{}");
    bool told = false;
    for (size_t i = 1; i < lines.size(); i++)
        try {
            send(lit_rl::answer(lines[i], lines[0].back() == '1'));
        } catch (const lit_rl::NotCarried &) {
            send(R"({"types":["NotCarried"],"message":"no JSON"})");
        } catch (...) {
            send(R"({"types":[]})");
            if (!told) lit_rl::tell();
            told = true;
        }
    return 0;
}

#define main lit_rl_main
#include "program.cpp"
#undef main
using lit_rl_kind = decltype(&::ENTRY);  // one function, neither overloaded nor a template
lit_rl::Function lit_rl_function(&::ENTRY);
