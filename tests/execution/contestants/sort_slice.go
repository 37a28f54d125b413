package main

import (
	"fmt"
	"sort"
	"strings"
)

type team struct {
	name   string
	points int
	diff   int
}

func main() {
	var n int
	fmt.Scan(&n)
	teams := map[string]*team{}
	get := func(s string) *team {
		if teams[s] == nil {
			teams[s] = &team{name: s}
		}
		return teams[s]
	}
	for ; n > 0; n-- {
		var a, b string
		var x, y int
		fmt.Scan(&a, &x, &y, &b)
		p, q := get(a), get(b)
		p.diff, q.diff = p.diff+x-y, q.diff+y-x
		if x > y {
			p.points += 3
		} else if x < y {
			q.points += 3
		} else {
			p.points++
			q.points++
		}
	}
	list := []*team{}
	for _, t := range teams {
		list = append(list, t)
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.points != b.points {
			return a.points > b.points
		}
		if a.diff != b.diff {
			return a.diff > b.diff
		}
		return strings.ToLower(a.name) < strings.ToLower(b.name)
	})
	for i, t := range list {
		fmt.Printf("%d) %-5s|%3d%+3d\n", i+1, t.name, t.points, t.diff)
	}
}
/* cases
wrong: a.diff > b.diff >>> a.diff < b.diff
separator: /
case: 3/Reds 2 1 Blues/Blues 3 0 Greens/Greens 1 1 Reds => 1) Reds |  4 +1/2) Blues|  3 +2/3) Greens|  1 -3
case: 2/A 1 0 B/C 5 0 D => 1) C    |  3 +5/2) A    |  3 +1/3) B    |  0 -1/4) D    |  0 -5
*/
