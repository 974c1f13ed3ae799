package main

import (
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/hosttest"
)

func TestTodo(t *testing.T) {
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		shop := e.Actor("todo", "shop")
		sweep := hosttest.Call[int64](shop, "add", Task{Text: "sweep"})
		hosttest.Call[int64](shop, "add", Task{Text: "order tea"})
		hosttest.Call[int64](shop, "add", Task{Text: "call the plumber", Urgent: true})
		hosttest.Call[any](shop, "finish", sweep)
		if _, err := shop.Do("finish", 7); host.Code(err) != "no_such_task" {
			t.Error(err)
		}
		e.Crash()
		want := []Task{{3, "call the plumber", true, false}, {2, "order tea", false, false}, {1, "sweep", false, true}}
		if got := hosttest.Call[[]Task](shop, "tasks", nil); !slices.Equal(got, want) {
			t.Errorf("%+v", got)
		}
	}, todo)
}

// TestTodoVersions has a list that the first version of the program wrote.
func TestTodoVersions(t *testing.T) {
	first := &host.Type{Name: "todo", Migrations: todoVersions[:1], Actions: []host.AnyAction{
		host.NewCommand("add", func(c *host.Context, text string) error {
			_, err := c.Exec("insert into task(text) values (?)", text)
			return err
		}),
	}}
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		shop := e.Actor("todo", "shop")
		hosttest.Call[any](shop, "add", "sweep")
		e.Types = []*host.Type{todo}
		e.Restart()
		if got := hosttest.Call[[]Task](shop, "tasks", nil); !slices.Equal(got, []Task{{ID: 1, Text: "sweep"}}) {
			t.Errorf("%+v", got)
		}
	}, first)
}
