package main

import (
	"container/heap"
	"fmt"
)

type Item struct {
	node, dist int
}
type PQ []Item

func (p PQ) Len() int            { return len(p) }
func (p PQ) Less(i, j int) bool  { return p[i].dist < p[j].dist }
func (p PQ) Swap(i, j int)       { p[i], p[j] = p[j], p[i] }
func (p *PQ) Push(x interface{}) { *p = append(*p, x.(Item)) }
func (p *PQ) Pop() interface{} {
	old := *p
	x := old[len(old)-1]
	*p = old[:len(old)-1]
	return x
}

func main() {
	var n, m int
	fmt.Scan(&n, &m)
	g := make([][]Item, n+1)
	for i := 0; i < m; i++ {
		var a, b, w int
		fmt.Scan(&a, &b, &w)
		g[a] = append(g[a], Item{b, w})
	}
	const inf = int(1e18)
	d := make([]int, n+1)
	for i := range d {
		d[i] = inf
	}
	d[1] = 0
	pq := &PQ{{1, 0}}
	for pq.Len() > 0 {
		cur := heap.Pop(pq).(Item)
		if cur.dist > d[cur.node] {
			continue
		}
		for _, e := range g[cur.node] {
			if nd := cur.dist + e.dist; nd < d[e.node] {
				d[e.node] = nd
				heap.Push(pq, Item{e.node, nd})
			}
		}
	}
	for v := 1; v <= n; v++ {
		fmt.Print(d[v]%inf, " ")
	}
	fmt.Println()
}
/* cases
wrong: nd := cur.dist + e.dist >>> nd := d[cur.node] + 1
case: 3 3|1 2 9|1 3 2|3 2 4 => 0 6 2
*/
