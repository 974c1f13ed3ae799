package main

import (
	"database/sql"
	"errors"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
)

// A Task is what is to be done in the shop.
type Task struct {
	ID     int64  `json:"id"`
	Text   string `json:"text"`
	Urgent bool   `json:"urgent"`
	Done   bool   `json:"done"`
}

// todo is the type of lists of tasks.
var todo = &host.Type{Name: "todo", Migrations: todoVersions, Actions: []host.AnyAction{addTask, finishTask, tasks}}

// todoVersions are those of the schema. One that was released stays as it is.
var todoVersions = greenroom.Migrations{
	{Version: 1, Name: "tasks", SQL: "create table task(id integer primary key, text text not null, done integer not null default 0)"},
	{Version: 2, Name: "urgent", SQL: "alter table task add column urgent integer not null default 0"},
}

// addTask returns the ID of the task.
var addTask = host.NewAction("add", func(c *host.Context, t Task) (id int64, err error) {
	return id, c.QueryRow("insert into task(text, urgent) values (?, ?) returning id", t.Text, t.Urgent).Scan(&id)
})

var finishTask = host.NewCommand("finish", func(c *host.Context, id int64) error {
	err := c.QueryRow("update task set done = 1 where id = ? returning id", id).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return &host.Error{Code: "no_such_task", Message: "There is no such task."}
	}
	return err
})

// tasks returns all of them, the urgent ones first and the finished ones last.
var tasks = host.NewAction("tasks", func(c *host.Context, _ struct{}) ([]Task, error) {
	return greenroom.Select[Task](c, "select id, text, urgent, done from task order by done, urgent desc, id")
})
