// Command guest is the module of the tests: it does one of everything.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/greenroomdb/greenroom/host/guest"
)

// memory is what an instance remembers: how many turns it has seen, and wakes.
var memory, wakes int

func init() {
	guest.Serve(&guest.Type{
		Actions: []guest.AnyAction{
			guest.NewAction("add", add),
			guest.NewAction("total", total),
			guest.NewAction("when", when),
			guest.NewAction("memory", remember),
			guest.NewAction("wakes", func(*guest.Context, struct{}) (int, error) { return wakes, nil }),
			guest.NewAction("fail", fail),
			guest.NewAction("panic", func(*guest.Context, struct{}) (int, error) { panic("on purpose") }),
			guest.NewAction("exit", func(*guest.Context, struct{}) (int, error) { os.Exit(0); return 0, nil }),
			guest.NewAction("loop", loop),
			guest.NewAction("grow", grow),
			guest.NewAction("clock", clock),
			guest.NewAction("log", logs),
			guest.NewAction("world", world),
			guest.NewAction("self", self),
			guest.NewAction("asker", asker),
			guest.NewAction("keys", keys),
			guest.NewAction("put", put),
			guest.NewAction("label", func(c *guest.Context, kv [2]string) (string, error) { return "", c.Label(kv[0], kv[1]) }),
			guest.NewAction("count", count),
			guest.NewAction("book", book),
			guest.NewAction("sql", sql),
			guest.NewAction("query", query),
			guest.NewAction("find", find),
			guest.NewAction("send", send),
			guest.NewAction("tell", tell),
			guest.NewAction("shout", shout),
			guest.NewAction("chain", chain),
			guest.NewAction("receive", receive),
			guest.NewAction("remind", remind),
			guest.NewAction("say", say),
			guest.NewAction("kick", kick),
			guest.NewAction("people", people),
			guest.NewCommand("destroy", func(c *guest.Context, _ struct{}) error { return c.Destroy() }),
			guest.NewAction("flow", flow),
			guest.NewAction("swallowed", swallowed),
		},
		Other: func(_ *guest.Context, action string, args guest.Raw) (guest.Raw, error) {
			return guest.Encode("other " + action + fmt.Sprintf(" %x", []byte(args)))
		},
		Create:     create,
		Wake:       func(*guest.Context) error { wakes++; return nil },
		Destroy:    func(c *guest.Context) error { c.Log().Info("destroyed"); return nil },
		Connect:    connect,
		Disconnect: disconnect,
		Subscribe:  subscribe,
		Alarm: func(c *guest.Context, e guest.Event) error {
			var n int
			if err := e.Args.Decode(&n); err != nil {
				return err
			}
			_, err := add(c, n)
			return err
		},
		Message: func(c *guest.Context, m *guest.Message) error {
			if m.Name == "chain" {
				var key string
				if err := m.Decode(&key); err != nil {
					return err
				}
				_, err := chain(c, key)
				return err
			}
			if m.Name == "bad" {
				return refuse(c, m)
			}
			var n int
			if err := m.Decode(&n); err != nil {
				return err
			}
			if _, err := add(c, n); err != nil {
				return err
			}
			return c.Queue().Complete(m.Receipt, n)
		},
		MessageNames: []string{"work", "chain", "bad"},
	})
}

func main() {}

func create(c *guest.Context) error {
	_, err := c.DB().Exec("create table book(amount int unique, note text)")
	var in string
	if c.Input(&in) == nil && in == "refused" {
		return &guest.Error{Code: "bad_input", Message: "No."}
	}
	return err
}

func add(c *guest.Context, n int) (total int, err error) {
	err = guest.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
	return total, err
}

func total(c *guest.Context, _ struct{}) (int, error) { return guest.State[int](c) }

// when stores a time, and returns what is stored.
func when(c *guest.Context, at time.Time) (time.Time, error) {
	if err := guest.SetState(c, at); err != nil {
		return at, err
	}
	return guest.State[time.Time](c)
}

