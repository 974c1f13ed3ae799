// Package chat is a chat room: an actor that keeps its messages in SQLite, sends new ones
// to all connections, and sleeps between messages, however many guests are connected. The
// page that goes with it is in Page.
//
// It is an example, to be read beside docs/front.md, and what greenroom host --demo
// serves. It doesn't check names: a guest that says to be Ann is Ann.
package chat

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
)

// roomType is the name of the type.
const roomType = "chat"

// Bounds of what may be said.
const (
	maxName    = 40   // characters
	maxText    = 2000 // characters
	maxKey     = 64   // bytes
	maxHistory = 200  // messages at once
)

// A message is what a guest said.
type message struct {
	ID   int64  `json:"id"` // grows by one
	At   int64  `json:"at"` // Unix milliseconds
	Name string `json:"name"`
	Text string `json:"text"`
}

// A hello is what a client gives when it connects.
type hello struct {
	Name string `json:"name"`
	// Since is the newest message that the client has, 0 for none.
	Since int64 `json:"since"`
}

// A saying is what a guest wants to say.
type saying struct {
	Text string `json:"text"`
	// Key is the client's own for this message, and makes it safe to send it again when the
	// answer was lost: the same key says nothing twice. Empty for none.
	Key string `json:"key"`
	// Name is used without a connection; otherwise the connection's name counts.
	Name string `json:"name"`
}

// The actions of a room.
var (
	// Say says something, and returns the message.
	Say = host.NewAction("say", say)
	// History returns the messages behind the one with that id, up to 200.
	History = host.NewAction("history", history)
	// People returns the names of the guests that are connected, or may come back.
	People = host.NewAction("people", people)
)

// Room returns the type: rooms with the actions Say, History and People. Clients get the
// event "message" for each message, and "history" when they join: the newest 200, or what
// History returns for hello.Since.
func Room() *host.Type {
	return &host.Type{
		Name:    roomType,
		Create:  create,
		Actions: []host.AnyAction{Say, History, People},
		Connect: connect,
	}
}

// create makes the table, in the transaction in which the room comes to be.
func create(c *host.Context) error {
	_, err := c.Exec(`create table message(
		id integer primary key, at integer not null, name text not null, text text not null, key text unique)`)
	return err
}

// connect lets a guest in. The name is kept with the connection, for as long as that
// exists: also while the room sleeps, and after a restart.
func connect(c *host.Context, n *host.Conn) error {
	var hello hello
	if err := n.Parameters(&hello); err != nil {
		return &host.Error{Code: "bad_arguments", Message: "To join takes a name.", Err: err}
	}
	name, err := checkName(hello.Name)
	if err != nil {
		return err
	}
	query, since := behind, hello.Since
	if since <= 0 {
		query = newest
	}
	missed, err := greenroom.Select[message](c, query, since, maxHistory)
	if err != nil {
		return err
	}
	return errors.Join(n.SetState(name), n.Subscribe("message"), n.Send("history", missed))
}

// checkName returns a name without what doesn't belong to it.
func checkName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" || utf8.RuneCountInString(name) > maxName {
		return "", &host.Error{Code: "bad_name", Message: "A name has between 1 and 40 characters."}
	}
	return name, nil
}

// say adds a message and broadcasts it, which waits until the message is durable.
func say(c *host.Context, s saying) (m message, err error) {
	name := s.Name
	if n := c.Conn(); n != nil {
		if err := n.State(&name); err != nil {
			return m, err
		}
	}
	if name, err = checkName(name); err != nil {
		return m, err
	}
	text := strings.TrimSpace(s.Text)
	if text == "" || utf8.RuneCountInString(text) > maxText || len(s.Key) > maxKey {
		return m, &host.Error{Code: "bad_text", Message: "A message has between 1 and 2000 characters."}
	}
	// A message that was sent again is found by its key, and not said again.
	ms, err := greenroom.Select[message](c, `select id, at, name, text from message where key = nullif(?, '')`, s.Key)
	if err != nil {
		return m, err
	}
	if len(ms) > 0 {
		return ms[0], nil
	}
	m, err = greenroom.SelectOne[message](c, `insert into message(at, name, text, key) values (?, ?, ?, nullif(?, ''))
		returning id, at, name, text`, c.Now().UnixMilli(), name, text, s.Key)
	if err != nil {
		return m, err
	}
	return m, c.Broadcast("message", m)
}

// Queries for messages behind one, no more than so many: the oldest, and the newest.
const (
	behind = `select id, at, name, text from message where id > ? order by id limit ?`
	newest = `select * from (select id, at, name, text from message where id > ? order by id desc limit ?) order by id`
)

// history returns the messages behind one. A caller that gets a full page asks again.
func history(c *host.Context, since int64) ([]message, error) {
	return greenroom.Select[message](c, behind, since, maxHistory)
}

// people returns the names of the guests that are connected, or may come back.
func people(c *host.Context, _ struct{}) ([]string, error) {
	names := []string{}
	for _, n := range c.Connections() {
		var name string
		if err := n.State(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}
