package main

import "fmt"

type Number interface {
	~int | ~int64 | ~float64
}

func Map[T, U any](xs []T, f func(T) U) []U {
	out := make([]U, 0, len(xs))
	for _, x := range xs {
		out = append(out, f(x))
	}
	return out
}

func Sum[T Number](xs ...T) (s T) {
	for _, x := range xs {
		s += x
	}
	return
}

type Stack[T any] struct{ items []T }

func (s *Stack[T]) Push(x T) { s.items = append(s.items, x) }
func (s *Stack[T]) Pop() (T, bool) {
	var zero T
	if len(s.items) == 0 {
		return zero, false
	}
	x := s.items[len(s.items)-1]
	s.items = s.items[:len(s.items)-1]
	return x, true
}

func main() {
	var n int
	fmt.Scanln(&n)
	st := &Stack[int]{}
	for i := 1; i <= n; i++ {
		st.Push(i * i)
	}
	fmt.Println(Sum(st.items...), Map(st.items, func(x int) string { return fmt.Sprint("#", x) }))
	for x, ok := st.Pop(); ok; x, ok = st.Pop() {
		fmt.Printf("%d;", x)
	}
}
/* cases
wrong: s += x >>> s = x
case: 3 => 14 [#1 #4 #9]|9;4;1;
*/
