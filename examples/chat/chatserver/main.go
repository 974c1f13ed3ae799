// Command chatserver serves chat rooms, and the page to chat, with the flags of greenroom host.
//
//	go run ./examples/chat/chatserver STORE
package main

import (
	"github.com/greenroomdb/greenroom/examples/chat"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/serve"
)

func main() {
	(&serve.Config{Types: []*host.Type{chat.Room()}, Pages: chat.Page()}).Main()
}
