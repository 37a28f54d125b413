package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

type Base struct {
	ID int `json:"id"`
}
type Event struct {
	Base
	Name  string        `json:"name"`
	Tags  []string      `json:"tags,omitempty"`
	After time.Duration `json:"-"`
}

func main() {
	var evs []Event
	if err := json.NewDecoder(os.Stdin).Decode(&evs); err != nil {
		fmt.Println("bad", err)
		return
	}
	total := 0
	for i := range evs {
		e := &evs[i]
		e.After = time.Duration(e.ID) * time.Second
		total += e.ID
		fmt.Println(e.Name, len(e.Tags), e.After)
	}
	out, _ := json.Marshal(map[string]any{"total": total, "last": evs[len(evs)-1]})
	fmt.Println(string(out))
}
/* cases
wrong: total += e.ID >>> total = e.ID
case: [{"id":90,"name":"a","tags":["x"]},{"id":5,"name":"b"}] => a 1 1m30s|b 0 5s|{"last":{"id":5,"name":"b"},"total":95}
*/
