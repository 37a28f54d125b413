package main

import (
	"container/list"
	"fmt"
	"os"
	"bufio"
)

type LRU struct {
	cap int
	l   *list.List
	m   map[int]*list.Element
}

func (c *LRU) Get(k int) int {
	e, ok := c.m[k]
	if !ok {
		return -1
	}
	c.l.MoveToFront(e)
	return e.Value.([2]int)[1]
}

func (c *LRU) Put(k, v int) {
	if e, ok := c.m[k]; ok {
		e.Value = [2]int{k, v}
		c.l.MoveToFront(e)
		return
	}
	if c.l.Len() == c.cap {
		b := c.l.Back()
		delete(c.m, b.Value.([2]int)[0])
		c.l.Remove(b)
	}
	c.m[k] = c.l.PushFront([2]int{k, v})
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	c := &LRU{2, list.New(), map[int]*list.Element{}}
	for in.Scan() {
		var op string
		var k, v int
		n, _ := fmt.Sscan(in.Text(), &op, &k, &v)
		if n == 3 {
			c.Put(k, v)
		} else if n == 2 {
			fmt.Println(c.Get(k))
		}
	}
}
/* cases
wrong: c.l.Len() == c.cap >>> c.l.Len() > c.cap
case: put 1 5|put 2 6|get 1|put 3 7|get 2|get 1 => 5|-1|5
*/
