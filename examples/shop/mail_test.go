package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host/hosttest"
	"github.com/greenroomdb/greenroom/queue"
)

func TestMailbox(t *testing.T) {
	attempts := map[string]int{}
	send := func(_ context.Context, m Mail) error {
		attempts[m.To]++
		switch {
		case m.To == "eve":
			return queue.Permanent(errors.New("no such address"))
		case m.To == "carl", m.To == "bob" && attempts["bob"] < 3:
			return errors.New("the server is busy")
		}
		return nil
	}
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		shop := e.Actor("mailbox", "shop")
		for _, to := range []string{"ann", "bob", "carl", "eve"} {
			shop.Send("mail", Mail{To: to})
			e.Advance(time.Second / 2) // so that one is sent at a time
		}
		e.Crash()
		e.Advance(10 * time.Minute)
		want := []Returned{{Mail{To: "eve"}, "no such address"}, {Mail{To: "carl"}, "the server is busy"}}
		if got := hosttest.Call[[]Returned](shop, "returned", nil); !slices.Equal(got, want) {
			t.Errorf("%+v", got)
		}
		if attempts["ann"] != 1 || attempts["bob"] != 3 || attempts["carl"] != 5 || attempts["eve"] != 1 {
			t.Error(attempts)
		}
	}, mailboxes(send))
}
