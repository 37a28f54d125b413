package main

import (
	"fmt"
	"strings"
)

type Grid [][]bool

func (g Grid) alive(y, x int) (n int) {
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			yy, xx := y+dy, x+dx
			if (dy != 0 || dx != 0) && yy >= 0 && yy < len(g) && xx >= 0 && xx < len(g[yy]) && g[yy][xx] {
				n++
			}
		}
	}
	return n
}

func main() {
	var h, steps int
	fmt.Scan(&h, &steps)
	g := make(Grid, h)
	for y := range g {
		var row string
		fmt.Scan(&row)
		for _, c := range row {
			g[y] = append(g[y], c == '#')
		}
	}
	for ; steps > 0; steps-- {
		next := make(Grid, h)
		for y, row := range g {
			for x, on := range row {
				n := g.alive(y, x)
				next[y] = append(next[y], n == 3 || on && n == 2)
			}
		}
		g = next
	}
	for _, row := range g {
		var b strings.Builder
		for _, on := range row {
			b.WriteByte(".#"[map[bool]int{true: 1}[on]])
		}
		fmt.Println(b.String())
	}
}
/* cases
wrong: n == 3 || >>> n == 4 ||
case: 3 1|.#.|.#.|.#. => ...|###|...
*/
