//go:build js

// The program that a browser runs for the playground: it answers requests until its worker ends.
package main

import (
	"encoding/json"
	"syscall/js"

	"github.com/fescue-dev/fescue/hack/playground"
)

// main gives JavaScript the function fescue(request, send): send gets each part of the answer. Both are JSON. The
// function itself returns at once, because Go must not block what calls it.
func main() {
	js.Global().Set("fescue", js.FuncOf(func(_ js.Value, args []js.Value) any {
		request, send := args[0].String(), args[1]
		go answer(request, func(part []byte) { send.Invoke(string(part)) })
		return nil
	}))
	select {}
}

func answer(text string, send func(part []byte)) {
	var request playground.Request
	if err := json.Unmarshal([]byte(text), &request); err != nil {
		panic(err) // the page writes it
	}
	playground.Answer(request, func(p playground.Part) {
		part, err := json.Marshal(p)
		if err != nil {
			panic(err) // it was read from YAML, or from CUE
		}
		send(part)
	})
}
