package keys_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
)

// The names that elements of keys have. Small integers are two bytes in every key.
const (
	nameRooms   = 1
	nameMessage = 1
	nameSeen    = 2
	nameTopic   = 3
)

// InRoom is the subspace (rooms, room[, day]): all that belongs to a room, or what is
// of one day.
type InRoom struct {
	Room string
	Day  *int64 // since 1970; nil: all days
}

func (s *InRoom) Elements(e *keys.Elements) {
	e.Const(nameRooms)
	e.String(&s.Room)
	keys.Optional(e, &s.Day, e.Int64)
}

// MessageKey is (rooms, room, day, message, number) → Message.
type MessageKey struct {
	Room   string
	Day    int64
	Number int64
}

type Message struct{ From, Text string }

func (k *MessageKey) Elements(e *keys.Elements) {
	e.Const(nameRooms)
	e.String(&k.Room)
	e.Int64(&k.Day)
	e.Const(nameMessage)
	e.Int64(&k.Number)
}

func (MessageKey) Value() keys.Codec[Message] { return keys.JSON[Message]() }

// In returns the subspace of the room, and OnDay that of a day in it.
func (k MessageKey) In() tuple.Subspace    { return keys.Sub(InRoom{Room: k.Room}) }
func (k MessageKey) OnDay() tuple.Subspace { return keys.Sub(InRoom{k.Room, &k.Day}) }

// SeenKey is (rooms, room, day, seen, name) → when.
type SeenKey struct {
	Room string
	Day  int64
	Who  string
}

func (k *SeenKey) Elements(e *keys.Elements) {
	e.Const(nameRooms)
	e.String(&k.Room)
	e.Int64(&k.Day)
	e.Const(nameSeen)
	e.String(&k.Who)
}

func (SeenKey) Value() keys.Codec[time.Time] { return keys.Time() }

// chat is a database with two days of a room in it. Its transactions are run once, however
// long the machine takes.
func chat(ctx context.Context) *txn.DB {
	db, err := txn.New(memkv.New(), &txn.Options{MaxAge: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(ctx, func(tx *txn.Tx) error {
		for i, text := range []string{"hello", "anybody here?", "yes", "good morning"} {
			k := MessageKey{Room: "lobby", Day: 20_000 + int64(i/3), Number: int64(i)}
			if err := keys.Put(tx, k, Message{"Ada", text}); err != nil {
				return err
			}
		}
		return keys.Put(tx, SeenKey{"lobby", 20_000, "Grace"}, time.Date(2024, 10, 4, 12, 0, 0, 0, time.UTC))
	})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// A type of keys is a struct with two methods. Then its keys can be put and got, and
// are found among others in a subspace.
func ExampleKey() {
	ctx := context.Background()
	db := chat(ctx)
	defer db.Engine().Close()

	err := db.View(ctx, func(tx *txn.Tx) error {
		message, err := keys.Get(ctx, tx, MessageKey{"lobby", 20_000, 1})
		if err != nil {
			return err
		}
		fmt.Println(message.From, "asks:", message.Text)

		day := MessageKey{Room: "lobby", Day: 20_000}.OnDay()
		for item, err := range keys.All[MessageKey](ctx, tx, day, nil) {
			if err != nil {
				return err
			}
			fmt.Println(item.Key.Number, item.Value.Text)
		}
		// What lies in the same subspace is skipped, because it says that it is
		// something else.
		for item, err := range keys.All[SeenKey](ctx, tx, day, nil) {
			if err != nil {
				return err
			}
			fmt.Println(item.Key.Who, "looked at", item.Value.Format(time.TimeOnly))
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// Ada asks: anybody here?
	// 0 hello
	// 1 anybody here?
	// 2 yes
	// Grace looked at 12:00:00
}

// Several types in one scan.
func ExampleWalk() {
	ctx := context.Background()
	db := chat(ctx)
	defer db.Engine().Close()

	err := db.View(ctx, func(tx *txn.Tx) error {
		return keys.Walk(ctx, tx, MessageKey{Room: "lobby"}.In(), nil,
			keys.On(func(k MessageKey, m Message) error {
				fmt.Println("message", k.Number, m.Text)
				return nil
			}),
			keys.On(func(k SeenKey, when time.Time) error {
				fmt.Println("seen by", k.Who)
				return nil
			}))
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// message 0 hello
	// message 1 anybody here?
	// message 2 yes
	// seen by Grace
	// message 3 good morning
}

// What takes longer than a transaction may is done in several, each of which says
// where the next one goes on.
func ExamplePage() {
	ctx := context.Background()
	db := chat(ctx)
	defer db.Engine().Close()

	var place keys.Cursor
	for done := false; !done; {
		var page []keys.Item[MessageKey, Message]
		var next keys.Cursor
		err := db.View(ctx, func(tx *txn.Tx) (err error) {
			opts := keys.PageOptions{Budget: 2500 * time.Millisecond}
			opts.Limit, opts.After = 3, place
			page, next, err = keys.Page[MessageKey](ctx, tx, tuple.Subspace{}, &opts)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("a page of", len(page))
		place, done = next, next == nil
	}
	// Output:
	// a page of 3
	// a page of 1
}

// TopicKey is (rooms, room, topic) → a text of any length.
type TopicKey struct{ Room string }

func (k *TopicKey) Elements(e *keys.Elements) {
	e.Const(nameRooms)
	e.String(&k.Room)
	e.Const(nameTopic)
}

func (TopicKey) Value() keys.Codec[string] { return keys.Chunked(keys.String()) }

// A value that is too large for one entry is stored in pieces.
func ExampleChunked() {
	ctx := context.Background()
	db := chat(ctx)
	defer db.Engine().Close()

	long := fmt.Sprintf("%150000d", 1)
	err := db.Update(ctx, func(tx *txn.Tx) error { return keys.Put(tx, TopicKey{"lobby"}, long) })
	if err != nil {
		log.Fatal(err)
	}
	topic, err := keys.Get(ctx, db.Engine(), TopicKey{"lobby"})
	fmt.Println(len(topic), err)
	// Output: 150000 <nil>
}

// VoteKey is (choice) → how often it was chosen.
type VoteKey struct{ Choice string }

func (k *VoteKey) Elements(e *keys.Elements) { e.String(&k.Choice) }
func (VoteKey) Value() keys.Codec[int64]     { return keys.Counter() }

// In a scope, keys begin where the subspace ends.
func ExampleIn() {
	ctx := context.Background()
	db := chat(ctx)
	defer db.Engine().Close()

	votes := tuple.NewSubspace(tuple.Tuple{"votes"})
	for _, choice := range []string{"tea", "coffee", "tea"} {
		err := db.Update(ctx, func(tx *txn.Tx) error { return keys.Add(keys.In(tx, votes), VoteKey{choice}, 1) })
		if err != nil {
			log.Fatal(err)
		}
	}
	err := db.View(ctx, func(tx *txn.Tx) error {
		for item, err := range keys.All[VoteKey](ctx, keys.In(tx, votes), tuple.Subspace{}, nil) {
			if err != nil {
				return err
			}
			fmt.Println(item.Key.Choice, item.Value)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// coffee 1
	// tea 2
}
