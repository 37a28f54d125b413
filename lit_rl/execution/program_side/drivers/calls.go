// Makes the calls in standard input, one per line, with the function's types; answers each by a line in descriptor 3.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	litRlDebug "runtime/debug" // a name that programs often declare
	"strconv"
	"strings"
)

var litRlTold bool
var litRlLetters = map[reflect.Kind]bool{} // kinds of bytes and runes that were given as texts and are written as texts

func main() {
	input, answers := bufio.NewReader(os.Stdin), os.NewFile(3, "")
	header, _ := input.ReadString('\n')
	fmt.Fprintln(answers, "{}")
	for {
		line, ended := input.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			fmt.Fprintln(answers, litRlCall(reflect.ValueOf(ENTRY), line, strings.HasSuffix(header, " 1\n")))
		}
		if ended != nil {
			os.Exit(0)
		}
	}
}

func litRlCall(function reflect.Value, line string, inPlace bool) (answer string) {
	defer func() {
		if problem := recover(); problem == "NotCarried" {
			answer = `{"types":["NotCarried"],"message":"no JSON"}`
		} else if problem != nil {
			answer = `{"types":[]}`
			if !litRlTold {
				fmt.Fprintf(os.Stderr, "panic: %v\n\n%s", problem, litRlDebug.Stack())
			}
			litRlTold = true
		}
	}()
	litRlLetters = map[reflect.Kind]bool{}
	var given []json.RawMessage
	json.Unmarshal([]byte(line), &given)
	values := make([]reflect.Value, len(given))
	for i := range given {
		kind := function.Type()
		if last := kind.NumIn() - 1; i < last || !kind.IsVariadic() {
			kind = kind.In(i)
		} else {
			kind = kind.In(last).Elem()
		}
		values[i] = litRlGiven(given[i], kind)
	}
	results := function.Call(values)
	if inPlace {
		return "[" + litRlText(values[0], 100) + "]"
	}
	parts := []string{}
	for _, result := range results {
		parts = append(parts, litRlText(result, 100))
	}
	if len(parts) == 0 {
		parts = []string{"null"}
	}
	if text := strings.Join(parts, ","); len(parts) == 1 {
		return "[" + text + "]"
	} else {
		return "[[" + text + "]]"
	}
}

func litRlGiven(given json.RawMessage, kind reflect.Type) reflect.Value {
	value := reflect.New(kind).Elem()
	var items []json.RawMessage
	if kind.Kind() == reflect.Slice && given[0] == '[' {
		json.Unmarshal(given, &items)
		value.Set(reflect.MakeSlice(kind, len(items), len(items)))
		for i := range items {
			value.Index(i).Set(litRlGiven(items[i], kind.Elem()))
		}
		return value
	}
	if isByte := kind.Kind() == reflect.Uint8; (isByte || kind.Kind() == reflect.Int32) && given[0] == '"' {
		var text string
		json.Unmarshal(given, &text)
		letters := []rune(text)
		if len(letters) != 1 || isByte && letters[0] > 127 {
			panic(fmt.Sprintf("%s is no %v", given, kind))
		}
		value.Set(reflect.ValueOf(letters[0]).Convert(kind))
		litRlLetters[kind.Kind()] = true
		return value
	}
	if problem := json.Unmarshal(given, value.Addr().Interface()); problem != nil {
		panic(problem)
	}
	return value
}

func litRlText(value reflect.Value, depth int) string {
	if !value.IsValid() {
		return "null"
	}
	if depth == 0 {
		panic("NotCarried")
	}
	if value.CanInterface() {
		switch known := value.Interface().(type) {
		case json.Marshaler: // a big.Int
			if text, problem := json.Marshal(known); problem == nil {
				return string(text)
			}
		case error:
			value = reflect.ValueOf(known.Error())
		}
	}
	if litRlLetters[value.Kind()] {
		value = value.Convert(reflect.TypeOf(""))
	}
	var parts []string
	switch value.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(value.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(value.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(value.Uint(), 10)
	case reflect.Float32, reflect.Float64:
		if number := value.Float(); math.IsInf(number, 0) {
			return strings.Trim(fmt.Sprint(number), "+") + "inity"
		}
		return strconv.FormatFloat(value.Float(), 'g', -1, value.Type().Bits())
	case reflect.String:
		text, _ := json.Marshal(value.String())
		return string(text)
	case reflect.Slice, reflect.Array:
		for i := 0; i < value.Len(); i++ {
			parts = append(parts, litRlText(value.Index(i), depth-1))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case reflect.Map:
		for _, key := range value.MapKeys() {
			name, _ := json.Marshal(fmt.Sprint(key))
			parts = append(parts, string(name)+":"+litRlText(value.MapIndex(key), depth-1))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case reflect.Struct:
		for i := 0; i < value.NumField(); i++ {
			field := value.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" {
				name = field.Name
			}
			parts = append(parts, strconv.Quote(name)+":"+litRlText(value.Field(i), depth-1))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case reflect.Pointer, reflect.Interface:
		return litRlText(value.Elem(), depth-1)
	}
	panic("NotCarried")
}