// remember counts in memory, and fails after that if it is told to.
func remember(c *guest.Context, how string) (int, error) {
	memory++
	if how == "refused" {
		// That the key is too long is found when the turn is to land.
		return memory, c.KV().Put(make([]byte, 5000), nil)
	}
	return memory, nil
}

func fail(c *guest.Context, code string) (int, error) {
	if err := guest.SetState(c, -1); err != nil {
		return 0, err
	}
	if code == "" {
		return 0, errors.New("a secret")
	}
	return 0, &guest.Error{Code: code, Message: "It is so."}
}

func loop(c *guest.Context, _ struct{}) (int, error) {
	if err := guest.SetState(c, -1); err != nil {
		return 0, err
	}
	for i := 0; ; i++ {
		memory += i
	}
}

func grow(*guest.Context, struct{}) (int, error) {
	var all [][]byte
	for {
		all = append(all, make([]byte, 1<<20))
		memory += len(all)
	}
}

// clock returns how much time has passed, in seconds, by sleeping two hours.
func clock(c *guest.Context, _ struct{}) (float64, error) {
	wall := time.Now()
	time.Sleep(2 * time.Hour)
	if d := time.Since(wall); d < 2*time.Hour {
		return 0, fmt.Errorf("slept %v", d)
	}
	if now := time.Now().Round(0); now.Sub(c.Now()) >= time.Millisecond {
		return 0, fmt.Errorf("it is %v in a turn of %v", now, c.Now())
	}
	return time.Now().Round(0).Sub(wall.Round(0)).Seconds(), nil
}

func logs(c *guest.Context, lines int) (int, error) {
	fmt.Println("to stdout")
	fmt.Fprint(os.Stderr, "to stderr")
	for i := range lines {
		c.Log().With("who", "guest").Warn("a line", "n", i, "actor", "forged")
	}
	return lines, nil
}

// world says what is there of it.
func world(*guest.Context, struct{}) (string, error) {
	_, file := os.ReadFile("/etc/passwd")
	made := os.WriteFile("made", nil, 0o600)
	return fmt.Sprint(file != nil, made != nil, len(os.Environ()), len(os.Args)), nil
}

func self(c *guest.Context, _ struct{}) (string, error) {
	a, id, err := c.Address()
	if err != nil {
		return "", err
	}
	var in string
	if err := c.Input(&in); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s %d %q", a.Type, a.Key, len(id), in), nil
}

// keys writes, lists in pages and removes.
func keys(c *guest.Context, n int) (found []string, err error) {
	kv := c.KV()
	for i := range n {
		if err := kv.Put(fmt.Appendf(nil, "k%03d", i), make([]byte, 100)); err != nil {
			return nil, err
		}
	}
	if err := kv.Delete([]byte("k001")); err != nil {
		return nil, err
	}
	if err := kv.DeleteRange([]byte("k003"), []byte("k005")); err != nil {
		return nil, err
	}
	if _, err := kv.Get([]byte("k001")); !errors.Is(err, guest.ErrNotFound) {
		return nil, fmt.Errorf("got %v", err)
	}
	if v, err := kv.Get([]byte("k000")); err != nil || len(v) != 100 {
		return nil, fmt.Errorf("got %d bytes, %v", len(v), err)
	}
	for _, o := range []guest.ListOptions{{Prefix: []byte("k")}, {Prefix: []byte("k"), Reverse: true, Limit: 2}} {
		for e, err := range kv.List(o) {
			if err != nil {
				return nil, err
			}
			found = append(found, string(e.Key))
		}
	}
	return found, nil
}

func put(c *guest.Context, kv [2]string) (string, error) {
	old, err := c.KV().Get([]byte(kv[0]))
	if err != nil && !errors.Is(err, guest.ErrNotFound) {
		return "", err
	}
	return string(old), c.KV().Put([]byte(kv[0]), []byte(kv[1]))
}

