// Command chatguest is a guest of a chat room in a terminal: it says the lines that it reads, and writes what is said.
//
//	go run ./examples/chat/chatguest http://127.0.0.1:6420 lobby Ann
//
// It may lose its host for a while: what it says is said once, and it misses nothing.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/client"
)

// A message is what was said.
type message struct {
	ID         int64
	Name, Text string
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: chatguest URL ROOM NAME")
		os.Exit(2)
	}
	if err := talk(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chatguest:", host.Message(err))
		os.Exit(1)
	}
}

// talk says the lines of in, and writes what is said, until in ends.
func talk(ctx context.Context, url, room, name string, in io.Reader, out io.Writer) error {
	c, err := client.New(url, &client.Options{Token: client.Token(os.Getenv("TOKEN"))})
	if err != nil {
		return err
	}
	me, err := c.Actor(host.Address{Type: "chat", Key: room}).Connect(ctx, &client.ConnectOptions{Params: func() any { return map[string]string{"name": name} }})
	if err != nil {
		return err
	}
	heard := make(chan error, 1)
	go func() {
		heard <- client.Follow(ctx, me, &client.Feed[message]{
			Event: "message", Action: "history", Number: func(m message) int64 { return m.ID }, Subscribed: true,
		}, func(m message) error {
			_, err := fmt.Fprintf(out, "%s: %s\n", m.Name, m.Text)
			return err
		})
	}()
	lines := bufio.NewScanner(in)
	for err == nil && lines.Scan() {
		err = me.Do(ctx, "say", map[string]string{"text": lines.Text()}, nil, nil)
	}
	me.Close()
	err = cmp.Or(err, lines.Err())
	if ended := <-heard; err == nil && !errors.Is(ended, client.ErrClosed) {
		err = ended
	}
	return err
}