// count lists all keys, in pages, and returns how many bytes there were.
func count(c *guest.Context, reverse bool) (n int, err error) {
	for e, err := range c.KV().List(guest.ListOptions{Reverse: reverse}) {
		if err != nil {
			return 0, err
		}
		n += len(e.Key) + len(e.Value)
	}
	return n, nil
}

func book(c *guest.Context, amount int) (balance int, err error) {
	if _, err := c.DB().Exec("insert into book values(?, ?)", amount, "n"); err != nil {
		return 0, err
	}
	err = c.DB().QueryRow("select sum(amount) from book", nil, &balance)
	if err == nil && balance < 0 {
		err = &guest.Error{Code: "overdrawn", Message: "There isn't so much."}
	}
	return balance, err
}

// sql executes statements, and goes on after errors.
func sql(c *guest.Context, statements []string) (said []string, err error) {
	for _, s := range statements {
		r, err := c.DB().Exec(s)
		switch e := (*guest.Error)(nil); {
		case errors.As(err, &e):
			said = append(said, e.Code)
		case err != nil:
			return nil, err
		default:
			said = append(said, fmt.Sprint(r.RowsAffected))
		}
	}
	return said, nil
}

func query(c *guest.Context, q string) (string, error) {
	rows, err := c.DB().Query(q, 7, "text", 1.5, nil, []byte{1, 2}, true)
	if err != nil {
		return "", err
	}
	said := fmt.Sprint(rows.Columns, " ", rows.Len())
	for rows.Next() {
		var (
			i    int
			s    string
			f    float64
			none *int
			b    []byte
			t    int
		)
		if err := rows.Scan(&i, &s, &f, &none, &b, &t); err != nil {
			return "", err
		}
		said += fmt.Sprint(" ", i, s, f, none == nil, b, t)
	}
	return said, nil
}

// find returns the first column.
func find(c *guest.Context, q string) (all []string, err error) {
	rows, err := c.DB().Query(q)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var v any
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, fmt.Sprint(v))
	}
	return all, nil
}

func send(c *guest.Context, name string) (int64, error) {
	return c.Queue().Send(guest.Send{Name: name, Body: 5, Key: "once"})
}

// A letter is a number for another actor. If Code isn't "" the turn fails with it.
type letter struct {
	Type, Key, Code string
	N               int
	Delay           time.Duration
	Priority        int
}

// tell sends a letter, and returns the code of the error if there is one.
func tell(c *guest.Context, l letter) (string, error) {
	err := c.Send(guest.Address{Type: l.Type, Key: l.Key}, guest.Send{Name: "work", Body: l.N, Delay: l.Delay, Priority: l.Priority})
	var e *guest.Error
	if errors.As(err, &e) {
		return e.Code, nil
	}
	if err == nil && l.Code != "" {
		err = &guest.Error{Code: l.Code, Message: "It is so."}
	}
	return "", err
}

// shout sends until it may not, and fails with how often it could.
func shout(c *guest.Context, key string) (int, error) {
	for n := 0; ; n++ {
		err := c.Send(guest.Address{Type: "thing", Key: key}, guest.Send{Name: "work", Body: n})
		var e *guest.Error
		if errors.As(err, &e) {
			return n, &guest.Error{Code: e.Code, Message: fmt.Sprint(n)}
		}
		if err != nil {
			return n, err
		}
	}
}

// chain sends to the actor of a key, which does so to the next one. If it may not it tells
// the first one, "lobby", and returns why not.
func chain(c *guest.Context, key string) (string, error) {
	err := c.Send(guest.Address{Type: "thing", Key: key}, guest.Send{Name: "chain", Body: key + "+"})
	var e *guest.Error
	if errors.As(err, &e) {
		return e.Code, c.Send(guest.Address{Type: "thing", Key: "lobby"}, guest.Send{Name: "work", Body: 1})
	}
	return "", err
}

// refuse makes a dead letter of a message: by its error, or by giving it back.
func refuse(c *guest.Context, m *guest.Message) error {
	var how string
	if err := m.Decode(&how); err != nil {
		return err
	}
	err := &guest.Error{Code: "no_such_order", Message: how, Permanent: true}
	if how == "nack" {
		return c.Queue().Nack(m.Receipt, time.Hour, err)
	}
	return err
}

// receive takes what is there, gives the first back, and completes the others.
func receive(c *guest.Context, _ struct{}) (n int, err error) {
	ms, err := c.Queue().Receive(guest.ReceiveOptions{Names: []string{"other"}, Count: 10})
	if err != nil {
		return 0, err
	}
	for i, m := range ms {
		if i == 0 {
			err = c.Queue().Nack(m.Receipt, time.Hour, &guest.Error{Code: "busy", Message: "another time"})
		} else {
			err = c.Queue().Complete(m.Receipt, "thanks")
		}
		if err != nil {
			return 0, err
		}
	}
	left, err := c.Queue().Len()
	return 10*len(ms) + left, err
}

// remind has alarms ring: one by a name that no action has, one for an action, and one
// that is cancelled.
func remind(c *guest.Context, n int) (int, error) {
	for _, action := range []string{"ring", "add", "never"} {
		id, err := c.Schedule().After(time.Minute, action, n)
		if err != nil {
			return 0, err
		}
		if action == "never" {
			if err := c.Schedule().Cancel(id); err != nil {
				return 0, err
			}
		}
	}
	events, err := c.Schedule().List()
	return len(events), err
}

func connect(c *guest.Context, n *guest.Conn) error {
	var name string
	if err := n.Parameters(&name); err != nil {
		return err
	}
	if name == "nobody" {
		return &guest.Error{Code: "refused", Message: "Not you."}
	}
	if err := n.SetState(name); err != nil {
		return err
	}
	if err := n.Subscribe("said"); err != nil {
		return err
	}
	return n.Send("welcome", name)
}

func subscribe(c *guest.Context, n *guest.Conn, event string) error {
	if is, err := n.Caller(); err != nil || event == "secret" && (c.Caller() == nil || c.Caller().ID != "ann" || is == nil || string(is.Claims) != `{"role":"cook"}`) {
		return errors.Join(err, &guest.Error{Code: "refused", Message: "Not yours."})
	}
	return nil
}

// asker returns the id and the claims of the caller.
func asker(c *guest.Context, _ struct{}) (string, error) {
	if c.Caller() == nil {
		return "nobody", nil
	}
	return c.Caller().ID + string(c.Caller().Claims), nil
}

func disconnect(c *guest.Context, n *guest.Conn, reason string) error {
	if err := n.Disconnect("again"); err != nil { // it goes already
		return err
	}
	var name string
	if err := n.State(&name); err != nil {
		return err
	}
	return c.Broadcast("said", name+" has left: "+reason)
}

func say(c *guest.Context, text string) (string, error) {
	var name string
	if n := c.Conn(); n != nil {
		if err := n.State(&name); err != nil {
			return "", err
		}
	}
	return name, c.Broadcast("said", text)
}

// kick disconnects everybody.
func kick(c *guest.Context, reason string) (int, error) {
	all, err := c.Connections()
	if err != nil {
		return 0, err
	}
	for _, n := range all {
		if err := n.Disconnect(reason); err != nil {
			return 0, err
		}
	}
	left, err := c.Connections()
	return len(left), err
}

func people(c *guest.Context, _ struct{}) (names []string, err error) {
	all, err := c.Connections()
	for _, n := range all {
		var name string
		if err := n.State(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, err
}

func flow(c *guest.Context, in string) (string, error) {
	if err := c.StartWorkflow(in); err != nil {
		return "", err
	}
	state, _, err := c.WorkflowStatus()
	return state, err
}

// swallowed goes on after an error of the host.
func swallowed(c *guest.Context, n int) (string, error) {
	err := c.KV().Put(nil, make([]byte, n))
	var e *guest.Error
	if errors.As(err, &e) {
		return e.Code, nil
	}
	return "fine", err
}
